"""Figures over seeds. Oracles: the batch trace of the same seeds, added up here, and numpy's percentiles."""

import numpy as np
import pytest

from pipeline.simulator.engine.simulate import simulate
from pipeline.simulator.scenario.scenario_file import parse_scenario
from pipeline.simulator.summary import RUN_FIGURES, Range, summarise_variants, take_range

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
    return [simulate(variant.scenario, seed, traces=True).batch_trace.to_pandas() for seed in SEEDS]


def test_ranges_over_seeds_are_those_of_the_traces(summary, traces):
    for place, led in enumerate(([0], [1, 2, 3])):
        on_broker = [trace[trace.partition.isin(led)] for trace in traces]
        for name in ("record_count", "size_bytes"):
            assert summary.brokers[place][name] == pytest.approx(
                expected([batches[name].sum() for batches in on_broker])
            )
        assert summary.brokers[place]["batch_count"] == expected([len(batches) for batches in on_broker])
        shares = [
            batches.size_bytes.sum() / trace.size_bytes.sum() for batches, trace in zip(on_broker, traces, strict=True)
        ]
        assert summary.brokers[place]["bytes_share"] == pytest.approx(expected(shares))
    for place in range(4):
        counts = [trace[trace.partition == place].record_count.sum() for trace in traces]
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


def test_a_figure_that_no_seed_tells():
    assert take_range([None, None]) == Range(None, None, None)
