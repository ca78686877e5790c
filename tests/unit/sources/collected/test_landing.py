"""One host speaks for itself: what others brought counts whatever it says, and what it says in vain is named.

A cluster of three brokers, each collected on its own host; then one host's folder is written by somebody else.
"""

import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from pipeline.errors import InputError, StorageError
from pipeline.model.log import LogName
from pipeline.model.window import TimeWindow, format_instant
from pipeline.sources.collected.host import read_hosts, read_offset_ranges
from pipeline.sources.collected.stored_folder import StoredFolder
from pipeline.sources.records.batch_rows import LeaderEpochs
from tests.memory import tracing_memory
from tests.unit.sources.collected.disks import (
    DAY_MS,
    FIRST_MS,
    HOUR_MS,
    NOW_MS,
    SPAN,
    TOPIC_ID,
    make_batches,
    manifest_of,
    part_of,
    plan_tasks,
    read_landing,
    rewrite,
    run_collector,
    state_of,
    tell,
    weigh,
)
from tests.unit.sources.collected.forgery import (
    ALL_OFFSETS,
    BATCHES,
    END,
    FAR,
    PROBLEM,
    collect_brokers,
    offsets_of,
    own_partitions,
    read_offsets,
    read_summaries,
    repeat,
    say,
)


def claim_all(landing, host):
    """The host says that it read all partitions to the end of the world."""
    progress = [one for number in (1, 2, 3) for one in manifest_of(landing, f"broker-{number}").progress]
    claimed = [one.model_copy(update={"next_offset": FAR}) for one in progress]
    rewrite(landing, host, lambda _: {"progress": tuple(claimed)})


def test_a_host_that_says_it_read_furthest_takes_nothing_from_others(config, three):
    assert read_landing(three).collected.doubts == ()
    claim_all(three, "broker-3")
    assert read_offsets(config, three) == ALL_OFFSETS
    reading = read_landing(three)
    (problem,) = [one for one in reading.problems["collected"] if one.path == f"{three.location}/broker-3"]
    assert problem.reason.endswith("does not place on this host: orders-0, orders-1")
    (doubt,) = reading.collected.doubts
    assert doubt.startswith(f"broker-3 says it read orders-2 up to offset {FAR}, and its batches end at ")


def test_a_window_in_doubt_is_not_complete(three):
    claim_all(three, "broker-3")
    reading = read_landing(three)
    found = weigh(three, reading)
    assert (found.arrived_count, found.expected_count) == (3, 4)
    assert found.missing.startswith("not as hosts say: broker-3 says it read orders-2")


def test_an_object_that_the_store_denies_is_that_host_s_problem(monkeypatch):
    """It stopped the ingest of the whole cluster; a store that is away still does."""

    class Denying:
        said = "When reading information for key 'h/m': AWS Error ACCESS_DENIED during HeadObject operation"

        def open_input_file(self, path):
            raise OSError(self.said)

    monkeypatch.setattr(StoredFolder, "_system", Denying())
    with pytest.raises(InputError, match=r"s3a://b/h/m: the store denies access to it"):
        StoredFolder("s3a://b/h").read("m")
    monkeypatch.setattr(Denying, "said", "AWS Error NETWORK_CONNECTION")
    with pytest.raises(StorageError):
        StoredFolder("s3a://b/h").read("m")


def test_a_cluster_that_nobody_writes_to_is_as_recent_as_its_collectors(three):
    """Each night windows were told to be late, and complete again in the morning."""
    idle = TimeWindow(NOW_MS - HOUR_MS, NOW_MS)
    found = weigh(three, read_landing(three), idle)
    assert (found.newest_ms, found.missing) == (NOW_MS, "")


OLD, _ = make_batches(0, 45)
MOVED = ((FIRST_MS - HOUR_MS, state_of(1, 0)), (FIRST_MS + HOUR_MS, state_of(2, 1)))
"""Broker 1 led the partition until the second hour, broker 2 leads it since."""


def make_two(config, landing, tmp_path, base_offset, batches):
    """Broker 1 has `OLD`, broker 2 these batches of the same partition."""
    collect_brokers(config, landing, tmp_path, [(0, 0, OLD), (0, base_offset, batches)])
    for host in ("broker-1", "broker-2"):
        tell(landing, host, *MOVED)


