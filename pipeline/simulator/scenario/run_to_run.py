"""What differs between two runs of the same scenario besides their draws: the state of the machines.

Two real runs of one setting differ by more than chance: some minutes later the same machine takes half as long again for a
request or to wake a thread (`measured.py`). So each run draws one factor for each broker's service and one for each client's
threads. Both forms of the simulator begin with `settle_run`. Where a scenario gives exact times the factors are 1.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pipeline.simulator.engine.random_stream import derive_stream, draw_quantile
from pipeline.simulator.scenario.distribution import ALIKE, PPM, Distribution

if TYPE_CHECKING:
    from pipeline.simulator.clients.client import ThreadCosts
    from pipeline.simulator.scenario.scenario import Scenario, Service


def settle_run(scenario: Scenario, seed: int) -> Scenario:
    """The scenario as one run finds it, its factors drawn and applied.

    Args:
        scenario: What is simulated.
        seed: The run's.
    """
    brokers = tuple(
        replace(
            broker,
            service=settle_service(broker.service, _draw_ppm(broker.service.run_to_run_ppm, seed, "service", unit)),
        )
        for unit, broker in enumerate(scenario.brokers)
    )
    producers = tuple(
        replace(
            producer,
            costs=settle_costs(producer.costs, _draw_ppm(producer.costs.run_to_run_ppm, seed, "threads", unit)),
        )
        for unit, producer in enumerate(scenario.producers)
    )
    return replace(scenario, brokers=brokers, producers=producers)


def settle_service(service: Service, ppm: int) -> Service:
    """A service whose every part takes so many parts per million, with nothing left to draw."""
    if ppm == PPM:
        return service
    return replace(
        service,
        request_ns=service.request_ns.scaled(ppm),
        idle=tuple((idle_ns, request_ns.scaled(ppm)) for idle_ns, request_ns in service.idle),
        partition_ns=service.partition_ns * ppm // PPM,
        kib_ns=service.kib_ns * ppm // PPM,
        run_to_run_ppm=ALIKE,
    )


def settle_costs(costs: ThreadCosts, ppm: int) -> ThreadCosts:
    """Threads that take so many parts per million to wake and to make a turn; appends and waits for the cluster stay."""
    if ppm == PPM:
        return costs
    return replace(
        costs,
        wake_call_ns=costs.wake_call_ns.scaled(ppm),
        wake_ns=costs.wake_ns.scaled(ppm),
        response_wake_ns=costs.response_wake_ns.scaled(ppm),
        loop_ns=max(costs.loop_ns * ppm // PPM, 1),
        request_ns=costs.request_ns * ppm // PPM,
        transit_ns=costs.transit_ns * ppm // PPM,
        run_to_run_ppm=ALIKE,
    )


def _draw_ppm(factor: Distribution, seed: int, what: str, unit: int) -> int:
    if factor.is_constant:
        return factor.points[0][1]
    return draw_quantile(derive_stream(seed, f"{what} of the run", unit), 0, factor.to_table())
