"""Figures over seeds. Oracles: the batch trace of the same seeds, added up here, and numpy's percentiles."""

import numpy as np
import pyarrow as pa
import pytest

from pipeline.simulator.comparison import RUN_FIGURES
from pipeline.simulator.engine.batch_trace import NAMED_BATCH_TRACE, trace_batches
from pipeline.simulator.scenario.recovery import measure_backlog_s, measure_recovery_s
from pipeline.simulator.scenario.scenario_file import parse_scenario
from pipeline.simulator.summary import Range, summarise_variants, take_range

SMALL = """\
cluster:
  brokers: [{id: 5, delay_ms: 5}, {id: 6}]
topics:
  - {name: foo, leaders: [5, 6, 6]}
  - {name: bar, leaders: [6]}
producers:
  - name: a
    version: 3.9.1
    traffic: {topics: {foo: 3, bar: 1}, arrivals: {kind: poisson, records_per_s: 2000}, records: 1500, value_bytes: 100}
  - name: b
    version: 3.2.3
    traffic: {topic: foo, arrivals: {kind: constant, records_per_s: 500}, records: 400, value_bytes: 100}
"""
SEEDS = (3, 4, 5, 6)


@pytest.fixture(scope="module")
def variant():
    [variant] = parse_scenario(SMALL, "small.yaml").variants
    return variant


@pytest.fixture(scope="module")
def summary(variant):
    [summary] = summarise_variants([variant], SEEDS)
    return summary


@pytest.fixture(scope="module")
def traces(variant):
    return [trace_batches(variant, seed).to_pandas() for seed in SEEDS]


def test_ranges_over_seeds_are_those_of_the_traces(summary, traces):
    for place, broker_id in enumerate((5, 6)):
        for name, column in (("record_count", "record_count"), ("size_bytes", "size_bytes")):
            per_seed = [trace[trace.broker_id == broker_id][column].sum() for trace in traces]
            assert summary.brokers[place][name] == pytest.approx(expected(per_seed))
        assert summary.brokers[place]["batch_count"] == expected(
            [(trace.broker_id == broker_id).sum() for trace in traces]
        )
        shares = [trace[trace.broker_id == broker_id].size_bytes.sum() / trace.size_bytes.sum() for trace in traces]
        assert summary.brokers[place]["bytes_share"] == pytest.approx(expected(shares))
    for place, (topic, partition) in enumerate((("foo", 0), ("foo", 1), ("foo", 2), ("bar", 0))):
        counts = [trace[(trace.topic == topic) & (trace.partition == partition)].record_count.sum() for trace in traces]
        assert summary.partitions[place]["record_count"] == pytest.approx(expected(counts))


def expected(values):
    return Range(float(np.median(values)), *(float(np.percentile(values, level)) for level in (5, 95)))


def test_nothing_is_lost(summary):
    assert summary.run["record_count"] == Range(1900, 1900, 1900)
    assert [figures["record_count"].median for figures in summary.producers] == [1500, 400]
    assert summary.run["payload_bytes"].median == 1900 * 100
    assert sum(figures["bytes_share"].median for figures in summary.brokers) == pytest.approx(1, abs=0.02)


def test_figures_of_a_run_stand_in_order(summary):
    assert list(summary.run)[: len(RUN_FIGURES)] == list(RUN_FIGURES)
    medians = [summary.run[f"latency_{name}_ms"].median for name in ("p50", "p95", "p99", "p999", "max")]
    assert medians == sorted(medians)
    slow, fast = (figures["latency_avg_ms"].median for figures in summary.brokers)
    assert slow > 5 > fast


def test_the_number_of_threads_changes_nothing(variant, summary):
    done = []
    [alone] = summarise_variants([variant], SEEDS, worker_count=1, on_done=lambda: done.append(1))
    assert alone == summary
    assert len(done) == len(SEEDS)


def test_the_trace_says_names(variant):
    trace = trace_batches(variant, 3)
    assert trace.schema == NAMED_BATCH_TRACE
    assert trace.column("variant").unique().to_pylist() == ["as configured"]
    assert set(trace.column("client_id").to_pylist()) == {"a", "b"}
    frame = trace.to_pandas()
    assert set(zip(frame.topic, frame.partition, frame.broker_id, strict=True)) == {
        ("foo", 0, 5),
        ("foo", 1, 6),
        ("foo", 2, 6),
        ("bar", 0, 6),
    }


def test_a_figure_that_no_seed_tells():
    assert take_range([None, None]) == Range(None, None, None)


class Traced:
    """As much of a result as a recovery is measured on."""

    def __init__(self, batches, leaders=(0, 1)):
        done_s, partitions, records = zip(*batches, strict=True)
        self.leaders = leaders
        self.batch_trace = pa.table(
            {
                "created_at_ns": [round(second * 1_000_000_000) - 500_000_000 for second in done_s],
                "done_at_ns": [round(second * 1_000_000_000) for second in done_s],
                "partition": list(partitions),
                "record_count": list(records),
            }
        )

    def find_batch_trace(self):
        return self.batch_trace


@pytest.mark.parametrize(
    ("uneven_until_s", "first_records", "recovery"),
    [(0, 140, (0, True)), (30, 140, (24.2, True)), (36, 60, (30.2, True)), (100, 140, (50.2, False))],
)
def test_recovery(uneven_until_s, first_records, recovery):
    """Broker 0 has 70 % (or 30 %) of a second's records, then half: 5 of 10 such seconds are just within 20 %."""
    batches = [
        (10.1 + second, partition, records)
        for second in range(61)
        for partition, records in enumerate(
            (first_records, 200 - first_records) if second < uneven_until_s else (100, 100)
        )
    ]
    assert measure_recovery_s(Traced(batches), 0, 10_000_000_000, 0.5) == recovery


def test_backlog_is_gone_when_the_last_batch_from_before_is_done():
    traced = Traced([(9.0, 0, 1), (10.3, 1, 1), (10.7, 0, 1)])  # each was begun half a second before it was done
    assert measure_backlog_s(traced, 10_000_000_000) == pytest.approx(0.3)
    assert measure_backlog_s(traced, 11_000_000_000) == 0


def test_a_recovery_that_the_run_is_too_short_for():
    assert measure_recovery_s(Traced([(1, 0, 5), (2, 1, 5)]), 0, 0, 0.5) is None
