"""Delays and variants found by simulation, on sessions whose delay and variant are known."""

from dataclasses import replace

import numpy as np
import pytest

from pipeline.calibration.caveats import Caveat, Origin
from pipeline.calibration.partitioner.baseline import Baseline, identify_baseline
from pipeline.calibration.service.batch_fit import choose_variant
from pipeline.calibration.service.fit import NodeMetrics, fit_services
from pipeline.calibration.service.latency_fit import needs_trial, sharpen_services
from pipeline.calibration.service.model import assume_service
from pipeline.calibration.service.trial import SessionTopic, cut_topic, observe, simulate_trial
from pipeline.simulator.distributions import Steps
from pipeline.simulator.engine.result import ConnectionCounter
from pipeline.simulator.scenario.scenario import KEYLESS, Recorded
from tests.simulated_sessions import EPOCH_MS, delayed, make_scenario, record_session

SECONDS = 20
END_MS = EPOCH_MS + 1000 * SECONDS
BROKERS = (0, 1, 2)
NS_PER_MS = 1_000_000


def make_session(strategy: str, version: str, config: dict[str, str], *, pattern: str = "perf-test", **others: int):
    """A session with 20 ms on broker 1, and what its client's metrics would say."""
    scenario = make_scenario(
        strategy, version=version, config=config, pattern=pattern, delays_ms={1: 20.0}, seconds=SECONDS, **others
    )
    topic, result = record_topic(scenario, 2)
    nodes = []
    for broker_id in BROKERS:
        requests = float(result.connections[broker_id, ConnectionCounter.REQUESTS])
        latency_ms = result.request_latencies.of(broker_id).sum_ns / NS_PER_MS / requests
        told = {"request_rate_per_s": requests / SECONDS, "request_latency_avg_ms": latency_ms}
        nodes.append(NodeMetrics(broker_id=broker_id, start_ms=EPOCH_MS, end_ms=END_MS, **told))
    return topic, nodes


def record_topic(scenario, seed):
    traffic, batches, result = record_session(scenario, seed)
    return SessionTopic(traffic, batches, BROKERS, identify_baseline(traffic, batches, 3)), result


def sharpen_by_batches(topic, brokers=BROKERS):
    """Delays where nobody has metrics."""
    return sharpen_services([topic], {each: assume_service(each) for each in brokers}, [], EPOCH_MS, END_MS)


@pytest.mark.parametrize(
    ("strategy", "version", "config", "pattern"),
    [
        ("java-sticky-2.4", "3.2.3", {}, "perf-test"),
        ("java-builtin", "3.9.1", {}, "perf-test"),
        ("java-builtin", "4.1.1", {}, "steady"),
        ("java-sticky-2.4", "3.2.3", {"linger.ms": "20", "batch.size": "32768"}, "steady"),
    ],
)
def test_the_delay_is_found_within_a_millisecond(strategy, version, config, pattern):
    topic, nodes = make_session(strategy, version, config, pattern=pattern)
    models = sharpen_services([topic], fit_services(nodes, BROKERS, EPOCH_MS, END_MS), nodes, EPOCH_MS, END_MS)
    assert models[1].delay_ms.value == pytest.approx(20, abs=1)
    assert models[1].delay_ms.low <= 20.3
    assert models[1].delay_ms.high >= 19.7
    assert [models[each].delay_ms.value for each in (0, 2)] == [0, 0]
    assert all(model.is_identifiable for model in models.values())


def test_bursts_over_an_idle_connection_are_no_delay():
    """Half a request under way on average, and yet requests of a burst wait for one another: the mean latency misleads."""
    topic, nodes = make_session("java-sticky-2.4", "3.2.3", {"batch.size": "4096"})
    own = next(node for node in nodes if node.broker_id == 0)
    waited = [replace(own, request_latency_avg_ms=2.5, request_rate_per_s=40.0), *nodes[1:]]
    told = fit_services(waited, BROKERS, EPOCH_MS, END_MS)
    assert told[0].delay_ms.value > 1.5
    assert needs_trial(told[0])
    models = sharpen_services([topic], told, waited, EPOCH_MS, END_MS)
    assert models[0].delay_ms.value < told[0].delay_ms.value
    assert models[0].assumptions[-1].kind is Caveat.SIMULATED_LATENCY


