"""Facts about a topic's data and what is said of them."""

from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from pipeline.calibration.caveats import Caveat, Origin
from pipeline.calibration.partitioner.settings import Setting
from pipeline.config.replay import IN_USE
from pipeline.errors import ConfigError
from pipeline.model.promise import Trust
from pipeline.replay import comparison
from pipeline.replay.back_tests import TRUSTS
from pipeline.replay.comparison import _describe_trusts
from pipeline.replay.concerns import doubt_log, list_concerns
from pipeline.replay.keyed.sums import MoveTotals
from pipeline.replay.keyed.topics import BaselineSource, list_keyed_topics
from pipeline.replay.metrics import SessionMetrics

UNKNOWN = Setting("500", Origin.UNKNOWN, 341.0)
OPEN = SimpleNamespace(assumptions=(), settings={"linger.ms": UNKNOWN})
UNNAMED = SessionMetrics({}, is_watched=True)
CONTRADICTED = "metrics contradict the log: "
WATCHED = SessionMetrics({}, is_watched=True, client_id="app", total_difference_ratio=0.01)
SHARED, POOLED = replace(WATCHED, client_bytes=(200.0, 100.0)), "no producer ids: "
AS_ONE, DEALT = "all producers of the topic are replayed as one", "records are dealt to 2 producers at random"
UNLED = "who led partitions 3, 4 for a part of the window is not known"


def recorded(records=(400, 600)):
    return SimpleNamespace(records=np.array(records, np.int64), partition_count=len(records))


def finding(**changes):
    fields = {"record_count": 1000, "counts": {}, "timestamp_type": "CreateTime", "sampling_rate": 1.0}
    fields |= {"producer_id": 7, "baseline": SimpleNamespace(assumptions=(), settings={})}
    return SimpleNamespace(**{**fields, **changes})


def half_of(**changes):
    """Two sessions: what holds of one alone is said, too."""
    return [finding(record_count=500), finding(record_count=500, **changes)]


def concerns(*, records=(400, 600), findings=None, reason="", log=None, metrics=(WATCHED,)):
    found = [finding()] if findings is None else findings
    return list_concerns(recorded(records), found, reason, [] if log is None else log, metrics)


def doubts(*changes, log_starts=None, minutes=0, lack=""):
    """Of the log of a topic of 1,000 records in three partitions, each with another leader; `changes` are of its rows."""
    counts = dict.fromkeys(("missing_offset_count", "compacted_record_count", "crc_error_count"), 0)
    row = {"leader_epoch": 0, "is_compacted": False, "first_offset": 0, "record_count": 0, **counts}
    rows = [row | {"partition": number, "leader_id": number} for number in range(3)]
    rows += [row | {"partition": 0, "leader_id": 0, "record_count": 1_000}]
    rows += [row | {"partition": 0, "leader_id": 0} | change for change in changes]
    return list(doubt_log(rows, log_starts or {}, minutes, 240_000, lack=lack))


def test_a_log_begins_inside_a_window_where_its_first_record_is_the_first_that_is_left():
    """A log that begins with its very first record lacks nothing."""
    firsts = [{"partition": 3 + number, "first_offset": first} for number, first in enumerate((0, 7, 9))]
    (late,) = doubts(*firsts, log_starts={3: 0, 4: 7, 5: 8})
    assert late[1].text.startswith("the log of partition 4 begins inside the window")


