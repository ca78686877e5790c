"""The keyed replay of the committed capture.

Oracles: `choose_partition`, key after key, over the keys that kafka-python reads from the leaders' logs; the capture's
manifest, which names the clients; arithmetic.
"""

import dataclasses
import math
from collections import Counter, defaultdict

import pytest

from expectations.gates import check_replayed
from pipeline.config.replay import DEFAULT_CANDIDATES, IN_USE, Candidate
from pipeline.errors import ConfigError, DataGateError
from pipeline.jobs import replay
from pipeline.model.window import milliseconds_of
from pipeline.partitioners.registry import find_strategy
from pipeline.partitioners.strategy import choose_partition
from pipeline.storage.rows import load_rows, replace_rows
from pipeline.tables.replay import REPLAY, REPLAY_RESULTS
from tests.lab.demo.replay_summary import describe_keys
from tests.spark.capture_runs import stable_columns, stored
from tests.spark.conftest import STRATEGY
from tests.spark.key_strategies import by_number
from tests.spark.test_key_tables import read_keys

VERDICTS = {
    "clicks": "java-compatible",
    "audit": "java-compatible",
    "devices": "librdkafka-consistent",
    "regions": "none-known",
}
CANDIDATES = (
    *DEFAULT_CANDIDATES,
    Candidate(name="users-own", partitioner=STRATEGY, partitions=7),
    *(
        Candidate(name=f"java-{count}", partitioner="java-builtin", partitions=count, topics=("clicks",))
        for count in (13, 16, 24)
    ),
)


def with_config(context, **changes):
    return dataclasses.replace(context, config=context.config.model_copy(update=changes))


@pytest.fixture(scope="module")
def context(ingested):
    """Keys alone: simulation has tests of its own."""
    replay_settings = ingested.context.config.replay.model_copy(update={"arrivals": False})
    return with_config(ingested.context, candidates=CANDIDATES, replay=replay_settings)


@pytest.fixture(scope="module")
def replayed(spark, context):
    """The report, what the gate found, and the rows of each table by name."""
    assert replay.pending_windows(context) == context.windows
    report = replay.run(spark, context, context.windows)
    reports = check_replayed(spark, context, context.windows)
    return report, reports, rows_by_table(context)


def rows_by_table(context):
    return {table.name.split(".")[1]: stored(context.warehouse, table.name, *stable_columns(table)) for table in REPLAY}


@pytest.fixture(scope="module")
def keys(capture, capture_folder, manifest):
    """Records of two topics by topic, recorded partition, minute and key."""
    return Counter(
        (topic, partition, capture.minute_of(timestamp_ms), key)
        for topic in ("clicks", "devices")
        for partition, (leader, *_) in enumerate(manifest["topics"][topic])
        for log in (capture_folder / f"brokers/{leader}/{topic}-{partition}").glob("*.log")
        for timestamp_ms, key in read_keys(log)
    )


def test_the_verdict_names_who_placed_the_keys(replayed, context):
    _, _, rows = replayed
    found = defaultdict(set)
    for row in rows["hash_verdicts"]:
        found[row["topic"]].add((row["verdict"], row["explained_ratio"] == 1.0))
    assert {topic: found[topic] for topic in VERDICTS} == {
        topic: {(verdict, verdict != "none-known")} for topic, verdict in VERDICTS.items()
    }
    assert sum(row["topic"] == "regions" for row in rows["hash_verdicts"]) == len(context.windows)


def test_every_keyed_record_is_predicted_by_the_strategy_that_made_it(replayed):
    _, _, rows = replayed
    of = {(row["candidate"], row["topic"]): [] for row in rows["scenario_comparison"]}
    for row in rows["scenario_comparison"]:
        of[row["candidate"], row["topic"]].append(row)
    makers = {("java-builtin", "clicks"), ("java-builtin", "audit"), ("librdkafka", "devices")}
    for place in makers | {(IN_USE, topic) for _, topic in makers}:
        assert {row["moved_record_count"] for row in of[place]} == {0}, place
        assert sum(row["keyed_record_count"] for row in of[place]) > 1000, place
    for row in rows["replay_results"]:
        if row["candidate"] == IN_USE:
            assert row["record_count"] == row["recorded_record_count"]
            assert row["size_bytes"] == row["recorded_size_bytes"]


