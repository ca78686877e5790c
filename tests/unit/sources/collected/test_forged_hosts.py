"""A host's folder that somebody wrote who knows the cluster's metadata: what it forges is left out or named.

Of three honest hosts the third one's folder is changed. Oracle: what the first two brought is as it was before.
"""

import json
import os
import shutil
import time
from dataclasses import replace
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from pipeline.model.cluster import ONLY_REPLICA, StateSubject, Timeline, UnreadState
from pipeline.model.log import Problem
from pipeline.model.log_tree import LogDirectory, PartitionDirectory
from pipeline.sources.collected.collector import collector_settings
from pipeline.sources.collected.manifest import MANIFEST, CollectedAs
from pipeline.sources.collected.reading import plan_collected_tasks
from pipeline.sources.records.batch_rows import LeaderEpochs
from pipeline.sources.records.pieces import Kind
from tests.unit.sources.collected.disks import (
    FIRST_MS,
    HOUR_MS,
    NOW_MS,
    TOPIC_ID,
    collected,
    manifest_of,
    part_of,
    read_landing,
    restate,
    rewrite,
    state_of,
    tell,
    weigh,
    with_column,
)
from tests.unit.sources.collected.forgery import own_partitions, pack, read_summaries, repeat, say, unpack

HOST, OTHER = "broker-3", "broker-1"


def change(timeline, **fields):
    """A timeline whose every value has other fields."""
    return Timeline(timeline.moments_ms, tuple(replace(value, **fields) for value in timeline.values))


def read_batches(config, landing):
    """Offsets and sizes of the batches that a run takes up of the first two partitions."""
    rows = [row for piece in collected(config, landing) if piece.kind is Kind.BATCHES for row in piece.rows.to_pylist()]
    found = [(row["partition"], row["base_offset"], row["size_bytes"]) for row in rows]
    return sorted(one for one in found if one[0] < 2)


def list_named(landing):
    """What a reading says of the hosts."""
    reading = read_landing(landing)
    of_host = [one.reason for one in reading.problems["collected"] if one.path == f"{landing.location}/{HOST}"]
    return (*reading.collected.doubts, *of_host)


def take_parts(landing, *, later_ms=1, shift=0, directories=()):
    """Puts records of the other host into the folder, with batches three times as large, and says so in its manifest."""
    theirs, folder = manifest_of(landing, OTHER), Path(landing.location)
    parts = []
    for part in theirs.parts:
        path = folder / HOST / f"parts/taken-{Path(part.path).name}"
        shutil.copy2(folder / OTHER / part.path, path)
        rows = pq.read_table(path)
        for name in {"base_offset", "first_offset", "last_offset", "size_bytes"} & {*rows.column_names}:
            values = pc.multiply(rows[name], 3) if name == "size_bytes" else pc.add(rows[name], shift)
            rows = with_column(rows, name, values.to_pylist())
        pq.write_table(rows, path)
        parts.append(part.model_copy(update={"path": f"parts/{path.name}", "size_bytes": path.stat().st_size}))

    def change(manifest):
        state = manifest.state.model_copy(update={"directories": (*manifest.state.directories, *directories)})
        return {
            "state": state,
            "parts": (*manifest.parts, *parts),
            "progress": (*manifest.progress, *theirs.progress),
            "collected_at_ms": manifest.collected_at_ms + later_ms,
        }

    rewrite(landing, HOST, change)


@pytest.mark.parametrize("cluster_id", ["another", None], ids=["another cluster", "no cluster"])
def test_a_host_is_no_other_broker_by_another_cluster_id(config, three, cluster_id):
    before = read_batches(config, three)
    directories = manifest_of(three, OTHER).state.directories
    take_parts(three, directories=[replace(one, cluster_id=cluster_id) for one in directories])
    assert read_batches(config, three) == before or any("say they are broker 1" in one for one in list_named(three))
    assert list_named(three)


def test_a_log_directory_without_a_broker_holds_nothing_of_others(config, three):
    before = read_batches(config, three)
    take_parts(three, directories=[LogDirectory(path="x")])
    assert read_batches(config, three) == before
    assert any("does not place on this host: orders-0" in one for one in list_named(three))


