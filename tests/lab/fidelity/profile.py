"""The bed's own speed, as the simulator takes it: measured by `timings.py` on the bed a recording was made on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pipeline.simulator.clients.client import ThreadCosts
from pipeline.simulator.distributions import ALIKE, PPM, Distribution
from pipeline.simulator.scenario import measured
from pipeline.simulator.scenario.scenario import Service
from tests.lab.fidelity.services import QUANTILES
from tests.lab.fidelity.settings import PerfLoad, SeriesLoad

if TYPE_CHECKING:
    from collections.abc import Mapping

BURSTS = "bursts"
AGAIN = ", again"
WAKING = ("returned_to_ready", "released_to_ready", "turn_to_turn_awake", "ready_to_arrived_idle")


@dataclass(frozen=True)
class Profile:
    """What brokers, the proxy and clients' threads take.

    Attributes:
        name: Of the bed.
        service: Of brokers.
        hold_beyond_ns: How much longer than asked the proxy holds a response.
        sleep_beyond_ns: How much longer than asked the perf test sleeps.
        costs: Of threads, by `name_timing`.
    """

    name: str
    service: Service
    hold_beyond_ns: Distribution
    sleep_beyond_ns: Distribution
    costs: Mapping[str, ThreadCosts]

    def costs_of(self, load: PerfLoad | SeriesLoad) -> ThreadCosts:
        """Measured with such a load, or with the nearest there is: its version first, then any in bursts."""
        names = (name_timing(load), load.version, BURSTS if is_in_bursts(load) else "")
        return next((self.costs[name] for name in names if name in self.costs), next(iter(self.costs.values())))


DEFAULT = Profile(
    "default",
    measured.MEASURED_SERVICE,
    measured.MEASURED_OVERSLEEP,
    measured.MEASURED_PERF_TEST_OVERSLEEP,
    {"": measured.MEASURED_COSTS},
)
"""What scenarios have that name no times."""
LAB_COSTS = ThreadCosts(
    append_ns=1_000,
    wake_call_ns=Distribution(((0.0, 8_000), (0.5, 11_000), (0.99, 16_000), (1.0, 1_000_000))),
    wake_ns=Distribution(
        ((0.0, 0), (0.08, 0), (0.085, 45_000), (0.5, 90_000), (0.9, 140_000), (0.99, 390_000), (1.0, 1_000_000))
    ),
    response_wake_ns=Distribution(((0.0, 10_000), (0.5, 40_000), (0.99, 200_000), (1.0, 1_000_000))),
    loop_ns=60_000,
    request_ns=10_000,
    transit_ns=70_000,
    timer_ns=60_000,
    metadata_ns=165_000_000,
    connect_ns=10_000_000,
    run_to_run_ppm=measured.MEASURED_COSTS.run_to_run_ppm,
)
"""Threads of the other bed's clients, measured from their start on. Steps within a burst: the first takes 11 us, later ones
1 us. Real client under a tracer, p5 and p25: from `send()` to the next look at the queues 38 + 35 and 53 + 58 us; from a
response's release p25 22 + 6, p75 44 + 50 us; turns 3 + 58 us; from the poll to the proxy 71 us. 8 to 9 % of the batches on
healthy brokers have one record: there the sender, woken, looked at once."""
LAB = replace(DEFAULT, name="lab", costs={"": LAB_COSTS})
"""The bed of the shared runs and of those quoted beside the published experiment."""


def is_in_bursts(load: PerfLoad | SeriesLoad) -> bool:
    """Whether the sender sleeps for long between many records at once."""
    return isinstance(load, SeriesLoad) and load.series.pattern == "bursts"


def name_timing(load: PerfLoad | SeriesLoad) -> str:
    """Which of a bed's timings fits a load."""
    if is_in_bursts(load):
        return BURSTS
    return f"{load.version} lz4" if load.config.get("compression.type") == "lz4" else load.version


def make_profile(name: str, timings: Mapping[str, Mapping[str, Any]]) -> Profile:
    """The profile of a bed that `timings.summarise` measured.

    Args:
        name: Of the bed.
        timings: By `name_timing`.
    """
    first = next(iter(timings.values()))
    spread = measure_spread(timings)
    slow = next(each for each in first["services"].values() if each["hold_beyond"])
    return Profile(
        name,
        make_service(next(iter(each for each in first["services"].values() if not each["hold_beyond"]))),
        distribute(slow["hold_beyond"]),
        distribute(first["tool"]["sleep_beyond_3_ms"]),
        {key: replace(_make_costs(each), run_to_run_ppm=spread) for key, each in timings.items()},
    )


def measure_spread(timings: Mapping[str, Mapping[str, Any]]) -> Distribution:
    """By which factor, in parts per million, threads' costs differ between timings of the same load.

    A timing's factor is the mean of its medians' ratios to those of the load's first timing, whose own is 1.
    """
    median = QUANTILES.index(0.5)
    factors = [PPM]
    for name, again in timings.items():
        first = timings[name.partition(AGAIN)[0]]["sender"]
        if first is not again["sender"]:
            ratios = [again["sender"][cost]["ns"][median] / first[cost]["ns"][median] for cost in WAKING]
            factors.append(round(PPM * sum(ratios) / len(ratios)))
    if len(factors) == 1:
        return ALIKE
    factors.sort()
    return Distribution(tuple((place / (len(factors) - 1), factor) for place, factor in enumerate(factors)))


def make_service(measured_service: Mapping[str, Any]) -> Service:
    """A broker's service as `services.summarise_services` measured it."""
    busy, *idle = measured_service["classes"]
    return Service(
        request_ns=distribute(busy),
        partition_ns=measured.MEASURED_SERVICE.partition_ns,
        kib_ns=measured_service["kib_ns"],
        idle=tuple((row["idle_from_ns"], distribute(row)) for row in idle),
    )


def distribute(sample: Mapping[str, Any], less: int = 0) -> Distribution:
    """The distribution of a sample's quantiles."""
    values = [max(value - less, 0) for value in sample["ns"]]
    return Distribution(tuple(zip(QUANTILES, values, strict=True)))


def _make_costs(timings: Mapping[str, Any]) -> ThreadCosts:
    tool, sender = timings["tool"], timings["sender"]
    median = QUANTILES.index(0.5)
    append_ns = tool["later_steps"]["ns"][median]
    return ThreadCosts(
        append_ns=append_ns,
        wake_call_ns=distribute(tool["first_send"], less=append_ns),
        wake_ns=distribute(sender["returned_to_ready"]),
        response_wake_ns=distribute(sender["released_to_ready"]),
        loop_ns=sender["turn_to_turn_awake"]["ns"][median],
        transit_ns=sender["ready_to_arrived_idle"]["ns"][median],
        timer_ns=measured.MEASURED_COSTS.timer_ns,
        metadata_ns=measured.MEASURED_COSTS.metadata_ns,
        connect_ns=measured.MEASURED_COSTS.connect_ns,
    )