def test_records_that_an_unclean_election_dropped_do_not_count(config, landing, tmp_path):
    """Broker 1 had 45 batches when it died; broker 2 had 20 of them, leads since then and has 5 more of its own."""
    new = [*BATCHES, *make_batches(END, 5)[0]]
    make_two(config, landing, tmp_path, 0, new)
    assert read_offsets(config, landing) == {0: offsets_of(new)}
    assert read_landing(landing).collected.doubts == ()


def test_a_leader_that_was_not_read_since_it_leads_leaves_the_place_to_the_one_before(config, landing, tmp_path):
    make_two(config, landing, tmp_path, 0, OLD[:10])
    rewrite(landing, "broker-2", lambda _: {"collected_at_ms": FIRST_MS})
    assert read_offsets(config, landing) == {0: offsets_of(OLD)}


def test_windows_that_the_leaders_log_no_longer_has_come_from_the_one_before(config, landing, tmp_path):
    """The leader's log begins in the second hour: the first comes from the leader before, of the second a part lacks."""
    offsets = offsets_of(OLD)
    make_two(config, landing, tmp_path, offsets[25], OLD[25:])
    ranges = read_offset_ranges(read_hosts(landing, SPAN, [])[0], SPAN, [("orders", TOPIC_ID, 0)])
    second_hour = ranges["orders", TOPIC_ID, 0][FIRST_MS + HOUR_MS][0]
    of_first_hour = [offset for offset in offsets if offset < second_hour]
    assert read_offsets(config, landing) == {0: [*of_first_hour, *offsets[25:]]}
    (doubt,) = read_landing(landing).collected.doubts
    lacking = f"offsets {second_hour} to {offsets[25] - 1} of {format_instant(FIRST_MS + HOUR_MS)}"
    assert doubt == f"orders-0: {lacking} are on broker-1 alone"


@pytest.mark.parametrize(
    ("is_gone", "read_ms", "counts"), [(True, NOW_MS, "new"), (True, NOW_MS - 1, "old"), (False, NOW_MS, "old")]
)
def test_a_leader_whose_log_is_gone_gives_way_to_who_leads_since_the_span(
    config, landing, tmp_path, *, is_gone, read_ms, counts
):
    """The log left its disk after the last window's end: what had been read of it hours before stood for the whole window."""
    _, end = make_batches(0, 45)
    new = [*OLD, *make_batches(end, 5)[0]]
    make_two(config, landing, tmp_path, 0, new)
    if is_gone:
        (tmp_path / "disk1/orders-0").rename(tmp_path / "disk1/orders-1")
        run_collector(config, SimpleNamespace(root=tmp_path / "disk1"), landing)
    for host in ("broker-1", "broker-2"):
        tell(landing, host, MOVED[0], (NOW_MS, state_of(2, 1)), (FIRST_MS, state_of(1, 0, partition=1)))
    rewrite(landing, "broker-2", lambda _: {"collected_at_ms": read_ms})
    assert read_offsets(config, landing)[0] == offsets_of({"old": OLD, "new": new}[counts])


FORGED = [
    ("no metadata at all", True, None, {"metadata_length": (FAR, FAR), "brokers": ()}, True),
    ("itself as the leader of all", True, FIRST_MS - HOUR_MS, {}, True),
    ("itself as leader since, which others would know", False, FIRST_MS + HOUR_MS, {}, True),
    ("a broker that nobody else knows", False, None, {"brokers": (1, 2, 3, 4)}, True),
    ("a change after all that others were collected at", False, NOW_MS + 1, {}, False),
    ("a change far in the future", False, NOW_MS + 2 * DAY_MS, {}, True),
]


@pytest.mark.parametrize(
    ("begun", "at_ms", "others", "is_refused"), [row[1:] for row in FORGED], ids=[row[0] for row in FORGED]
)
def test_metadata_is_what_most_hosts_have(config, three, *, begun, at_ms, others, is_refused):
    """`begun`: it tells nothing of before it leads all partitions."""
    mine = [state_of(3, 9, (3,), partition) for partition in (0, 1, 2)]
    changes = [] if begun else own_partitions()
    changes += [(at_ms, state) for state in mine if at_ms is not None]
    tell(three, "broker-3", *changes, **others)
    rewrite(three, "broker-3", lambda _: {"collected_at_ms": NOW_MS + 2})
    claim_all(three, "broker-3")
    reading = read_landing(three)
    refused = [one.path for one in reading.problems["collected"] if "metadata log" in one.reason]
    assert refused == [f"{three.location}/broker-3"] * is_refused
    assert [host.name for host in reading.collected.hosts] == ["broker-1", "broker-2", "broker-3"][: 3 - is_refused]
    assert read_offsets(config, three).items() >= {0: ALL_OFFSETS[0], 1: ALL_OFFSETS[1]}.items()


