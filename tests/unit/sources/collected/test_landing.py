"""One host speaks for itself: what others brought counts whatever it says, and what it says in vain is named.

A cluster of three brokers, each collected on its own host; then one host's folder is written by somebody else.
"""

import errno
import os
import shutil
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from pipeline.errors import InputError, StorageError
from pipeline.model.log import LogName
from pipeline.model.window import TimeWindow, format_instant, instant_of
from pipeline.sources.collected import collector
from pipeline.sources.collected.host import read_hosts, read_offset_ranges, read_rows
from pipeline.sources.collected.manifest import MANIFEST
from pipeline.sources.collected.stored_folder import StoredFolder
from pipeline.sources.records.batch_rows import LeaderEpochs
from pipeline.sources.records.pieces import SUMMARY_SCHEMA
from pipeline.transforms.traffic import find_disputed
from tests.engines import sail
from tests.memory import tracing_memory
from tests.unit.sources.collected.disks import (
    DAY_MS,
    FIRST_MS,
    HOUR_MS,
    NOW_MS,
    SPAN,
    TOPIC_ID,
    Disk,
    make_batches,
    manifest_of,
    part_of,
    plan_tasks,
    read_landing,
    restate,
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
    edit,
    lengthen,
    link,
    make_socket,
    multiply,
    offsets_of,
    own_partitions,
    put,
    put_problem,
    put_text,
    put_value,
    read_offsets,
    read_summaries,
    repeat,
    say,
    widen,
    write_no_text,
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


def lost_of(rows):
    return [row["reason"] for row in rows if row["row_kind"] == "shortfall"]


def test_parts_with_fewer_batches_than_were_counted_are_named(config, three):
    part = part_of(three, "batches", "broker-1")
    pq.write_table(pq.read_table(part).slice(0, 3), part)
    say(three, "broker-1", part, size_bytes=part.stat().st_size, row_count=3)
    reading = read_landing(three)
    rows = pa.Table.from_pylist(read_summaries(config, three, reading), SUMMARY_SCHEMA)
    disputed = find_disputed(sail().createDataFrame(rows), SPAN).toArrow().to_pylist()
    doubts = reading.collected.doubting((), disputed).doubts
    assert doubts
    assert all(doubt.startswith("orders-0: ") and "its parts hold" in doubt for doubt in doubts)


ODD_HOSTS = [
    ("a FIFO", put(os.mkfifo), "not a regular file"),
    ("a socket", put(make_socket), "No such device"),
    ("a folder", put(Path.mkdir), "Is a directory"),
    ("sparse, 100 GiB", put(lambda path: path.touch() or os.truncate(path, 100 << 30)), "far more than it ever has"),
    ("half a GiB of blanks in a few kB", put_text(b" " * (257 << 20)), "more than 256 MiB"),
    ("a link elsewhere", link(lambda host: host / MANIFEST), "leads out of its folder"),
    ("the host is a link elsewhere", link(lambda host: host), "leads out of the landing folder"),
    ("a part is a link elsewhere", link(lambda host: next((host / "parts").iterdir())), "parts are gone or"),
    ("empty", put(Path.touch), "not a manifest"),
    ("deeply nested", put_text(b"[" * 100_000), "not a manifest"),
    ("an unknown kind", edit('"kind":"batches"', '"kind":"x"'), "not a manifest"),
    ("a kind of rows that no collector writes", edit('"kind":"batches"', '"kind":"samples"'), "not a manifest"),
    ("a part outside", edit('"path":"parts/', '"path":"parts/../../broker-1/parts/'), "not a manifest"),
    ("an extreme instant", edit(f'"collected_at_ms":{NOW_MS}', f'"collected_at_ms":{FAR}'), "not a manifest"),
    ("a negative offset", edit('"next_offset":', '"next_offset":-'), "not a manifest"),
    ("a number of 400 digits", edit('"leader_epoch":0', '"leader_epoch":' + "9" * 400), "not a manifest"),
    ("an unpaired surrogate", edit('"host":"', '"host":"\\ud800'), "not a manifest"),
    ("a timeline of nothing", edit('"partitions":[', '"partitions":[{"moments_ms":[],"values":[]},'), "not a manifest"),
    ("moments out of order", edit('"moments_ms":[', '"moments_ms":[9,'), "not a manifest"),
]


@pytest.mark.parametrize(("act", "reason"), [row[1:] for row in ODD_HOSTS], ids=[row[0] for row in ODD_HOSTS])
def test_one_hosts_folder_stops_no_other_host(config, three, tmp_path, act, reason):
    act(tmp_path / "landing/broker-3")
    assert read_offsets(config, three).items() >= {0: ALL_OFFSETS[0], 1: ALL_OFFSETS[1]}.items()
    reading = read_landing(three)
    assert {host.name for host in reading.collected.hosts} == {"broker-1", "broker-2"}
    (problem,) = [one for one in reading.problems["collected"] if one.path == f"{three.location}/broker-3"]
    assert reason in problem.reason
    availability = weigh(three, reading)
    assert (availability.arrived_count, availability.expected_count) == (2, 3)


@pytest.mark.parametrize("name", [b"broker-\xff", b"broker\n3", b"broker-\x1b[31m3", "broker-\u202e3".encode()])
def test_a_hosts_name_that_hides_something_is_named_with_escapes(config, three, tmp_path, name):
    (tmp_path / "landing/broker-3").rename(os.fsdecode(os.fsencode(three.location) + b"/" + name))
    reading = read_landing(three)
    (problem,) = [one for one in reading.problems["collected"] if "is left out" in one.reason]
    assert problem.path.isprintable()
    assert set(read_offsets(config, three)) == {0, 1}


def test_a_host_collected_with_other_settings_is_left_out_and_named(config, three, tmp_path):
    edit('"window_ms":3600000', '"window_ms":1')(tmp_path / "landing/broker-3")
    assert set(read_offsets(config, three)) == {0, 1}
    reading = read_landing(three)
    rows = read_summaries(config, three, reading)
    assert [row["path"] for row in rows if row["row_kind"] == "problem"] == [f"{three.location}/broker-3"]
    (doubt,) = reading.collected.doubting(lost_of(rows), ()).doubts
    assert "broker-3: collected with other settings" in doubt


NONE_WRITES = "some rows have offsets, counts, sizes or texts that no collector writes"


def test_arrivals_of_an_older_collector_have_no_digest(config, three):
    part = part_of(three, "arrivals")
    rows = pq.read_table(part)
    pq.write_table(rows.drop_columns("key_digest"), part)
    say(three, "broker-3", part, size_bytes=part.stat().st_size)
    (named,) = [one for one in manifest_of(three, "broker-3").parts if one.path.endswith(part.name)]
    found = read_rows(part.read_bytes(), named, None)
    assert found.drop_columns("key_digest").equals(rows.drop_columns("key_digest"))
    assert found["key_digest"].null_count == rows.num_rows > 0
    assert read_offsets(config, three) == ALL_OFFSETS


@pytest.mark.parametrize(
    ("act", "reason"),
    [
        (lambda part: part.write_bytes(bytes(part.stat().st_size)) and {}, "no batches of a collector"),
        (multiply, "its manifest says"),
        (lambda part: multiply(part) or {"row_count": 20_000_000}, "a collector writes at most"),
        (lambda part: lengthen(part) or {"row_count": 4_000}, "its texts take more than"),
        (lambda part: lengthen(part, 8) or {"row_count": 4_000}, "its texts take more than"),
        (widen, "other columns than a collector writes"),
        (put_value("partition", 200_001), "some rows have partition outside 0 to 200000"),
        (put_value("base_offset", -1), "some rows have base_offset outside 0 to"),
        (put_value("last_offset", None), "some rows lack last_offset"),
        (put_value("size_bytes", 2**62), "some rows have size_bytes outside -1 to"),
        (put_value("last_offset", None, "summaries"), "some rows lack last_offset"),
        (put_value("first_offset", -1000, "summaries"), "some rows have first_offset outside 0 to"),
        (put_value("max_timestamp_ms", None, "summaries"), "some rows lack max_timestamp_ms"),
        (put_value("window_start_ms", FIRST_MS + 1, "summaries"), "windows do not begin as those of"),
        (put_value("window_start", instant_of(FIRST_MS + 1)), "windows do not begin as those of"),
        (put_value("batch_count", 2**63 - 1, "summaries"), "some rows have batch_count outside -1 to"),
        (put_value("window_start_ms", 2**62, "summaries"), "some rows have window_start_ms outside 0 to"),
        (put_value("row_kind", "held", "summaries"), "rows of a kind that no collector writes"),
        (put_value("minute_start_ms", 2**62, "arrivals"), "some rows have minute_start_ms outside 0 to"),
        (put_value("timestamp_type", None, "arrivals"), "some rows lack timestamp_type"),
        (put_value("record_count", None, "keys"), "some rows lack record_count"),
        (put_value("size_bytes", 0), NONE_WRITES),
        (put_value("record_count", -1), NONE_WRITES),
        (put_value("record_count", 1 << 30), NONE_WRITES),
        (put_value("last_offset", 0), NONE_WRITES),
        (put_value("last_offset", 0, "summaries"), NONE_WRITES),
        (put_problem(severity="other"), NONE_WRITES),
        (put_problem(first_bytes_hex="0g"), NONE_WRITES),
        (put_problem(position=-2), NONE_WRITES),
        (put_problem(reason="x" * 10_001), NONE_WRITES),
        (put_problem(reason=None), "some rows lack reason"),
        (write_no_text, "no batches of a collector (ArrowInvalid)"),
    ],
)
def test_a_rotten_part_stops_no_other_and_is_named_once(config, three, act, reason):
    """An act returns the part that it wrote where that is another one, or what the manifest says of it."""
    done = act(part_of(three, "batches"))
    part, said = (done, {}) if isinstance(done, Path) else (part_of(three, "batches"), done or {})
    say(three, "broker-3", part, size_bytes=part.stat().st_size, **said)
    without = {2} if "batches" in part.name else set()
    assert read_offsets(config, three) == {key: ALL_OFFSETS[key] for key in {0, 1, 2} - without}
    reading = read_landing(three)
    found = read_summaries(config, three, reading)
    (problem,) = [row for row in found if row["row_kind"] == "problem"]
    assert problem["path"] == str(part)
    assert reason in problem["reason"]
    assert reason in reading.collected.doubting(lost_of(found), ()).doubts[0]


def collect_first(config, landing, tmp_path, **fields):
    """Collects broker 1 once more; what the window then has."""
    run_collector(config, SimpleNamespace(root=tmp_path / "disk1"), landing, **fields)
    tell(landing, "broker-1", *own_partitions())
    return weigh(landing, read_landing(landing))


def test_a_window_of_which_a_collector_deleted_its_parts_lacks_that_broker(config, three, tmp_path):
    """Shares were those of the other brokers: where one host keeps parts for less long, or its clock runs ahead for a day."""
    collect_first(config, three, tmp_path, as_of_ms=NOW_MS + 8 * DAY_MS)
    found = collect_first(config, three, tmp_path)
    assert read_offsets(config, three).keys() == {1, 2}
    assert (found.expected_count, found.arrived_count) == (3, 2)
    assert found.missing.endswith("parts were deleted (`collect --keep`) by broker-1")


def leave_out(config, _):
    """The host has an older copy of the configuration."""
    return config.model_copy(
        update={"clusters": {"demo": config.clusters["demo"].model_copy(update={"topics": ("other*",)})}}
    )


def fail(config, monkeypatch):
    """The disk answers with errors of input and output."""

    def read(reads, *_, **__):
        raise OSError(errno.EIO, "Input/output error", reads[0].path)

    monkeypatch.setattr(collector, "read_partition", read)
    return config


@pytest.mark.parametrize("harm", [leave_out, fail])
def test_what_a_collector_did_not_read_of_its_broker_is_missing(config, three, tmp_path, monkeypatch, harm):
    shutil.rmtree(f"{three.location}/broker-1")
    found = collect_first(harm(config, monkeypatch), three, tmp_path)
    assert read_offsets(config, three).keys() == {1, 2}
    assert (found.expected_count, found.arrived_count) == (4, 3)
    assert found.missing == "logs that collectors could not read, or leave out (`topics`): orders-0"
    monkeypatch.undo()
    assert collect_first(config, three, tmp_path).missing == ""
    assert read_offsets(config, three) == ALL_OFFSETS


GONE = "records were gone before they were read, by retention or a purge (`topics` leaves topics out): of orders-0"
LEFT = "logs that collectors could not read, or leave out (`topics`): orders-0"


@pytest.mark.parametrize("is_first", [True, False])
def test_a_last_segment_that_cannot_be_opened_is_missing(config, three, tmp_path, is_first):
    """What was read before was all there was to the window."""
    if is_first:
        shutil.rmtree(f"{three.location}/broker-1")
    log = tmp_path / "disk1/orders-0"
    (log / f"{END if not is_first else 0:020d}.log").unlink(missing_ok=True)
    (log / f"{END if not is_first else 0:020d}.log").symlink_to(tmp_path / "nowhere")
    found = collect_first(config, three, tmp_path)
    assert (found.expected_count, found.arrived_count) == (4, 3)
    assert found.missing == "logs that collectors could not read, or leave out (`topics`): orders-0"


@pytest.mark.parametrize(("is_rolled", "missing"), [(False, LEFT), (True, GONE)])
def test_what_is_behind_a_damaged_batch_is_missing(config, three, tmp_path, is_rolled, missing):
    """Of a segment under way it was taken for half a batch that is being written, for as long as nobody rolled it."""
    shutil.rmtree(f"{three.location}/broker-1")
    log = tmp_path / "disk1/orders-0"
    data, at = bytearray(b"".join(BATCHES)), len(b"".join(BATCHES[:10]))
    data[at + 8 : at + 12] = b"\x7f\xff\xff\xff"
    (log / f"{0:020d}.log").write_bytes(data)
    if is_rolled:
        (log / f"{END:020d}.log").touch()
    (tmp_path / "disk1/replication-offset-checkpoint").write_text(f"0\n1\norders 0 {END}\n")
    for _ in range(2):
        assert collect_first(config, three, tmp_path).missing == missing


def test_a_segment_between_others_that_cannot_be_opened_is_missing(config, three, tmp_path):
    shutil.rmtree(f"{three.location}/broker-1")
    log = tmp_path / "disk1/orders-0"
    for first, last in ((0, 8), (8, 12), (12, None)):
        (log / f"{ALL_OFFSETS[0][first]:020d}.log").write_bytes(b"".join(BATCHES[first:last]))
    held = log / f"{ALL_OFFSETS[0][8]:020d}.log"
    held.unlink()
    held.symlink_to(tmp_path / "nowhere")
    for _ in range(2):
        assert collect_first(config, three, tmp_path).missing == GONE


@pytest.mark.parametrize("is_follower", [False, True])
def test_a_log_that_left_its_leaders_disk_unread_is_missing_until_its_new_leaders_host_read_it(
    config, landing, tmp_path, is_follower
):
    """It was reassigned: the old leader's host had it no more, the new one's had been read just before, and the window was whole.

    So it was where the new leader's host had the log then as a follower, of which collectors read nothing.
    """
    disks = [Disk(tmp_path / f"disk{one}", one, one - 1) for one in (1, 2, 3)]
    (follower := Disk(tmp_path / "follower", 2, 0)).write(0, b"".join(BATCHES))
    shutil.copytree(follower.log, disks[1].root / "orders-0")
    states = [(FIRST_MS - HOUR_MS, state_of(1, 0, (1, 2), 0)), (FIRST_MS + 2 * HOUR_MS, state_of(3, 1, (3, 2), 0))]

    def visit(disk, at_ms):
        host = run_collector(config, disk, landing, as_of_ms=at_ms).host
        tell(landing, host, *states, *own_partitions()[1:])
        return weigh(landing, read_landing(landing), TimeWindow(FIRST_MS, FIRST_MS + HOUR_MS)).missing

    for disk in disks:
        disk.write(0, b"".join(BATCHES[:3]), 10**9)
        visit(disk, FIRST_MS + 90_000)
        disk.write(0, b"".join(BATCHES), 10**9)
    if is_follower:
        shutil.copytree(follower.log, disks[2].root / "orders-0")
    visit(disks[2], FIRST_MS + HOUR_MS + 1)
    led = [one for one in manifest_of(landing, "broker-3").progress if one.partition == 2]
    rewrite(landing, "broker-3", lambda _: {"progress": tuple(led)})
    shutil.rmtree(disks[0].log)
    visit(disks[0], NOW_MS)
    assert visit(disks[1], NOW_MS) == LEFT
    shutil.copytree(follower.log, disks[2].root / "orders-0", dirs_exist_ok=True)
    assert visit(disks[2], NOW_MS) == ""


def test_hosts_of_several_clusters_are_named_and_their_windows_are_not_complete(three):
    reading = read_landing(three)
    whole = weigh(three, reading)
    assert (whole.missing, whole.arrived_count) == ("", whole.expected_count)
    shutil.copytree(Path(three.location) / "broker-1", Path(three.location) / "a-1")  # a host of a smaller cluster
    restate(three, "a-1", lambda state: {"directories": (replace(state.directories[0], cluster_id="a"),)})
    found = weigh(three, read_landing(three))
    assert "several Kafka clusters" in found.missing
    assert "a-1 (cluster.id a), broker-1 (cluster.id c)" in found.missing
    assert found.arrived_count < found.expected_count
