"""A minute of the capture in which broker 1 is slow, replayed by simulation: sums, shares, back-test, another dealing."""

import dataclasses
from collections import defaultdict

import numpy as np
import pytest

from expectations.gates import check_replayed
from pipeline.config.replay import IN_USE, Candidate
from pipeline.jobs import replay
from pipeline.jobs.replay.load import make_readers
from pipeline.tables.keys import KEY_HASHES
from pipeline.tables.replay import REPLAY
from pipeline.tables.silver import ARRIVALS
from tests.engines import sail
from tests.spark.capture_runs import stable_columns, stored

SLOW_BROKER = 1
SLOW_MINUTE = 4
SEEDS = 3
CANDIDATES = (
    Candidate(name="builtin", partitioner="java-builtin", topics=("orders",)),
    Candidate(name="4.1", client="4.1.1", topics=("orders",)),
    Candidate(name="in turn", partitioner="java-round-robin-3.9.2", topics=("orders",)),
)


@pytest.fixture(scope="module")
def context(ingested):
    config = ingested.context.config
    settings = config.replay.model_copy(update={"seeds": SEEDS})
    changed = config.model_copy(update={"candidates": CANDIDATES, "replay": settings})
    window = ingested.context.windows[SLOW_MINUTE]
    return dataclasses.replace(ingested.context, config=changed, windows=(window,))


@pytest.fixture(scope="module")
def replayed(spark, context):
    """What the gate found, and the rows of each table by name, orders' only."""
    replay.run(spark, context, context.windows)
    return check_replayed(spark, context, context.windows), rows_by_table(context)


def rows_by_table(context):
    found = {}
    for table in REPLAY:
        rows = stored(context.warehouse, table.name, *stable_columns(table))
        start = min(context.windows).start_ms
        found[table.name.split(".")[1]] = [
            row for row in rows if row["topic"] == "orders" and round(row["window_start"].timestamp() * 1000) == start
        ]
    return found


def test_the_gate_passes(replayed):
    reports, _ = replayed
    failed = {check.name for report in reports for check in report.checks if not check.success}
    assert failed <= {"shares_within_bar", "error_not_rising"}  # warnings


def test_the_old_partitioner_is_found_and_its_share_predicted(replayed):
    _, rows = replayed
    (tested,) = rows["back_tests"]
    assert (tested["partitioner"], tested["partitioner_source"]) == ("java-sticky-2.4", "inferred")
    assert tested["seed_count"] == SEEDS
    assert tested["share_error_points"] < 5
    shares = {row["candidate"]: row["log_share"] for row in rows["replay_brokers"] if row["broker_id"] == SLOW_BROKER}
    observed = next(row["recorded_log_share"] for row in rows["replay_brokers"] if row["broker_id"] == SLOW_BROKER)
    assert observed > 0.6
    assert shares[IN_USE] > 0.6
    assert all(0.25 < shares[name] < 0.5 for name in ("builtin", "4.1", "in turn"))


def test_every_candidate_replays_all_records_with_all_seeds(replayed):
    _, rows = replayed
    assert {row["candidate"] for row in rows["scenario_comparison"]} == {IN_USE, *(one.name for one in CANDIDATES)}
    for row in rows["scenario_comparison"]:
        placed = [one for one in rows["replay_results"] if one["candidate"] == row["candidate"]]
        assert row["seed_count"] == SEEDS
        assert row["replayed_record_count_low"] == row["replayed_record_count_high"] == row["record_count"]
        assert sum(one["record_count"] for one in placed) == row["record_count"]
        assert sum(one["size_bytes"] for one in placed) == row["size_bytes"]
        assert abs(sum(one["log_share"] for one in placed) - 1) < 0.02  # medians, partition by partition
        assert row["keyless_rule"] == "simulated"


@pytest.mark.parametrize("is_in_process", [False, True])
def test_a_rerun_gives_the_same_rows(spark, replayed, context, is_in_process):
    _, rows = replayed
    replay.run(sail() if is_in_process else spark, context, context.windows)
    assert rows_by_table(context) == rows


def test_a_task_holds_the_hashes_of_the_keys_its_sessions_sent(ingested):
    """Each simulating task held those of all keys of a day."""
    run, window = ingested.context, ingested.context.windows[SLOW_MINUTE]
    readers = make_readers(run, (window,))
    sent = defaultdict(set)
    columns = ("producer_id", "producer_epoch", "keys")
    for producer_id, epoch, keys in run.tuples(ARRIVALS, (window,), *columns):
        sent[producer_id, epoch] |= set(keys)
    keyed = sorted((session for session, keys in sent.items() if keys), key=lambda session: len(sent[session]))
    every = readers.read_hashes([(window.start_ms, keyed)])
    assert set(every.keys.tolist()) == set().union(*sent.values())
    fewest = readers.read_hashes([(window.start_ms, keyed[:1])])
    assert set(fewest.keys.tolist()) == sent[keyed[0]]
    assert len(fewest.keys) < len(every.keys) <= run.load(KEY_HASHES, (window,), ("key_id",)).num_rows
    places = np.searchsorted(every.keys, fewest.keys)
    assert fewest.hashes["murmur2"].tolist() == every.hashes["murmur2"][places].tolist()
    assert len(readers.read_hashes([]).keys) == 0