def test_a_broker_that_is_slow_for_some_minutes_is_looked_at_in_those():
    """From the third minute on; the average of that minute trails, so a later one is simulated."""
    _, nodes = make_session("java-builtin", "3.9.1", {}, value_bytes=200)
    scenario = make_scenario("java-builtin", version="3.9.1", delays_ms={1: 20.0}, seconds=300, value_bytes=200)
    delay_ns = Steps((0, 120 * 10**9), (0, 20 * NS_PER_MS))
    brokers = tuple(replace(each, delay_ns=delay_ns) if each.broker_id == 1 else each for each in scenario.brokers)
    topic, _ = record_topic(replace(scenario, brokers=brokers), 3)
    slow, quick = nodes[1], nodes[0]
    mixed_ms = (slow.request_latency_avg_ms + quick.request_latency_avg_ms) / 2
    latencies = [quick.request_latency_avg_ms] * 2 + [mixed_ms] + [slow.request_latency_avg_ms] * 2
    minutes = []
    for number, latency in enumerate(latencies):
        of = {"start_ms": EPOCH_MS + 60_000 * number, "end_ms": EPOCH_MS + 60_000 * (number + 1), "broker_id": 1}
        minutes.append(replace(slow if number >= 2 else quick, request_latency_avg_ms=latency, **of))
    end_ms = EPOCH_MS + 300_000
    told = fit_services(minutes, BROKERS, EPOCH_MS, end_ms)
    assert abs(told[1].delay_series[-1][1] - 20) > 2
    found = sharpen_services([topic], told, minutes, EPOCH_MS, end_ms)[1]
    delays = [delay for _, delay in found.delay_series]
    assert delays[0] == 0
    assert delays[-1] == pytest.approx(20, abs=1)
    assert found.assumptions[-1].kind is Caveat.PARTLY_SLOW


def test_without_metrics_the_batches_tell_where_they_can():
    topic, _ = make_session("java-builtin", "3.9.1", {}, pattern="steady")
    models = sharpen_by_batches(topic)
    assert models[1].is_identifiable
    assert models[1].delay_ms.low <= 20 <= models[1].delay_ms.high
    assert not models[0].is_identifiable


def test_a_flat_misfit_is_refused():
    """A sticky producer in overload fills every batch of the slow broker, however slow that is."""
    topic, _ = make_session("java-sticky-2.4", "3.2.3", {})
    models = sharpen_by_batches(topic)
    if models[1].is_identifiable:
        assert models[1].delay_ms.low <= 20 <= models[1].delay_ms.high
    quiet, _ = make_session("java-sticky-2.4", "3.2.3", {"linger.ms": "50", "batch.size": "131072"})
    models = sharpen_by_batches(quiet)
    assert not models[1].is_identifiable
    assert models[1].delay_ms.source == Origin.ASSUMED
    assert len(models[1].assumptions) == 2


def test_what_needs_no_trial_stays():
    topic, nodes = make_session("java-sticky-2.4", "3.2.3", {})
    models = fit_services(nodes, (0, 2), EPOCH_MS, END_MS)
    assert not any(needs_trial(model) for model in models.values())
    assert sharpen_services([topic], models, nodes, EPOCH_MS, END_MS) == models


@pytest.mark.parametrize(
    ("source", "value_ms", "settled", "followed", "needs"),
    [
        (Origin.ASSUMED, 0.0, True, False, True),  # nothing shows the delay
        (Origin.MEASURED, 20.0, False, False, True),  # the metrics are mostly of the minute before
        (Origin.MEASURED, 20.0, True, True, True),  # load follows the broker
        (Origin.MEASURED, 20.0, True, False, True),  # in bursts requests wait for one another
        (Origin.INFERRED, 20.0, True, False, True),
        (Origin.INFERRED, 0.0, True, False, False),
    ],
)
def test_what_needs_a_trial(source, value_ms, settled, followed, needs):
    model = assume_service(0)
    delay = replace(model.delay_ms, value=value_ms, source=source)
    assert needs_trial(replace(model, delay_ms=delay, is_settled=settled, is_followed=followed)) == needs


@pytest.mark.parametrize(("strategy", "seed"), [("java-builtin", 6), ("java-builtin", 7), ("java-builtin-uniform", 8)])
def test_adaptive_and_uniform_are_told_apart_beside_a_slow_broker(strategy, seed):
    """Of a minute; shorter sessions have too few draws."""
    scenario = make_scenario(strategy, version="3.9.1", delays_ms={1: 20.0}, seconds=60)
    topic, _ = record_topic(scenario, seed)
    models = {each: replace(delayed(each, 20.0 * (each == 1)), is_identifiable=True) for each in BROKERS}
    found = choose_variant([topic], models, EPOCH_MS, EPOCH_MS + 60_000)
    assert found.strategy == strategy
    assert 0.7 < found.confidence <= 0.95


