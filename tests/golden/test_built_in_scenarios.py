"""Built-in scenarios against what was published of them."""

import pytest

from pipeline.simulator.scenario.scenario_file import load_scenario
from pipeline.simulator.summary import summarise_variants
from tests.lab.fidelity.published import read_published


def summarise(name, *variants, seeds=(1, 2, 3, 4, 5)):
    return summarise_variants(load_scenario(name).select(variants), seeds)


def test_the_hour_behind_kip_794():
    """Oracle: the published hour. Its traffic is fitted, so this holds what the fit reached: records and batches."""
    [sticky] = summarise("slow-broker-hour", "sticky")
    published = read_published("slow-broker-hour", "sticky")["published"]
    assert all(figures["failed_record_count"].median == 0 for figures in sticky.producers)
    for place, broker in enumerate(sticky.variant.scenario.brokers):
        for name in ("record_count", "batch_count"):
            real = published.brokers[name][broker.broker_id]
            assert sticky.brokers[place][name].median == pytest.approx(real, rel=0.08)


def test_half_of_an_even_number_of_partitions_stays_empty():
    """Oracle: KAFKA-9965, KAFKA-17632; brokers that lead the empty ones get nothing."""
    defect, fixed = summarise("round-robin-defect", seeds=(1,))
    counts = [figures["record_count"].median for figures in defect.partitions]
    assert counts[::2] == [0, 0, 0, 0]
    assert all(count == pytest.approx(7500, rel=0.01) for count in counts[1::2])
    assert [figures["record_count"].median == 0 for figures in defect.brokers] == [True, False, True, False]
    assert [figures["record_count"].median for figures in fixed.partitions] == [3750] * 8


def test_a_broker_that_was_slow_for_a_while():
    """The old partitioner leaves a backlog, the built-in one hardly any."""
    sticky, adaptive = summarise("slow-broker-recovers", "sticky", "adaptive", seeds=(1, 2))
    assert sticky.run["latency_max_ms"].median > max(20_000, 2 * adaptive.run["latency_max_ms"].median)
