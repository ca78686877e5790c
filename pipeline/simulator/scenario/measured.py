"""Measurements of real clients and brokers, the defaults of scenarios, each with its source; how two runs differ.

Bed: brokers 4.1.1 behind a proxy that takes one request at a time and holds Produce responses, clients 3.2.3 to 4.1.1,
Java 17, two cores, loopback. `quiet runs` are KIP-794's experiment on it. What a client's threads cost was noted by
`tests/lab/producers/TimedLoad.java`, 2,048 records a second, three versions timed twice: medians of the six.
`docs/evidence/simulator.md` says how figures move with each.

Some minutes later the same machine takes half as long again for a request or to wake a thread. So each run draws one
factor for each broker's service and one for each client's threads; where a scenario gives exact times they are 1.
"""

from dataclasses import replace

from pipeline.simulator.clients.client import ThreadCosts
from pipeline.simulator.distributions import ALIKE, PPM, Distribution, derive_stream, draw_quantile
from pipeline.simulator.scenario.scenario import Scenario, Service

_US = 1_000


def _quantiles_us(*points: tuple[float, int]) -> Distribution:
    return Distribution(tuple((probability, value * _US) for probability, value in points))


# The same load timed twice on one bed, four minutes between: wake-ups and turns took 1.5 to 1.8 times as long, service 1.3
# to 1.7 times.
_RUN_TO_RUN_PPM = Distribution(((0.0, PPM * 78 // 100), (1.0, PPM * 125 // 100)))
MEASURED_SERVICE = Service(
    # Proxy log of quiet runs after 5 s: requests < 4 KiB p50 0.11 ms, p90 0.18, p99 0.6 to 0.9.
    request_ns=_quantiles_us((0.0, 60), (0.5, 90), (0.9, 160), (0.99, 730), (0.999, 3_000), (1.0, 10_000)),
    # The same at 15 to 50 requests a second: 0.3 to 0.5 ms. A slow broker rests while its answer is held: 16 KiB then p50
    # 0.25, p90 0.6, p99 2.8.
    idle=(
        (15_000 * _US, _quantiles_us((0.0, 80), (0.5, 130), (0.9, 470), (0.99, 2_600), (0.999, 3_000), (1.0, 10_000))),
        (25_000 * _US, _quantiles_us((0.0, 100), (0.5, 350), (0.9, 600), (0.99, 1_500), (1.0, 10_000))),
    ),
    partition_ns=50 * _US,  # proxy log with 12 partitions: 0.03 to 0.07 ms
    # At 16 KiB and saturated: p50 0.25 ms; a saturated node's request latency / 5 in flight: 20.46 to 20.59 ms at 20 ms of
    # delay.
    kib_ns=8 * _US,
    run_to_run_ppm=_RUN_TO_RUN_PPM,
)
# The proxy's log: 20 ms take 20.13 to 20.20 p50, 21 to 22 p99.
MEASURED_OVERSLEEP = _quantiles_us((0.0, 60), (0.5, 160), (0.9, 300), (0.99, 1_500), (1.0, 5_000))
"""How much longer than asked the proxy holds a response."""
# CreateTime in the logs: 322 bursts a second, 3.107 ms apart for a sleep of 3; 9 % four milliseconds apart.
MEASURED_PERF_TEST_OVERSLEEP = _quantiles_us((0.0, 50), (0.5, 62), (0.9, 85), (0.99, 250), (1.0, 2_000))
"""How much longer than asked the perf test sleeps."""
MEASURED_COSTS = ThreadCosts(
    append_ns=600,
    wake_call_ns=_quantiles_us((0.0, 4), (0.1, 9), (0.5, 17), (0.9, 33), (0.98, 83), (0.99, 183), (1.0, 3_400)),
    # From the return of the waking `send()` to the next look at the queues; 1 % look before.
    wake_ns=_quantiles_us(
        (0.0, 0), (0.01, 4), (0.05, 15), (0.5, 43), (0.9, 96), (0.95, 172), (0.99, 1_530), (1.0, 6_560)
    ),
    # From the proxy's release of a response.
    response_wake_ns=_quantiles_us(
        (0.0, 17), (0.1, 40), (0.5, 86), (0.8, 180), (0.95, 563), (0.98, 946), (0.99, 2_240), (1.0, 7_800)
    ),
    loop_ns=53 * _US,  # from look to look of a sender that need not sleep
    transit_ns=84 * _US,  # from the look to the request's arrival at the proxy
    # Logs of seven transactional producers: of those who go on within 2 ms 80 to 99 % are refused once.
    markers_ns=2_000 * _US,
    timer_ns=60 * _US,  # `epoll_wait`'s slack of 50 us and a wake-up
    metadata_ns=165_000 * _US,  # what is caught up unthrottled at the start / rate: 127 to 190 ms in 4 quiet runs
    connect_ns=10_000 * _US,  # not measured alone; 30 ms change no figure
    run_to_run_ppm=_RUN_TO_RUN_PPM,
)


def settle_run(scenario: Scenario, seed: int) -> Scenario:
    brokers, producers = [], []
    for unit, broker in enumerate(scenario.brokers):
        ppm = _draw_ppm(broker.service.run_to_run_ppm, seed, "service", unit)
        brokers.append(replace(broker, service=settle_service(broker.service, ppm)))
    for unit, producer in enumerate(scenario.producers):
        ppm = _draw_ppm(producer.costs.run_to_run_ppm, seed, "threads", unit)
        producers.append(replace(producer, costs=settle_costs(producer.costs, ppm)))
    return replace(scenario, brokers=tuple(brokers), producers=tuple(producers))


def settle_service(service: Service, ppm: int) -> Service:
    return service if ppm == PPM else replace(service.mapped(lambda ns: ns * ppm // PPM), run_to_run_ppm=ALIKE)


def settle_costs(costs: ThreadCosts, ppm: int) -> ThreadCosts:
    """Threads whose wake-ups and `runOnce` are scaled by `ppm`; appends and waits for the cluster stay."""
    if ppm == PPM:
        return costs

    def scale(ns: int) -> int:
        return ns * ppm // PPM

    wake_ups = ("wake_call_ns", "wake_ns", "response_wake_ns")
    return replace(
        costs,
        **{name: getattr(costs, name).mapped(scale) for name in wake_ups},
        loop_ns=max(scale(costs.loop_ns), 1),
        request_ns=scale(costs.request_ns),
        transit_ns=scale(costs.transit_ns),
        run_to_run_ppm=ALIKE,
    )


def _draw_ppm(factor: Distribution, seed: int, what: str, unit: int) -> int:
    if factor.is_constant:
        return factor.points[0][1]
    return draw_quantile(derive_stream(seed, f"{what} of the run", unit), 0, factor.to_table())