def test_of_two_hosts_neither_outvotes_the_other_and_the_windows_lack_it(config, landing, tmp_path):
    collect_brokers(config, landing, tmp_path, [(0, 0, BATCHES), (1, 0, BATCHES)])
    both = [(FIRST_MS - HOUR_MS, state_of(one, 0, (one,), one - 1)) for one in (1, 2)]
    tell(landing, "broker-1", *both, brokers=(1, 2))
    tell(landing, "broker-2", (FIRST_MS - HOUR_MS, state_of(2, 0, (2,), 0)), both[1], brokers=(1, 2))
    assert read_landing(landing).collected.doubts[0] == "broker-1 and broker-2 have different metadata logs"


def test_two_hosts_that_say_they_are_one_broker_are_named(config, three, disk):
    disk.write(0, b"".join(BATCHES), 10**9)
    run_collector(config, disk, three, host="another")
    tell(three, "another", *own_partitions())
    (doubt,) = read_landing(three).collected.doubts
    assert doubt.startswith("another, broker-1 say they are broker 1: delete the folder")
    assert read_offsets(config, three) == ALL_OFFSETS


def test_partitions_that_a_host_makes_up_take_no_memory(config, landing, tmp_path):
    make_two(config, landing, tmp_path, 0, BATCHES)
    part = min((tmp_path / "landing/broker-1/parts").glob("*summaries*"))
    rows = pq.read_table(part)
    rows = rows.filter(pc.equal(rows["row_kind"], "window"))
    say(landing, "broker-1", part, **repeat(part, rows, topic=["x"] * 200_000, partition=range(200_000)))
    found = read_landing(landing).collected
    with tracing_memory() as peak_bytes:
        assert found.choose(found.hosts) == found.copies
        assert peak_bytes() < 20_000_000  # a dictionary for each partition: 150 MB


def test_a_part_is_looked_through_once_however_many_partitions_are_wanted(config, three):
    task = plan_tasks(config, three)[0]
    (named,) = [part for part in task.parts if part.kind == "batches"]
    part, count = Path(task.folder.location) / named.path, 30_000
    named = named.model_copy(update=repeat(part, pq.read_table(part), partition=np.arange(10 * count) % count))
    copies = {
        LogName("orders", TOPIC_ID, number): frozenset({FIRST_MS}) if number % 2 else None for number in range(count)
    }
    leaders = LeaderEpochs({}, {("orders", number): number % 3 for number in range(count)})
    began_s = time.process_time()
    batches, *_ = replace(task, parts=(named,), copies=copies, leaders=leaders).run()
    assert time.process_time() - began_s < 10
    partitions, led = (batches.rows[name].to_numpy() for name in ("partition", "leader_id"))
    assert len(led) == 10 * count
    assert (led == partitions % 3).all()


def test_parts_by_the_ten_thousand_are_dealt_to_tasks_in_no_time_of_their_square(config, three):
    reading = read_landing(three)
    (host, *_) = reading.collected.hosts
    parts = 40_000 * (host.manifest.parts[0].model_copy(update={"size_bytes": 0}),)
    host = replace(host, manifest=host.manifest.model_copy(update={"parts": parts}))
    found = replace(reading.collected, hosts=(host, *reading.collected.hosts[1:]))
    began_s = time.process_time()
    tasks = plan_tasks(config, three, replace(reading, collected=found))
    assert time.process_time() - began_s < 10
    assert len(tasks[0].parts) == 40_000


def test_of_many_problems_of_a_part_a_thousand_are_told_and_how_many_more(config, three):
    part = part_of(three, "summaries")
    columns = {name: [text] * 3_000 for name, text in PROBLEM.items()}
    say(three, "broker-3", part, **repeat(part, pq.read_table(part), **columns, position=range(3_000)))
    found = [row for row in read_summaries(config, three, read_landing(three)) if row["row_kind"] == "problem"]
    assert len(found) == 1_001
    assert (found[-1]["path"], found[-1]["reason"]) == (str(part), "2,000 problems of this part are left out")