def test_two_hosts_that_say_they_are_one_broker_are_named_whatever_they_hold(three):
    take_parts(three, directories=[LogDirectory(path="x", broker_id=1)])
    assert "broker-1, broker-3 say they are broker 1: delete the folder that no collector writes" in list_named(three)


def test_a_leader_gives_no_load_to_the_one_before(config, three):
    moved = [(FIRST_MS - 2 * HOUR_MS, state_of(1, 0, (1, 3), 2)), (FIRST_MS - HOUR_MS, state_of(3, 1, (1, 3), 2))]
    for host in ("broker-1", "broker-2", HOST):
        tell(three, host, *own_partitions()[:2], *moved, since_ms=FIRST_MS - 2 * HOUR_MS)
    part = part_of(three, "batches")
    rows = pq.read_table(part)
    pq.write_table(with_column(rows, "leader_epoch", [0] * len(rows)), part)
    say(three, HOST, part, size_bytes=part.stat().st_size)
    reading = read_landing(three)
    leaders = LeaderEpochs.of(reading.history, reading.tree, reading.replicas)
    settings = collector_settings(config, "demo", NOW_MS)
    tasks = plan_collected_tasks(reading.collected, settings, CollectedAs.of(settings), leaders)
    pieces = [piece.rows for task in tasks for piece in task.run() if piece.kind is Kind.BATCHES]
    led = {(row["partition"], row["leader_id"]) for rows in pieces for row in rows.to_pylist()}
    assert led == {(0, 1), (1, 2), (2, 3)}


def test_where_a_broker_registered_its_log_directories_one_without_an_id_is_none_of_them(config, three):
    def register(state):
        return {"brokers": {key: change(one, directory_ids=(f"d{key}",)) for key, one in state.brokers.items()}}

    for host in ("broker-1", "broker-2", HOST):
        restate(three, host, register)
    before = read_batches(config, three)
    assert list_named(three) == ()
    take_parts(three, directories=[LogDirectory(path="x", broker_id=1)])
    assert read_batches(config, three) == before
    assert any("not this broker's by the metadata: x" in one for one in list_named(three))


def test_records_below_offset_zero_are_refused(config, three):
    before = read_batches(config, three)
    take_parts(three, shift=-1000, directories=manifest_of(three, OTHER).state.directories)
    assert read_batches(config, three) == before


def fence(state):
    return {"brokers": {key: change(one, is_fenced=True, rack="other") for key, one in state.brokers.items()}}


def empty_in_sync_sets(state):
    return {"partitions": tuple(change(one, isr=()) for one in state.partitions)}


def say_unread(_):
    return {"unread": (UnreadState(FIRST_MS, frozenset(StateSubject), "a record of a later version"),)}


@pytest.mark.parametrize("forge", [fence, empty_in_sync_sets, say_unread])
def test_all_that_a_metadata_log_says_is_what_most_hosts_say(three, forge):
    restate(three, HOST, forge)
    assert any("its metadata log is not what 2 of 2 other hosts have" in one for one in list_named(three))
    history = read_landing(three).history
    assert not any(broker.is_fenced for broker in history.state_at(FIRST_MS).brokers.values())
    assert history.unread == ()


def test_a_change_that_changes_nothing_makes_no_history_longer(three):
    def repeat(state):
        timeline = state.brokers[3]
        (moment,), (value,) = timeline.moments_ms, timeline.values
        return {"brokers": state.brokers | {3: Timeline((moment, moment + 1), (value, value))}}

    restate(three, HOST, repeat)
    assert len(read_landing(three).history.brokers[3].values) == 1


def test_logs_of_the_quorum_and_progress_said_twice_do_not_count(three):
    (own,) = manifest_of(three, HOST).progress
    many = [own.model_copy(update={"topic": "__cluster_metadata", "topic_id": "", "partition": n}) for n in range(50)]
    rewrite(three, HOST, lambda _: {"progress": (own, *many)})
    (host,) = [one for one in read_landing(three).collected.hosts if one.name == HOST]
    assert [one.key for one in host.manifest.progress] == [own.key, ("__cluster_metadata", "", 0)]
    rewrite(three, HOST, lambda _: {"progress": (own, own)})
    assert HOST not in {one.name for one in read_landing(three).collected.hosts}


