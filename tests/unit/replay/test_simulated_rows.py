"""Rows made of seeds' runs: they sum to what was recorded, lie in their ranges, and a back-test says what is too far off."""

import dataclasses
import math
from types import SimpleNamespace

import numpy as np
import pytest

from pipeline.calibration.caveats import Caveat, Origin
from pipeline.config.replay import IN_USE, Candidate
from pipeline.measures.chance import NORMAL_REACH
from pipeline.model.promise import Trust
from pipeline.replay.back_tests import TRUSTS, back_test
from pipeline.replay.comparison import comparison_row
from pipeline.replay.concerns import Concerns
from pipeline.replay.recorded import RecordedTopic
from pipeline.replay.rows import broker_rows, partition_rows
from pipeline.replay.simulated.arrivals import prepare_arrivals
from pipeline.replay.simulated.runs import CELL_BATCHES, CELL_BYTES, CELL_LOG_BYTES, CELL_RECORDS, run_group
from pipeline.replay.simulated.topics import ModelError, SimulatedTopic
from pipeline.replay.topics import CandidateOutcome, ReplayedTopic
from tests.unit.replay.session_groups import lay_out, make_group, make_traffic

SEEDS = range(1, 8)
SLOW, DELAY_MS = 1, 20.0
RANGED = ("record_count", "size_bytes", "batch_count", "log_size_bytes", "log_share")


def simulate(candidate=None, seeds=SEEDS):
    traffic = make_traffic(20_000)
    group = make_group(traffic, delays={SLOW: DELAY_MS})
    arrivals = prepare_arrivals(group, [traffic])
    planned = lay_out(group, arrivals, candidate)
    return {seed: run_group(planned, arrivals, seed)[0] for seed in seeds}


def record(run, **others):
    """As if a run had been the truth."""
    log_sizes = run.cells[:, CELL_LOG_BYTES]
    return RecordedTopic(
        topic="orders", topic_id="", leaders={0: 0, 1: 1, 2: 2}, broker_ids=(0, 1, 2),
        records=run.cells[:, CELL_RECORDS], sizes=run.cells[:, CELL_BYTES], batches=run.cells[:, CELL_BATCHES],
        log_sizes=log_sizes, broker_log_sizes=dict(enumerate(log_sizes.tolist())), keyless_count=run.sent_count,
        **others,
    )  # fmt: skip  # fields of a value, several a line


ALL_TRUSTED = dict.fromkeys(TRUSTS, Trust.TRUSTED) | {"share_error_points": 0.0}


def outcome_of(simulated):
    """A topic without keys under one candidate."""
    outcome = CandidateOutcome(
        name=IN_USE, keys=None, runs=simulated, partitioner="java-sticky-2.4", reason="", is_as_in_use=False,
        assumptions=(), has_keyless=True,
    )  # fmt: skip  # fields of a value, several a line
    return ReplayedTopic(0, simulated.recorded, (), [outcome], None, None, Concerns()), outcome


@pytest.fixture(scope="module")
def truth():
    return record(simulate(seeds=[99])[99])


@pytest.fixture(scope="module")
def in_use(truth):
    return SimulatedTopic(truth, simulate())


@pytest.mark.parametrize("partitions", [None, 2, 7])
def test_partitions_and_brokers_hold_what_was_recorded(truth, partitions):
    simulated = SimulatedTopic(truth, simulate(Candidate(name="other", partitions=partitions)))
    rows, brokers = list(partition_rows(*outcome_of(simulated))), list(broker_rows(*outcome_of(simulated)))
    assert [row["partition"] for row in rows] == list(range(max(3, partitions or 3)))
    for found in (rows, brokers):
        assert sum(row["record_count"] for row in found) == truth.records.sum()
        assert sum(row["size_bytes"] for row in found) == truth.sizes.sum()
        for row in found:
            for name in RANGED:
                if row.get(name) is not None:
                    assert 0 <= row[f"{name}_low"] <= row[name] <= row[f"{name}_high"], name
    assert all(row["record_count_high"] == 0 for row in rows if row["partition"] >= row["partition_count"])
    assert {row["placement"] for row in brokers} == {"known" if partitions is None else "drawn"}
    assert sum(row["recorded_log_share"] for row in brokers) == pytest.approx(1)


