"""Delays from what a producer's metrics say of a connection, against queues whose time per request is known."""

import math
from dataclasses import replace

import numpy as np
import pytest

from pipeline.calibration.caveats import Caveat, Origin
from pipeline.calibration.service.fit import NodeMetrics, estimate_request_time, fit_services, take_out_stale
from pipeline.calibration.service.model import Parameter, assume_service, make_broker
from pipeline.simulator.distributions import Distribution
from pipeline.simulator.scenario.measured import MEASURED_SERVICE

START_MS = 1_795_000_080_000
MINUTE = 60_000


def minute(number: int, rate: float | None, latency: float | None, broker_id: int = 0) -> NodeMetrics:
    start_ms = START_MS + number * MINUTE
    return NodeMetrics(broker_id, start_ms, start_ms + MINUTE, rate, latency)


def queue_of_five(request_ms: float, busy: float, seed: int) -> tuple[float, float]:
    """Rate and mean latency of requests, one at a time, independent arrivals, the sixth held back by the client."""
    chance = np.random.default_rng(seed)
    arrivals = np.cumsum(chance.exponential(request_ms / busy, 20_000))
    services = chance.exponential(request_ms, 20_000)
    ends = np.zeros(20_000)
    latency = 0.0
    for number, at_ms in enumerate(arrivals):
        sent_ms = max(at_ms, ends[number - 5] if number >= 5 else 0.0)
        ends[number] = max(sent_ms, ends[number - 1]) + services[number]
        latency += ends[number] - sent_ms
    return 20_000 / ends[-1] * 1000, latency / 20_000


@pytest.mark.parametrize("busy", [0.3, 0.5, 0.7, 0.9, 0.97])
def test_time_per_request_of_a_queue(busy):
    rate, latency_ms = queue_of_five(20.0, busy, 1)
    time = estimate_request_time(rate, latency_ms)
    assert time.source == Origin.INFERRED
    assert time.value == pytest.approx(20.0, rel=0.12)
    assert time.low <= 20.0 <= time.high


def test_a_saturated_connection_takes_one_by_rate():
    time = estimate_request_time(48.6, 103.05)
    assert (time.value, time.source) == (pytest.approx(20.58, abs=0.01), Origin.MEASURED)


def test_a_quick_broker_has_no_delay():
    models = fit_services([minute(0, 110.0, 0.45)], [0], START_MS, START_MS + MINUTE)
    assert models[0].delay_ms.value == 0
    assert models[0].is_identifiable


@pytest.mark.parametrize(
    ("rate", "latency"),
    [(None, 20.0), (50.0, None), (0.0, 20.0), (float("nan"), 20.0), (50.0, float("nan")), (0.1, 20.0)],
)
def test_what_metrics_do_not_tell_is_assumed(rate, latency):
    model = fit_services([minute(0, rate, latency)], [0, 7], START_MS, START_MS + MINUTE)[0]
    assert (model.delay_ms.value, model.delay_ms.source, model.is_identifiable) == (0.0, Origin.ASSUMED, False)
    assert model.delay_ms.high == float("inf")
    assert [said.kind for said in model.assumptions] == [Caveat.DELAY_UNKNOWN]


def test_a_delay_series_follows_the_minutes():
    quick, slow = (137.0, 0.5), (1000 / 20.54, 5 * 20.54)
    nodes = [minute(number, *(slow if 4 <= number < 8 else quick)) for number in range(12)]
    series = fit_services(nodes, [0], START_MS, START_MS + 12 * MINUTE)[0].delay_series
    assert [round(delay) for _, delay in series] == [0] * 4 + [20] * 4 + [0] * 4


def test_what_trails_from_the_minute_before_is_taken_out():
    before, node = minute(0, 137.8, 1.4), minute(1, 49.5, 56.7)
    found = take_out_stale(node, before)
    assert not found.is_settled
    assert found.request_latency_avg_ms == pytest.approx(5 * 1000 / 49.5)
    for other in (None, replace(before, end_ms=before.end_ms - 1)):
        assert take_out_stale(node, other) == node
    unknown = take_out_stale(minute(1, 2.0, 3.0), minute(0, None, 60.0))
    assert unknown.request_latency_avg_ms == pytest.approx(3.0)  # nothing is known to have been sent before