def forge_later(landing, *changes):
    """The host's metadata log begins once all others were read; it was read later."""
    tell(landing, HOST, *((NOW_MS + 1, state) for state in changes), since_ms=NOW_MS + 1)
    rewrite(landing, HOST, lambda _: {"collected_at_ms": NOW_MS + 2})


def test_a_metadata_log_that_begins_later_than_all_others_changes_no_leader(config, three):
    before = read_landing(three)
    forge_later(three, *(state_of(2, 0, (1, 2, 3), partition) for partition in (0, 1, 2)))
    assert read_landing(three).history == before.history
    assert list_named(three) == ()


def test_a_metadata_log_that_begins_later_takes_the_place_of_no_rows(config, three):
    for host in ("broker-1", "broker-2", HOST):
        tell(three, host, *own_partitions(replicas=(1, 2, 3)))
    before = read_batches(config, three)
    take_parts(three, directories=manifest_of(three, OTHER).state.directories)
    restate(three, HOST, own_directories)
    forge_later(three, *(state_of(partition + 1, 0, (1, 2, 3), partition) for partition in (0, 1, 2)))
    assert read_batches(config, three) == before


def own_directories(state):
    """All directories are the broker's own."""
    return {"directories": tuple(replace(one, broker_id=3) for one in state.directories)}


def edit_document(landing, change):
    path = Path(landing.location) / HOST / MANIFEST
    document = json.loads(unpack(path))
    change(document)
    path.write_bytes(pack(json.dumps(document).encode()))


def put(*places, value):
    """Puts a value into the manifest's document."""

    def act(document):
        *holders, last = places
        for one in holders:
            document = document[one]
        document[last] = value

    return act


STATE, REPLICA = ("state", "partitions", 0, "values", 0), ("state", "replicas", 0)
LOG = ("state", "directories", 0, "partitions", 0)


@pytest.mark.parametrize(
    "act",
    [
        put("state", "directories", 0, "broker_id", value="9" * 23),
        put("state", "directories", 0, "broker_id", value="3"),
        put("state", "directories", 0, "broker_id", value=3.0),
        put("state", "directories", 0, "broker_id", value=-7),
        put("state", "directories", 0, "broker_id", value=2**31),
        put("state", "replicas", 0, "broker_id", value=-1),
        put("state", "brokers", "3", "values", 0, "broker_id", value=2**31),
        put("state", "brokers", "9" * 23, value={"moments_ms": [], "values": []}),
        put(*STATE, "leader_id", value=-2),
        put(*STATE, "leader_epoch", value="9" * 23),
        put(*STATE, "leader_epoch", value=2**31),
        put(*STATE, "replicas", value=[1, 2**31]),
        put("parts", 0, "row_count", value="7"),
        put("progress", 0, "next_offset", value="9"),
        put("state", "problems", value=[{"path": "x", "reason": "x", "severity": "odd"}]),
        put("state", "problems", value=[{"path": "x", "reason": "x", "position": -2}]),
        *(put(*place, "partition", value=200_001) for place in (("progress", 0), REPLICA, LOG, STATE)),
        put(*REPLICA, "size_bytes", value=2**63 - 1),
        put(*REPLICA, "log_end_offset", value=-(2**63)),
        put(*REPLICA, "high_watermark", value=2**63 - 1),
        put(*LOG, "segments", 0, "size_bytes", value=-1),
        put("state", "state_source", value=ONLY_REPLICA),
        lambda document: document["parts"].append(document["parts"][0]),
    ],
)
def test_what_no_collector_says_is_that_host_s_problem(config, three, act):
    """Numbers that are texts or no cluster's, a partition that no topic has, a part named twice, no metadata at all."""
    before = read_batches(config, three)
    edit_document(three, act)
    assert "not a manifest of format 1" in list_named(three)
    assert HOST not in {one.name for one in read_landing(three).collected.hosts}
    assert read_batches(config, three) == before