def test_seeds_make_the_ranges(in_use):
    columns = comparison_row(*outcome_of(in_use), ALL_TRUSTED)
    assert columns["seed_count"] == len(SEEDS)
    assert columns["replayed_record_count_low"] == columns["replayed_record_count_high"] == 20_000
    assert columns["lost_record_count_high"] == 0
    for name in ("records_per_batch", "throughput_records_per_s", "latency_p50_ms", "peak_to_mean"):
        assert columns[f"{name}_low"] <= columns[name] <= columns[f"{name}_high"]
    per_batch = sorted(
        run.cells[:, CELL_RECORDS].sum() / run.cells[:, CELL_BATCHES].sum() for run in in_use.runs.values()
    )
    assert columns["records_per_batch"] == pytest.approx(np.median(per_batch))
    assert "latency_p99_ms" not in columns


def test_what_the_model_is_off_by_widens_ranges(truth, in_use):
    """As independent errors; 0.1 x sqrt(p (1 - p)) of a share p, of other figures a factor."""
    error = ModelError(share=0.1, batches=0.2, latency=0.3)
    exact = dataclasses.replace(in_use, error=ModelError(0.0, 0.0, 0.0))
    wide = dataclasses.replace(exact, error=error)

    def reach(found, narrow):
        own, seeds = ((each.high - each.low) / 2 for each in (found, narrow))
        return math.sqrt(own**2 - seeds**2) / NORMAL_REACH

    (share, *_), (narrow, *_) = (each.shares(CELL_BYTES, of_brokers=True) for each in (wide, exact))
    assert reach(share, narrow) == pytest.approx(0.1 * math.sqrt(share.value * (1 - share.value)), rel=0.2)
    for found, narrow, wanted in (
        (wide.records_per_batch(), exact.records_per_batch(), 0.2),
        (wide.latency_p50_ms(), exact.latency_p50_ms(), 0.3),
    ):
        assert reach(found, narrow) / found.value == pytest.approx(
            math.sinh(NORMAL_REACH * wanted) / NORMAL_REACH, rel=0.2
        )


def test_one_seed_is_its_own_range(truth):
    simulated = SimulatedTopic(truth, simulate(seeds=[3]))
    cells = simulated.runs[3].cells
    rows = list(partition_rows(*outcome_of(simulated)))
    assert [row["record_count"] for row in rows] == cells[:, CELL_RECORDS].tolist()
    assert [row["log_size_bytes"] for row in rows] == cells[:, CELL_LOG_BYTES].tolist()


def test_a_good_prediction_is_trusted(truth, in_use):
    tested = back_test(truth, in_use, (), None, Concerns())
    assert (tested["trust"], tested["is_trusted"]) == (Trust.TRUSTED, True)
    assert tested["share_error_points"] <= tested["share_bar_points"]
    assert tested["records_per_batch_ratio"] == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize(
    ("changed", "latency_times", "said"),
    [
        ({"broker_log_sizes": {0: 500, 1: 100, 2: 400}}, 1.0, ("trust", "broker 1's share is predicted")),
        ({"log_sizes": np.array([600, 100, 300])}, 1.0, ("trust", "partition 1's share is predicted")),
        ({"batches": np.array([9, 9, 9])}, 1.0, ("batches_trust", "records per batch are predicted")),
        ({}, 2.0, ("latency_trust", "the mean latency is predicted 0.50 times the observed")),
        ({}, None, ("latency_trust", "no metrics say how long producers waited")),
    ],
)
def test_what_is_too_far_off_takes_trust_from_its_own_question_alone(truth, in_use, changed, latency_times, said):
    doubted, reason = said
    latency_ms = latency_times and in_use.client_latency_ms().value * latency_times
    tested = back_test(dataclasses.replace(truth, **changed), in_use, (), latency_ms, Concerns())
    assert tested[doubted].startswith(f"not trustworthy: {reason}")
    assert {tested[name] for name in TRUSTS if name != doubted} == {Trust.TRUSTED}
    assert tested["is_trusted"] == (doubted != "trust")
    compared = comparison_row(*outcome_of(in_use), tested)
    assert {name: compared[name] for name in TRUSTS} == {name: tested[name] for name in TRUSTS}