@pytest.mark.parametrize(
    "case",
    [
        ("java-builtin", "devices", "java-builtin", 12),
        ("librdkafka", "clicks", "librdkafka-consistent_random", 12),
        ("sarama", "clicks", "sarama-hash", 12),
        ("twice-the-partitions", "devices", "librdkafka-consistent", 24),
        ("java-13", "clicks", "java-builtin", 13),
        ("users-own", "clicks", None, 7),
    ],
)
def test_candidates_hold_and_move_what_key_after_key_gives(replayed, keys, capture, case):
    _, _, rows = replayed
    candidate, topic, strategy, count = case
    choose = by_number if strategy is None else lambda key, _: choose_partition(find_strategy(strategy), key, count)
    expected, moved, at_risk = Counter(), defaultdict(set), defaultdict(set)
    was = defaultdict(set)
    for (name, partition, minute, key), records in keys.items():
        if name == topic:
            was[minute, key].add(partition)
            expected[minute, choose(key, count)] += records
            if choose(key, count) != partition:
                moved[minute].add(key)
    for minute, key in was:
        if was[minute - 1, key] - {choose(key, count)} if (minute - 1, key) in was else False:
            at_risk[minute].add(key)
    found = Counter()
    for row in rows["replay_results"]:
        if (row["candidate"], row["topic"]) == (candidate, topic):
            found[capture.minute_of(milliseconds_of(row["window_start"])), row["partition"]] = row["record_count"]
            assert row["record_count_low"] == row["record_count"] == row["record_count_high"]
    assert +found == +expected
    for row in rows["scenario_comparison"]:
        if (row["candidate"], row["topic"]) == (candidate, topic):
            minute = capture.minute_of(milliseconds_of(row["window_start"]))
            assert row["moved_key_count"] == len(moved[minute])
            assert row["at_risk_key_count"] == (len(at_risk[minute]) if minute else None)


@pytest.mark.parametrize("count", [24, 16, 13])
def test_more_partitions_move_the_share_of_keys_that_arithmetic_says(replayed, count):
    _, _, rows = replayed
    stays = 12 / math.lcm(12, count)
    for row in rows["scenario_comparison"]:
        if row["candidate"] == f"java-{count}":
            deviation = math.sqrt(stays * (1 - stays) / row["key_count"])
            assert abs(row["keys_moved_ratio"] - (1 - stays)) < 4 * deviation


def test_the_gate_passes_and_sees_a_record_that_is_gone(spark, replayed, context):
    _, reports, _ = replayed
    assert [check.describe() for report in reports for check in report.checks if not check.success] == []
    rows = load_rows(context.warehouse, REPLAY_RESULTS, cluster=context.cluster_name, windows=context.windows)
    short = rows.sort_by([("record_count", "descending")]).slice(1)
    replace_rows(short, context.warehouse, REPLAY_RESULTS, cluster=context.cluster_name, windows=context.windows)
    with pytest.raises(DataGateError, match="replayed_equal_recorded"):
        check_replayed(spark, with_config(context, candidates=()), context.windows)
    replace_rows(rows, context.warehouse, REPLAY_RESULTS, cluster=context.cluster_name, windows=context.windows)


def test_rows_do_not_depend_on_buckets_or_spark_partitions_and_a_rerun_replaces(spark, replayed, context):
    _, _, rows = replayed
    small = context.config.replay.model_copy(update={"rows_per_bucket": 5000})
    again = with_config(context, replay=small)
    spark.conf.set("spark.sql.shuffle.partitions", "3")
    replay.run(spark, again, again.windows)
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    assert rows_by_table(again) == rows


def test_notes_and_summary_tell_of_every_topic(replayed, context):
    report, _, _ = replayed
    notes = dict(note.removeprefix("keys of ").split(": ", 1) for note in report.notes)
    windows = len(context.windows)
    assert {topic: notes[topic] for topic in VERDICTS} == {
        topic: f"{verdict} in {windows} of {windows} windows" for topic, verdict in VERDICTS.items()
    }
    lines = describe_keys(context.warehouse)
    told = dict(line.split()[:2] for line in lines[1:] if not line.startswith(" "))
    assert {topic: told[topic] for topic in VERDICTS} == VERDICTS
    of_devices = (
        " ".join(" ".join(lines).split()).partition("devices librdkafka-consistent ")[2].partition(" ledger ")[0]
    )
    by_percent = dict(group.split(" % ") for group in of_devices.split("; "))
    (percent,) = (percent for percent, names in by_percent.items() if "java-sticky-2.4" in names.split(" / "))
    assert 90 <= int(percent) < 100


@pytest.mark.parametrize(
    ("candidate", "reason"),
    [
        ({"partitioner": "franz-go-round-robin"}, "does not look at keys"),
        ({"partitioner": "rust-kafka"}, "that is not stored"),
        ({"partitioner": "no-such"}, "no strategy no-such"),
    ],
)
def test_what_cannot_be_replayed_is_refused_before_anything_runs(context, candidate, reason):
    config = context.config.model_copy(update={"candidates": (Candidate(name="wrong", **candidate),)})
    with pytest.raises(ConfigError, match=f"candidate wrong: .*{reason}"):
        replay.check(config)


def test_a_users_strategy_that_was_not_asked_is_refused(spark, replayed, context):
    unasked = (Candidate(name="unasked", partitioner=STRATEGY, partitions=9),)
    with pytest.raises(ConfigError, match=r"candidate unasked: .*ingest again"):
        replay.run(spark, with_config(context, candidates=unasked), context.windows[:1])