def test_good_data_gives_no_concern():
    """Neither a reason nor an assumption."""
    found = concerns()

    assert found.reasons == found.assumptions == ()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"records": (0, 0), "findings": []}, "the window holds no record"),
        ({"findings": []}, "no arrivals are stored"),
        ({"findings": [finding(record_count=900)]}, "the arrivals of 100 of 1000 records are not known"),
        ({"findings": [finding(timestamp_type="LogAppendTime")]}, "LogAppendTime: when its records were sent is lost"),
        ({"findings": half_of(timestamp_type="LogAppendTime")}, "LogAppendTime: when its records were sent is lost"),
        ({"findings": [finding(counts={"outlier": 21})]}, "21 timestamps are far off"),
        ({"log": doubts({"missing_offset_count": 21})}, "21 offsets are gone from the log (compacted or lost)"),
        ({"log": doubts(lack="no disk of broker 2")}, "the window is incomplete: no disk of broker 2"),
        ({"log": doubts({"compacted_record_count": 30})}, "30 offsets are gone from the log (compacted)"),
        (
            {"log": doubts({"partition": 9, "first_offset": 7}, log_starts={9: 7})},
            "the log of partition 9 begins inside the window",
        ),
        ({"metrics": [replace(UNNAMED, spare_client_count=2)]}, f"{CONTRADICTED}2 clients"),
        (
            {"metrics": [replace(WATCHED, total_difference_ratio=0.051)]},
            f"{CONTRADICTED}a producer's bytes differ by 5 %",
        ),
        ({"log": doubts({"partition": 3, "leader_id": -1}, {"partition": 4, "leader_id": -1})}, UNLED),
        ({"findings": [finding(baseline=OPEN)]}, "linger.ms is not known, the data leave it open: 500 is taken"),
        ({"reason": "librdkafka-x cannot be simulated"}, "librdkafka-x cannot be simulated"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_makes_a_prediction_worthless_is_a_reason(changes, reason):
    """One reason each, and nothing else."""
    (found,) = concerns(**changes).reasons

    assert found.text.startswith(reason)


@pytest.mark.parametrize(
    ("changes", "assumption"),
    [
        ({"findings": [finding(counts={"outlier": 17})]}, "17 timestamps are far off"),
        ({"findings": [finding(counts={"late": 1})]}, "1 records are earlier than the one before"),
        ({"findings": [finding(counts={"aborted": 40})]}, "40 records of aborted transactions are replayed"),
        ({"findings": [finding(producer_id=-1)]}, "no producer ids"),
        ({"findings": half_of(producer_id=-1), "metrics": (WATCHED, WATCHED)}, f"{POOLED}{AS_ONE}"),
        ({"findings": [finding(producer_id=-1)], "metrics": (SHARED,)}, f"{POOLED}{DEALT}"),
        ({"findings": half_of(sampling_rate=0.5)}, "a sample of the window's time"),
        ({"findings": [finding(sampling_rate=0.5)]}, "a sample of the window's time"),
        ({"records": (1000,)}, "one partition"),
        ({"log": doubts({"missing_offset_count": 17})}, "17 offsets are gone"),
        ({"log": doubts({"is_compacted": True})}, "the topic is compacted"),
        ({"log": doubts({"crc_error_count": 1})}, "1 batches do not match their checksums"),
        (
            {"log": doubts({"leader_id": 2}, {"partition": 2, "leader_epoch": 1, "leader_id": 2})},
            "leaders of partitions 0, 2 were elected in the window",
        ),
        ({"log": doubts(minutes=1)}, "3 minutes of the window hold no record"),
        ({"metrics": [SessionMetrics({})]}, "no producer metrics of this window"),
        ({"metrics": [UNNAMED]}, "a producer without metrics"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_a_prediction_rests_on_is_an_assumption(changes, assumption):
    """One assumption each, and no reason."""
    found = concerns(**changes)

    assert found.reasons == ()
    assert len(found.assumptions) == 1
    assert found.assumptions[0].text.startswith(assumption)


@pytest.mark.parametrize(
    ("log", "unknown", "unanswered", "said"),
    [
        (doubts(), 0, 0, "trusted"),
        (doubts(), 17, 17, "trusted"),
        (doubts({"missing_offset_count": 21}), 0, 0, "not trustworthy: 21 offsets are gone from the log"),
        (doubts(), 21, 0, "not trustworthy: keys of 21 records are not known"),
        (doubts(), 0, 21, "not trustworthy: the partitioner gave no answer for keys of 21 records"),
    ],
)
def test_what_keys_alone_say_is_worth_what_the_log_is(log, unknown, unanswered, said):
    """A compacted topic lost most records of its hot key, and the plan for twice the partitions was called trusted."""
    recorded = SimpleNamespace(keyless_count=0, records=np.array([600, 400]), partition_count=2)
    concerns = list_concerns(recorded, (), "not simulated", log, ())
    topic = SimpleNamespace(recorded=recorded, concerns=concerns, keyed=None)
    moves = MoveTotals(unanswered_records=unanswered)
    keys = SimpleNamespace(strategy="murmur2", unknown_record_count=unknown, moves=moves)
    trusts = _describe_trusts(topic, SimpleNamespace(runs=None, keys=keys, reason=""), {})
    assert trusts["trust"].startswith(said)


@pytest.mark.parametrize(
    ("moved", "strategy", "source", "said"),
    [
        (
            500,
            "murmur2",
            BaselineSource.CONFIGURATION,
            "not trustworthy: configured is murmur2, but keys of 500 records lie",
        ),
        (17, "murmur2", BaselineSource.CONFIGURATION, "trusted"),
        (500, "sarama", BaselineSource.CONFIGURATION, "trusted"),  # wherever keys were, it says where they will be
        (500, "murmur2", BaselineSource.VERDICT, "trusted"),
    ],
)
def test_a_configured_strategy_that_did_not_place_the_recorded_keys_predicts_nothing(moved, strategy, source, said):
    """Producers changed their client, the configuration did not: a plan for twice the partitions was called trusted."""
    recorded = SimpleNamespace(keyless_count=0, records=np.array([600, 400]), partition_count=2)
    in_use = SimpleNamespace(strategy="murmur2", moves=MoveTotals(moved_records=moved))
    keyed = SimpleNamespace(baseline_source=source, outcomes={IN_USE: in_use})
    log = list_concerns(recorded, (), "not simulated", doubts(), ())
    keys = SimpleNamespace(strategy=strategy, unknown_record_count=0, moves=MoveTotals())
    topic = SimpleNamespace(recorded=recorded, concerns=log, keyed=keyed)
    assert _describe_trusts(topic, SimpleNamespace(runs=None, keys=keys, reason=""), {})["trust"].startswith(said)


@pytest.mark.parametrize("kind", [Caveat.RACKS_DRAWN, Caveat.COMMITS_UNKNOWN])
def test_what_a_candidate_takes_of_producers_that_nobody_knows_is_a_doubt(kind, monkeypatch):
    """Thirty producers of one zone were drawn evenly over three, and `partitioner.rack.aware=true` was trusted advice."""
    monkeypatch.setattr(comparison, "doubt_width", lambda _: ())
    recorded = SimpleNamespace(records=np.array([1000]), keyless_count=1000, partition_count=1)
    topic = SimpleNamespace(recorded=recorded, outcomes=(), keyed=None)
    simulated = {"runs": SimpleNamespace(partition_count=1), "partitioner": "java-builtin", "keys": None}
    outcome = SimpleNamespace(**simulated, is_baseline=False, is_as_in_use=False, assumptions=[kind.say()])
    tested = dict.fromkeys(TRUSTS, Trust.TRUSTED)
    assert {*_describe_trusts(topic, outcome, tested).values()} == {f"not trustworthy: {kind.say().text}"}


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        (None, "trusted"),
        ({"strategy": "murmur2"}, "trusted"),
        ({"strategy": "sarama", "unknown_record_count": 21}, "not trustworthy: keys of 21 records are not known"),
        ({"strategy": None}, "not trustworthy: the current strategy is not known"),
    ],
)
def test_a_simulation_is_worth_what_is_known_of_the_keys(keys, said, monkeypatch):
    """Keys without hashes stayed where they were under twice the partitions, and that was called trusted."""
    monkeypatch.setattr(comparison, "doubt_width", lambda _: ())
    recorded = SimpleNamespace(keyless_count=10, records=np.array([600, 400]), partition_count=2)
    topic = SimpleNamespace(recorded=recorded, outcomes=(), keyed=None)
    runs = SimpleNamespace(partition_count=2)
    known = keys and SimpleNamespace(**{"unknown_record_count": 0, "moves": MoveTotals(), **keys})
    simulated = {"runs": runs, "partitioner": None, "keys": known}
    outcome = SimpleNamespace(**simulated, is_baseline=False, is_as_in_use=False, assumptions=())
    tested = dict.fromkeys(TRUSTS, Trust.TRUSTED)
    assert _describe_trusts(topic, outcome, tested)["trust"].startswith(said)
    as_in_use = SimpleNamespace(**{**vars(outcome), "is_as_in_use": True})
    assert _describe_trusts(topic, as_in_use, tested)["trust"] == "trusted"


@pytest.mark.parametrize("answered", [0, 5])
def test_a_key_without_an_answer_stops_no_other_topic(answered):
    """A user's function raises for a key that is no text: one such record an hour stopped the replay of all topics."""
    assignment = SimpleNamespace(strategy="mine", candidate="c", partition_counts=[2])
    topics = [SimpleNamespace(topic=name, topic_id="", assignments=[assignment]) for name in "ab"]
    plan = SimpleNamespace(topics=topics, previous=[-1], window_starts_ms=[0])
    assigned = {0: (None, MoveTotals(unanswered_records=1))}
    keys = [SimpleNamespace(record_count=count) for count in (1, 1 + answered)]
    sums = {(number, 0): SimpleNamespace(keys=of, assigned=assigned) for number, of in enumerate(keys)}
    with nullcontext() if answered else pytest.raises(ConfigError, match="mine was not asked about keys of topic a"):
        assert [topic for _, topic, _ in list_keyed_topics(plan, sums)] == ["a", "b"]