def test_an_error_just_beyond_its_bar_is_told_as_more_than_is_allowed():
    """With one digit 1.78 of 1.75 points read as 1.8 of 1.8."""
    assert "1.78 points off, 1.75 are allowed" in Caveat.SHARE_OFF.say(place="broker 1", error=1.78, bar=1.75).text


def test_concerns_are_told_and_take_trust_away(truth, in_use):
    missing, assumed = Caveat.ARRIVALS_MISSING.say(missing=7, total=9), Caveat.OF_SIMULATOR.say(text="one; two")
    tested = back_test(truth, in_use, (), None, Concerns((missing,), (assumed, assumed)))
    assert {tested[name] for name in TRUSTS} >= {"not trustworthy: the arrivals of 7 of 9 records are not known"}
    assert all("the arrivals of 7 of 9" in tested[name] for name in TRUSTS)
    assert tested["assumptions"] == "one, two"
    assert not back_test(truth, None, (), None, Concerns())["is_trusted"]


def scatter(simulated, points):
    """The same runs, every other one with so many points of the whole more on broker 0."""
    runs = {}
    for seed, run in simulated.runs.items():
        cells = run.cells.copy()
        moved = round(cells[:, CELL_LOG_BYTES].sum() * points / 100) * (seed % 2)
        cells[0, CELL_LOG_BYTES] += moved
        cells[1, CELL_LOG_BYTES] -= moved
        runs[seed] = dataclasses.replace(run, cells=cells)
    return SimulatedTopic(simulated.recorded, runs)


def test_a_share_s_deviation_is_known_from_few_seeds(truth, in_use):
    """With ten seeds and all partitions its error is below 15 %; with one partition's seeds alone it is 24 %."""
    draws, batches, partitions = np.random.default_rng(1), 800, 12
    first, *_ = in_use.runs.values()
    off = []
    for _ in range(100):
        runs = {}
        for seed in range(10):
            cells = np.zeros((partitions, first.cells.shape[1]), np.int64)
            cells[:, CELL_LOG_BYTES] = 1_000 * draws.multinomial(batches, [1 / partitions] * partitions)
            runs[seed] = dataclasses.replace(first, cells=cells)
        off += SimulatedTopic(truth, runs).share_deviations(of_brokers=False)
    true = math.sqrt((partitions - 1) / batches) / partitions
    assert np.std(off) < 0.15 * true
    assert np.mean(off) == pytest.approx(true, rel=0.03)


def test_a_bar_is_never_wider_than_3_5_points_and_a_wide_range_is_not_trusted(truth, in_use):
    wide = scatter(in_use, 10)
    tested = back_test(truth, wide, (), None, Concerns())
    assert tested["share_bar_points"] == 3.5
    assert "too uncertain: broker " in tested["trust"]
    assert not tested["is_trusted"]


def test_a_candidate_has_a_trust_of_its_own(in_use):
    """What is in use may be predicted well, and another client's outcome be anybody's guess."""
    topic, outcome = outcome_of(scatter(in_use, 10))
    other = dataclasses.replace(outcome, name="other", partitioner="java-builtin")
    doubted = comparison_row(topic, other, ALL_TRUSTED | {"trust": "not trustworthy: no arrivals are stored"})["trust"]
    assert comparison_row(topic, other, ALL_TRUSTED)["trust"].startswith("not trustworthy: too uncertain: broker ")
    assert doubted.startswith("not trustworthy: no arrivals are stored; too uncertain: broker ")
    assert comparison_row(topic, dataclasses.replace(other, runs=in_use), ALL_TRUSTED)["trust"] == Trust.TRUSTED


