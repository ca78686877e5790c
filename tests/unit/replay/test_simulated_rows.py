"""Rows made of seeds' runs: they sum to what was recorded, lie in their ranges, and a back-test says what is too far off."""

import dataclasses
import math
from types import SimpleNamespace

import numpy as np
import pytest

from pipeline.calibration.caveats import Caveat, Origin
from pipeline.config.replay import IN_USE, Candidate
from pipeline.model.trust import Trust
from pipeline.replay.back_tests import back_test, find_longest
from pipeline.replay.comparison import comparison_row
from pipeline.replay.concerns import Concerns
from pipeline.replay.loads import NORMAL_REACH
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
    columns = comparison_row(*outcome_of(in_use), {"trust": Trust.TRUSTED})
    assert columns["seed_count"] == len(SEEDS)
    assert columns["replayed_record_count_low"] == columns["replayed_record_count_high"] == 20_000
    assert columns["lost_record_count_high"] == 0
    for name in ("records_per_batch", "throughput_records_per_s", "latency_p50_ms", "latency_p99_ms", "peak_to_mean"):
        assert columns[f"{name}_low"] <= columns[name] <= columns[f"{name}_high"]
    per_batch = sorted(
        run.cells[:, CELL_RECORDS].sum() / run.cells[:, CELL_BATCHES].sum() for run in in_use.runs.values()
    )
    assert columns["records_per_batch"] == pytest.approx(np.median(per_batch))
    assert columns["latency_p99_ms"] > DELAY_MS


def test_what_the_model_is_off_by_widens_ranges(truth, in_use):
    """As independent errors; 0.1 x sqrt(p (1 - p)) of a share p, of other figures a factor."""
    error = ModelError(share=0.1, batches=0.2, latency=0.3, unsteady_latency=0.6)
    exact = dataclasses.replace(in_use, error=ModelError(0.0, 0.0, 0.0, 0.0))
    steady, unsteady = (dataclasses.replace(exact, error=error, is_steady=each) for each in (True, False))

    def reach(found, narrow):
        own, seeds = ((each.high - each.low) / 2 for each in (found, narrow))
        return math.sqrt(own**2 - seeds**2) / NORMAL_REACH

    (share, *_), (narrow, *_) = (each.shares(CELL_BYTES, of_brokers=True) for each in (steady, exact))
    assert reach(share, narrow) == pytest.approx(0.1 * math.sqrt(share.value * (1 - share.value)), rel=0.2)
    for found, narrow, wanted in (
        (steady.records_per_batch(), exact.records_per_batch(), 0.2),
        (steady.latency_ms(0.5), exact.latency_ms(0.5), 0.3),
        (unsteady.latency_ms(0.99), exact.latency_ms(0.99), 0.6),
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
    ("changed", "reason"),
    [
        ({"broker_log_sizes": {0: 500, 1: 100, 2: 400}}, "broker 1's share is predicted"),
        ({"batches": np.array([9, 9, 9])}, "records per batch are predicted"),
    ],
)
def test_what_is_too_far_off_is_not_trusted(truth, in_use, changed, reason):
    tested = back_test(dataclasses.replace(truth, **changed), in_use, (), None, Concerns())
    assert not tested["is_trusted"]
    assert tested["trust"].startswith("not trustworthy: ")
    assert reason in tested["trust"]


def test_latencies_off_are_doubted_and_shares_are_not(truth, in_use):
    told = in_use.client_latency_ms().value
    fine = back_test(truth, in_use, (), told * 0.9, Concerns())
    wrong = back_test(truth, in_use, (), told * 2, Concerns())
    doubt = "latencies are not trustworthy: the mean latency is predicted 0.50 times the observed"
    assert (fine["is_trusted"], wrong["is_trusted"]) == (True, True)
    assert doubt not in fine["assumptions"]
    assert doubt in wrong["assumptions"]
    assert doubt in comparison_row(*outcome_of(in_use), wrong)["assumptions"]


def test_concerns_are_told_and_take_trust_away(truth, in_use):
    missing, assumed = Caveat.ARRIVALS_MISSING.say(missing=7, total=9), Caveat.OF_SIMULATOR.say(text="one; two")
    tested = back_test(truth, in_use, (), None, Concerns((missing,), (assumed, assumed)))
    assert tested["trust"] == "not trustworthy: the arrivals of 7 of 9 records are not known"
    assert tested["assumptions"] == "one, two"
    assert not back_test(truth, None, (), None, Concerns())["is_trusted"]


