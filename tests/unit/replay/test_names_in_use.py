"""A topic that producers of several clients write to has one name for what is in use: that of who sends most."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from pipeline.config.replay import IN_USE, Candidate
from pipeline.model.promise import Trust
from pipeline.model.window import TimeWindow
from pipeline.replay.back_tests import TRUSTS
from pipeline.replay.comparison import comparison_row
from pipeline.replay.metrics import SessionMetrics
from pipeline.replay.recorded import Recording
from pipeline.replay.simulated.plan import plan_simulations
from pipeline.replay.simulated.runs import CELL_BATCHES, CELL_LEADER, CELL_LOG_BYTES, CELL_RECORDS
from pipeline.replay.simulated.topics import MODEL_ERROR
from pipeline.replay.topics import list_topics, replay_topic
from tests.unit.replay.session_groups import MINUTE_MS, START_MS, make_baseline, make_group, make_traffic

FEW, MANY = make_baseline("java-builtin", version="3.9.1"), make_baseline("java-sticky-2.4")
CANDIDATES = (Candidate(name="sticky", partitioner="java-sticky-2.4"), Candidate(name="new", client="4.1.1"))


def session(producer_id, record_count, baseline):
    where = (START_MS, "orders", "")
    return SimpleNamespace(
        key=(START_MS, producer_id, 0, "", ""), topic_window=where, producer_id=producer_id, producer_epoch=0,
        record_count=record_count, keyless_count=record_count, baseline=baseline,
        timestamp_type="CreateTime", sampling_rate=1.0, counts={},
    )  # fmt: skip  # fields of a value, several a line


def make_row(*, partition, size_bytes):
    """Of `silver.partition_traffic`, in part."""
    return {
        "partition": partition, "leader_id": partition, "leader_epoch": 0, "first_offset": 0, "record_count": 1,
        "batch_count": 1, "size_bytes": size_bytes, "missing_offset_count": 0, "compacted_record_count": 0,
        "is_compacted": False, "crc_error_count": 0,
    }  # fmt: skip  # fields of a value, several a line


def replay_two(metrics, runs=None, rows=()):
    groups = [
        make_group(make_traffic(producer_id=7), baseline=FEW),
        make_group(make_traffic(producer_id=8), baseline=MANY, number=1),
    ]
    sessions = [session(7, 900, FEW), session(8, 8_000, MANY)]
    where = (START_MS, "orders", "")
    recording = Recording(
        windows=(TimeWindow(START_MS, START_MS + MINUTE_MS),), window_ms=MINUTE_MS, candidates=CANDIDATES,
        leaders={where: {0: 0, 1: 1, 2: 2}}, brokers={START_MS: (0, 1, 2)},
    )  # fmt: skip  # fields of a value, several a line
    (topic,) = list_topics(
        recording, keyed={}, sessions=sessions, metrics={one.key: metrics for one in sessions},
        plan=plan_simulations(groups, CANDIDATES, [1]),
    )  # fmt: skip  # fields of a value, several a line
    return replay_topic(topic, rows, runs or {})


def test_in_use_has_one_name():
    """The simulated producers are listed by producer id: the first one is not who sends most."""
    topic = replay_two(SessionMetrics({}))
    rows = {
        outcome.name: comparison_row(
            topic, outcome, dict.fromkeys(TRUSTS, Trust.TRUSTED) | {"share_error_points": None}
        )
        for outcome in topic.outcomes
    }
    assert {row["baseline"] for row in rows.values()} == {"java-sticky-2.4"}
    assert {outcome.name: outcome.partitioner for outcome in topic.outcomes} == {
        IN_USE: "java-sticky-2.4",
        "sticky": "java-sticky-2.4",
        "new": "java-builtin",
    }
    assert {outcome.name: outcome.is_as_in_use for outcome in topic.outcomes} == {
        IN_USE: True,
        "sticky": False,  # it is another partitioner for the producer that sends less
        "new": False,
    }


def test_ranges_hold_what_the_model_is_off_by():
    """As much for every setup, and for another client what the current one is off by here besides."""
    cells = np.zeros((3, 1 + max(CELL_LEADER, CELL_LOG_BYTES)), np.int64)
    cells[:, CELL_LEADER], cells[:, CELL_LOG_BYTES] = (0, 1, 2), (50, 30, 20)
    cells[:, CELL_RECORDS], cells[:, CELL_BATCHES] = 4, 2  # of two records each, where batches of one were recorded
    run = SimpleNamespace(cells=cells)
    rows = [make_row(partition=partition, size_bytes=size) for partition, size in enumerate((40, 40, 20))]
    topic = replay_two(SessionMetrics({}), {number: {1: run} for number in range(3)}, rows)

    own, *others = (outcome.runs for outcome in topic.outcomes)
    off = math.sqrt((0.1**2 / (0.5 * 0.5) + 0.1**2 / (0.3 * 0.7)) / 3)
    assert own.error == MODEL_ERROR
    assert [other.error.share for other in others] == pytest.approx([math.hypot(MODEL_ERROR.share, off)] * 2)
    assert [other.error.batches for other in others] == pytest.approx(
        [math.hypot(MODEL_ERROR.batches, math.log(2))] * 2
    )
