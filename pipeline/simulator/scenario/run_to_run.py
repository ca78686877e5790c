"""Differences between two runs of one scenario besides their draws: the state of the machines.

Two real runs of one setting differ by more than chance: some minutes later the same machine takes half as long again
for a request or to wake a thread (`measured.py`). So each run draws one factor for each broker's service and one for
each client's threads. Where a scenario gives exact times the factors are 1.
"""

from dataclasses import replace

from pipeline.simulator.clients.client import ThreadCosts
from pipeline.simulator.engine.random_stream import derive_stream, draw_quantile
from pipeline.simulator.scenario.distribution import ALIKE, PPM, Distribution
from pipeline.simulator.scenario.scenario import Scenario, Service


def settle_run(scenario: Scenario, seed: int) -> Scenario:
    """The scenario as one run finds it, its factors drawn and applied."""
    brokers, producers = [], []
    for unit, broker in enumerate(scenario.brokers):
        ppm = _draw_ppm(broker.service.run_to_run_ppm, seed, "service", unit)
        brokers.append(replace(broker, service=settle_service(broker.service, ppm)))
    for unit, producer in enumerate(scenario.producers):
        ppm = _draw_ppm(producer.costs.run_to_run_ppm, seed, "threads", unit)
        producers.append(replace(producer, costs=settle_costs(producer.costs, ppm)))
    return replace(scenario, brokers=tuple(brokers), producers=tuple(producers))


def settle_service(service: Service, ppm: int) -> Service:
    """The service with every time scaled by `ppm` parts per million, and nothing left to draw."""
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