def test_a_quick_minute_is_not_taken_for_one_of_the_slow_ones_that_follow():
    """Its average falls yet from a busy start; that the next level known is a slow one says nothing of it."""
    nodes = [minute(-1, 130.0, 30.0), minute(0, 130.0, 11.5)]
    nodes += [minute(number, 1000 / 20.54, 5 * 20.54) for number in range(1, 5)]
    series = fit_services(nodes, [0], START_MS, START_MS + 5 * MINUTE)[0].delay_series
    assert [round(delay) for _, delay in series] == [0, 20, 20, 20, 20]


def test_a_minute_between_two_levels_is_of_the_one_next_to_its_own():
    """A slow broker that gets quick: the minute between holds some of both, and more of the slow one."""
    slow, quick = (1000 / 20.54, 5 * 20.54), (137.0, 0.5)
    nodes = [minute(number, *(slow if number < 3 else quick)) for number in range(6)]
    nodes[3] = minute(3, 60.0, 60.0)
    series = fit_services(nodes, [0], START_MS, START_MS + 6 * MINUTE)[0].delay_series
    assert [round(delay) for _, delay in series] == [20, 20, 20, 20, 0, 0]


def test_the_minute_before_the_window_only_serves_as_such():
    nodes = [minute(-1, 45.7, 109.5), minute(0, 137.8, 26.9)]
    model = fit_services(nodes, [0], START_MS, START_MS + MINUTE)[0]
    assert not model.is_settled
    assert model.delay_ms.value < 6
    assert Caveat.TRAILING_AVERAGE in {said.kind for said in model.assumptions}


def test_a_broker_for_the_simulator():
    model = replace(
        assume_service(3), delay_series=((START_MS, 5.0), (START_MS + MINUTE, 5.0), (START_MS + 2 * MINUTE, 0.0))
    )
    broker = make_broker(model, START_MS + 1_000)
    assert broker.broker_id == 3
    assert broker.delay_ns.starts_ns == (0, 119_000_000_000)
    assert broker.delay_ns.values == (5_000_000, 0)
    assert broker.service == MEASURED_SERVICE
    assert make_broker(assume_service(1), START_MS).oversleep_ns == Distribution()


def test_a_delay_is_varied_within_its_range_minute_by_minute_alike():
    """A broker of two levels: the usual one goes through its range, the other a few percent, silence stays."""
    usual = Parameter(20.0, 18.0, 21.0, Origin.MEASURED)
    series = ((0, 20.0), (60_000, 22.0), (120_000, 0.0), (180_000, 100.0))
    model = replace(assume_service(1), delay_ms=usual, delay_series=series)
    least, most = (make_broker(model, 0, chance=chance).delay_ns.values for chance in (0.0, 1.0))
    assert least == (18_000_000, 19_800_000, 0, 97_000_000)
    assert most == (21_000_000, 23_100_000, 0, 103_000_000)


@pytest.mark.parametrize(
    ("high", "chance", "values"),
    [
        (21.0, None, (20_000_000, 0, 100_000_000)),
        (21.0, 0.0, (18_000_000, 0, 90_000_000)),
        (21.0, 1.0, (21_000_000, 0, 105_000_000)),
        (math.inf, 1.0, (20_000_000, 0, 100_000_000)),
    ],
)
def test_delays_that_follow_a_brokers_scrapes_vary_by_one_factor(high, chance, values):
    series = ((0, 20.0), (60_000, 0.0), (120_000, 100.0))
    usual = Parameter(20.0, 18.0, high, Origin.INFERRED)
    model = replace(assume_service(1), delay_ms=usual, delay_series=series, is_followed=True)
    assert make_broker(model, 0, chance=chance).delay_ns.values == values


def test_a_broker_without_a_delay_gets_none():
    """Its latency leaves room for half a millisecond, which is no delay; slow minutes among the others are varied."""
    model = replace(assume_service(1), delay_ms=Parameter(0.0, 0.0, 0.5, Origin.MEASURED))
    mixed = replace(model, delay_series=((0, 0.0), (60_000, 20.0)))
    found = [make_broker(each, 0, chance=1.0) for each in (model, mixed)]
    assert [broker.delay_ns.values for broker in found] == [(0,), (0, 20_600_000)]
    assert found[0].oversleep_ns == Distribution()


def test_a_delay_that_no_request_ever_had_is_cut():
    """A metrics server may answer any latency; as nanoseconds it would pass 64 bits."""
    model = replace(assume_service(1), delay_series=((0, 1e18), (60_000, 20.0)))
    assert make_broker(model, 0).delay_ns.values == (3_600_000_000_000, 20_000_000)