@pytest.mark.parametrize(
    ("latency_known", "longest_ms", "said"),
    [
        (False, None, ""),
        (True, None, "the 99th percentile of latency is predicted, not tested: clients report means"),
        (
            True,
            151.6,
            "the 99th percentile of latency is tested only against the longest time that clients report: 152 ms",
        ),
        (
            False,
            151.6,
            "the 99th percentile of latency is tested only against the longest time that clients report: 152 ms",
        ),
    ],
)
def test_the_99th_percentile_is_tested_as_far_as_clients_tell(truth, in_use, latency_known, longest_ms, said):
    latency_ms = in_use.client_latency_ms().value if latency_known else None
    tested = back_test(truth, in_use, (), latency_ms, Concerns(), longest_ms=longest_ms)
    assert tested["is_trusted"]
    assert tested["assumptions"] == said
    assert (tested["observed_latency_p99_ms"], tested["latency_p99_ratio"]) == (None, None)
    longest = in_use.latency_ms(1.0).value
    assert (tested["observed_latency_max_ms"], tested["predicted_latency_max_ms"]) == (longest_ms, longest)
    assert tested["latency_max_ratio"] == (longest / longest_ms if longest_ms else None)


def test_a_99th_percentile_above_all_that_clients_saw_is_not_trusted(truth, in_use):
    p99 = in_use.latency_ms(0.99)
    near, far = (back_test(truth, in_use, (), None, Concerns(), longest_ms=p99.low / factor) for factor in (1.29, 1.31))
    assert "not trustworthy" not in near["assumptions"]
    assert far["assumptions"].endswith(
        f"latencies are not trustworthy: the 99th percentile of latency is predicted above {p99.low:.0f} ms, "
        f"but no record took longer than {p99.low / 1.31:.0f} ms"
    )


def test_the_longest_time_is_known_only_where_every_producer_tells_it():
    assert [find_longest(parts) for parts in ([3.0, 5.0], [3.0, None], [])] == [5.0, None, None]


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


def test_a_bar_is_never_wider_than_four_points_and_a_wide_range_is_not_trusted(truth, in_use):
    wide = scatter(in_use, 10)
    tested = back_test(truth, wide, (), None, Concerns())
    assert tested["share_bar_points"] == 4.0
    assert "too uncertain: broker " in tested["trust"]
    assert not tested["is_trusted"]


def test_a_candidate_has_a_trust_of_its_own(in_use):
    """What is in use may be predicted well, and another client's outcome be anybody's guess."""
    topic, outcome = outcome_of(scatter(in_use, 10))
    other = dataclasses.replace(outcome, name="other", partitioner="java-builtin")
    doubted = comparison_row(topic, other, {"trust": "not trustworthy: no arrivals are stored"})["trust"]
    assert comparison_row(topic, other, {"trust": Trust.TRUSTED})["trust"].startswith(
        "not trustworthy: too uncertain: broker "
    )
    assert doubted.startswith("not trustworthy: no arrivals are stored; too uncertain: broker ")
    narrow = dataclasses.replace(other, runs=in_use)
    assert comparison_row(topic, narrow, {"trust": Trust.TRUSTED})["trust"] == Trust.TRUSTED


def test_a_partitioner_that_was_never_back_tested_is_named(in_use):
    topic, outcome = outcome_of(in_use)
    session = SimpleNamespace(
        record_count=1, baseline=SimpleNamespace(strategy="java-sticky-2.4", source=Origin.CONFIGURED)
    )
    topic = dataclasses.replace(topic, sessions=[session])
    other = dataclasses.replace(outcome, name="other", partitioner="java-builtin")
    assert comparison_row(topic, other, {"trust": Trust.TRUSTED})["assumptions"] == (
        "java-builtin was not back-tested here: the current partitioner is java-sticky-2.4"
    )
    assert comparison_row(topic, outcome, {"trust": Trust.TRUSTED})["assumptions"] == ""


def test_odd_minutes_judge_where_there_are_both(truth, in_use):
    """The slow broker's share of odd minutes is as predicted for them, whatever the even ones held."""
    cells = in_use.cells(CELL_LOG_BYTES)[0]
    runs = {seed: dataclasses.replace(run, cells=run.cells.copy()) for seed, run in in_use.runs.items()}
    for run in runs.values():
        run.cells[:, -1] = run.cells[:, CELL_LOG_BYTES] // 2
    judged = dict(enumerate((cells // 2).tolist()))
    recorded = dataclasses.replace(truth, judged_log_sizes=judged, broker_log_sizes={0: cells.sum(), 1: 0, 2: 0})
    tested = back_test(recorded, SimulatedTopic(recorded, runs), (), None, Concerns())
    assert tested["judged_on"] == "odd minutes"
    assert tested["is_trusted"]