def test_without_a_slow_broker_the_variant_stays_open():
    scenario = make_scenario("java-builtin-uniform", version="3.9.1", seconds=SECONDS)
    topic, _ = record_topic(scenario, 1)
    models = {each: assume_service(each) for each in BROKERS}
    assert choose_variant([topic], models, EPOCH_MS, END_MS) is topic.baseline


def test_a_keyless_partition_is_never_looked_at():
    topic, _ = make_session("java-builtin", "3.9.1", {})
    models = [delayed(each, 20.0 if each == 1 else 0.0) for each in BROKERS]
    first = simulate_trial([topic], models, 7)
    topic.traffic.partition[:] = np.random.default_rng(1).permutation(topic.traffic.partition)
    again = simulate_trial([topic], models, 7)
    np.testing.assert_array_equal(first.record_count, again.record_count)
    np.testing.assert_array_equal(first.batch_count, again.batch_count)


def make_bursts(record_count: int, step_ns: int) -> np.ndarray:
    """Bursts at 1,500 records a second that begin anywhere in a millisecond."""
    begin = np.arange(0, SECONDS * 10**9, 10**9 * record_count // 1_500)
    begin += np.random.default_rng(5).integers(0, NS_PER_MS, len(begin))
    return np.sort((begin[:, None] + np.arange(record_count) * step_ns).ravel())


def mix(bursts: np.ndarray) -> np.ndarray:
    """Every other burst, and as many records by chance."""
    half = bursts[bursts // 10**8 % 2 == 0]
    return np.sort(np.append(half, np.random.default_rng(6).integers(0, SECONDS * 10**9, len(bursts) - len(half))))


DUE_NS = {
    "small bursts": make_bursts(5, 3_000),
    "as fast as the client goes": make_bursts(50, 1_000),
    "a quarter of a millisecond": make_bursts(50, 5_000),
    "a millisecond": make_bursts(50, 20_000),
    "a millisecond, faster": make_bursts(200, 5_000),
    "four milliseconds": make_bursts(200, 20_000),
    "small bursts among others": mix(make_bursts(10, 5_000)),
    "bursts among others": mix(make_bursts(50, 5_000)),
}


@pytest.mark.parametrize("due_ns", DUE_NS.values(), ids=DUE_NS)
def test_batches_are_as_large_as_they_were_though_milliseconds_are_all_that_is_stored(due_ns):
    """With `linger.ms=0` a batch is what comes while the sender wakes: the pace within a millisecond decides."""
    scenario = make_scenario("java-sticky-2.4", version="3.2.3", seconds=SECONDS)
    columns = (np.full(len(due_ns), value) for value in (520, KEYLESS, 0))
    sent = replace(scenario.producers[0].traffic[0], arrivals=Recorded(due_ns, *columns), end_ns=0)
    producer = replace(scenario.producers[0], traffic=(sent,))
    traffic, batches, _ = record_session(replace(scenario, producers=(producer,)), 1)
    in_use = Baseline("java-sticky-2.4", "kafka-clients", "3.2.3", "", {}, 1.0, "", Origin.CONFIGURED, "")
    topic = SessionTopic(traffic, batches, BROKERS, in_use)
    found = simulate_trial([topic], [delayed(each) for each in BROKERS], 1)
    assert found.record_count.sum() / found.batch_count.sum() == pytest.approx(len(traffic) / len(batches), rel=0.15)


def test_a_cut_holds_what_was_sent_then():
    topic, _ = make_session("java-builtin", "3.9.1", {})
    halves = [cut_topic(topic, EPOCH_MS, EPOCH_MS + 10_000), cut_topic(topic, EPOCH_MS + 10_000, END_MS)]
    assert sum(len(half.traffic) for half in halves) == len(topic.traffic)
    assert sum(len(half.batches) for half in halves) == len(topic.batches)
    assert observe(halves, BROKERS).record_count.sum() == len(topic.traffic)


def test_brokers_that_a_session_sends_nothing_to_are_no_reason_to_fail():
    """More brokers than the topic has leaders, or one that was away: there is no batch to compare."""
    topic, _ = make_session("java-sticky-2.4", "3.2.3", {})
    models = sharpen_by_batches(topic, (*BROKERS, 7))
    assert models[1].delay_ms.low <= 20 <= models[1].delay_ms.high
    assert models[7] == assume_service(7)