@pytest.mark.parametrize("link", [os.link, lambda path, to: to.symlink_to(path.name)], ids=["hard", "symbolic"])
def test_a_part_of_two_names_is_not_read_twice(three, link):
    part = part_of(three, "batches")
    link(part, part.with_name("other.parquet"))

    def name_both(document):
        (named,) = [one for one in document["parts"] if one["path"].endswith(part.name)]
        document["parts"].append(named | {"path": "parts/other.parquet"})

    edit_document(three, name_both)
    assert any("parts are gone or have another size" in one for one in list_named(three))


def test_a_host_with_more_rows_than_its_bytes_can_be_is_left_out(config, three):
    before = read_batches(config, three)
    say(three, HOST, part_of(three, "batches"), row_count=1 << 28)
    assert any("far more than a collector writes: the host is left out" in one for one in list_named(three))
    assert read_batches(config, three) == before


def test_arrivals_of_more_rows_than_their_bytes_can_be_are_refused(config, three):
    part = part_of(three, "arrivals")
    say(three, HOST, part, **repeat(part, pq.read_table(part), partition=[2] * 200_000))
    (problem,) = [row for row in read_summaries(config, three, read_landing(three)) if row["row_kind"] == "problem"]
    assert "it has 200,000 rows in " in problem["reason"]


def test_a_part_whose_footer_is_larger_than_any_is_not_opened(config, three):
    part = part_of(three, "batches")
    rows = pq.read_table(part).slice(0, 0)
    with pq.ParquetWriter(part, rows.schema) as writer:
        for _ in range(2_000):
            writer.write_table(rows)
    say(three, HOST, part, size_bytes=part.stat().st_size, row_count=0)
    (problem,) = [row for row in read_summaries(config, three, read_landing(three)) if row["row_kind"] == "problem"]
    assert "its footer has " in problem["reason"]


def test_brokers_that_a_host_makes_up_are_none(three):
    made_up = [LogDirectory(path=f"x{number}", broker_id=1_000 + number) for number in range(500)]
    controller = PartitionDirectory(path="q/__cluster_metadata-0", topic="__cluster_metadata", partition=0)
    quorum = LogDirectory(path="q", broker_id=100, partitions=(controller,))

    restate(three, HOST, lambda state: {"directories": (*state.directories, *made_up, quorum)})
    reading = read_landing(three)
    assert reading.directory_counts == {1: 1, 2: 1, 3: 1}
    found = weigh(three, reading)
    assert (found.arrived_count, found.expected_count) == (3, 3)
    (said,) = list_named(three)
    assert said.startswith("left out, log directories that are not this broker's by the metadata: x0, ")
    assert "q" in {one.path for one in reading.tree.directories}


def test_of_many_problems_of_a_host_a_thousand_are_told_and_how_many_more(three):
    problems = tuple(Problem(path="x" * 20_000, reason=f"{number}") for number in range(3_000))
    restate(three, HOST, lambda _: {"problems": problems})
    found = [one for one in read_landing(three).problems["collected"] if one.path.startswith("xxx")]
    assert (len(found), max(len(one.path) for one in found)) == (1_000, 10_000)
    assert list_named(three) == ("2,000 problems of this host are left out",)


def test_replicas_said_often_are_placed_in_no_time_of_their_product(three):
    count = 15_000
    changes = [(FIRST_MS - HOUR_MS + number, state_of(1, 0, (1,), 0)) for number in range(count)]
    for host in ("broker-1", "broker-2", HOST):
        tell(three, host, *changes, *own_partitions()[1:])

    (own,) = manifest_of(three, HOST).state.replicas
    ids = [f"{TOPIC_ID[:-5]}{number:05d}" if number % 2 else TOPIC_ID for number in range(count)]
    restate(three, HOST, lambda _: {"replicas": tuple(replace(own, partition=0, topic_id=one) for one in ids)})
    began_s = time.process_time()
    assert any("this host: orders-0" in one for one in list_named(three))
    assert time.process_time() - began_s < 12