@pytest.mark.parametrize(
    ("points", "said"), [(12, "trusted"), (0.5, "not trustworthy: broker 1's share changes by -0.5 points")]
)
def test_a_direction_is_trusted_where_the_change_is_larger_than_the_ranges(in_use, points, said):
    """The broker with most bytes is the slow one; its share is moved to another in all runs alike."""
    cells = {seed: run.cells.copy() for seed, run in in_use.runs.items()}
    for own in cells.values():
        moved = round(own[:, CELL_LOG_BYTES].sum() * points / 100)
        own[:, CELL_LOG_BYTES] += np.array([moved, -moved, 0])
    changed = {seed: dataclasses.replace(run, cells=cells[seed]) for seed, run in in_use.runs.items()}
    topic, outcome = outcome_of(in_use)
    other = dataclasses.replace(
        outcome, name="other", is_as_in_use=False, runs=SimulatedTopic(in_use.recorded, changed)
    )
    topic = dataclasses.replace(topic, outcomes=[outcome, other])

    found = comparison_row(topic, other, ALL_TRUSTED)
    assert found["direction_trust"].startswith(said)
    assert found["latency_trust"].startswith("not trustworthy: under another client or other settings")
    assert "direction_trust" not in comparison_row(topic, outcome, ALL_TRUSTED)
    off = comparison_row(topic, other, ALL_TRUSTED | {"trust": "not trustworthy: odd", "share_error_points": 5.0})
    assert off["direction_trust"].startswith(said)
    far_off = dataclasses.replace(other, runs=dataclasses.replace(other.runs, error=ModelError(0.25, 0.0, 0.0)))
    assert comparison_row(topic, far_off, ALL_TRUSTED)["direction_trust"].startswith(
        "not trustworthy: broker 1's share changes by"
    )
    doubted = dataclasses.replace(topic, concerns=Concerns((Caveat.NO_CREATE_TIME.say(),)))
    assert comparison_row(doubted, other, ALL_TRUSTED)["direction_trust"].startswith("not trustworthy: LogAppendTime")


def test_a_partitioner_that_was_never_back_tested_is_named(in_use):
    topic, outcome = outcome_of(in_use)
    session = SimpleNamespace(
        record_count=1, baseline=SimpleNamespace(strategy="java-sticky-2.4", source=Origin.CONFIGURED)
    )
    topic = dataclasses.replace(topic, sessions=[session])
    other = dataclasses.replace(outcome, name="other", partitioner="java-builtin")
    assert comparison_row(topic, other, ALL_TRUSTED)["assumptions"] == (
        "java-builtin was not back-tested here: the current partitioner is java-sticky-2.4"
    )
    assert comparison_row(topic, outcome, ALL_TRUSTED)["assumptions"] == ""


@pytest.mark.parametrize(
    ("settings", "keyless", "is_doubted"),
    [
        ({"partitions": "x2"}, 0, True),
        ({"partitions": "x2"}, 2_000, False),
        ({"partitioner": "librdkafka-consistent_random"}, 0, True),
        ({"partitioner": "java-builtin"}, 0, False),
        ({"partitioner": "java-builtin-ignore-keys"}, 0, False),
    ],
)
def test_where_keys_go_that_are_not_stored_is_not_known(settings, keyless, is_doubted):
    """`keys: {mode: off}`: a run leaves their records where they were, though another hash or count would move them."""
    traffic = make_traffic(2_000, key_count=500, keyed_ratio=1.0)
    some_key = -2  # a key without an id
    traffic = dataclasses.replace(traffic, key_index=np.full(2_000, some_key, np.int32), keys=np.zeros(0, np.int64))
    group = make_group(traffic)
    arrivals, candidate = prepare_arrivals(group, [traffic]), Candidate(name="other", **settings)
    now, then = (
        {seed: run_group(lay_out(group, arrivals, one), arrivals, seed)[0] for seed in (1, 2)}
        for one in (None, candidate)
    )
    recorded = dataclasses.replace(record(now[1]), keyless_count=keyless)
    topic, in_use = outcome_of(SimulatedTopic(recorded, now))
    other = dataclasses.replace(
        in_use,
        name="other",
        runs=SimulatedTopic(recorded, then),
        partitioner=settings.get("partitioner", "java-sticky-2.4"),
    )
    trust = comparison_row(dataclasses.replace(topic, outcomes=[in_use, other]), other, ALL_TRUSTED)["trust"]
    assert trust.startswith("not trustworthy: keys of 2000 records are not known") == is_doubted, trust
