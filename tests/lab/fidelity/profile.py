"""The bed's own speed, as the simulator takes it: measured by `timings.py` on the bed a recording was made on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pipeline.simulator import measured
from pipeline.simulator.client import ThreadCosts
from pipeline.simulator.distribution import Distribution
from pipeline.simulator.scenario import Service

if TYPE_CHECKING:
    from collections.abc import Mapping

APPEND_NS = 5_000  # of a burst's first send(), what comes before the call that wakes the sender


@dataclass(frozen=True)
class Profile:
    """What brokers, the proxy and clients' threads take."""

    name: str
    services: Mapping[str, Service]  # by client version: brokers wake as often as that client's requests come
    hold_beyond_ns: Distribution
    sleep_beyond_ns: Distribution
    costs: Mapping[str, ThreadCosts]

    def service_of(self, version: str) -> Service:
        """As that client meets it, or any measured one."""
        return self.services.get(version) or next(iter(self.services.values()))

    def costs_of(self, version: str) -> ThreadCosts:
        """Of that client, or of any measured one."""
        return self.costs.get(version) or next(iter(self.costs.values()))


LAB = Profile(
    "lab",
    {"": measured.MEASURED_SERVICE},
    measured.MEASURED_OVERSLEEP,
    measured.MEASURED_PERF_TEST_OVERSLEEP,
    {"": measured.MEASURED_COSTS},
)
"""The bed of the runs quoted in `published.py`."""


def make_profile(name: str, timings: Mapping[str, Mapping[str, Any]]) -> Profile:
    """The profile that `timings.summarise` measured.

    Args:
        name: Of the bed.
        timings: By client version.
    """
    first = next(iter(timings.values()))
    return Profile(
        name,
        {version: _make_service(each) for version, each in timings.items()},
        _distribution(first, first["responses"]["hold_beyond_whole_ms"]),
        _distribution(first, first["tool"]["sleep_beyond_3_ms"]),
        {version: _make_costs(each) for version, each in timings.items()},
    )


def _make_service(timings: Mapping[str, Any]) -> Service:
    busy, *idle = timings["model"]["service"]
    return Service(
        request_ns=_distribution(timings, busy),
        partition_ns=measured.MEASURED_SERVICE.partition_ns,
        kib_ns=timings["model"]["kib_ns"],
        idle=tuple((row["idle_from_ns"], _distribution(timings, row)) for row in idle),
    )


def _make_costs(timings: Mapping[str, Any]) -> ThreadCosts:
    tool, model = timings["tool"], timings["model"]
    median = timings["quantiles"].index(0.5)
    append_ns = tool["later_steps"]["ns"][median]
    return ThreadCosts(
        append_ns=append_ns,
        wake_call_ns=_distribution(timings, tool["first_send"], less=append_ns),
        wake_ns=_distribution(timings, model["first_send_to_ready"], less=APPEND_NS),
        response_wake_ns=_distribution(timings, model["released_to_ready"]),
        loop_ns=model["turn_to_turn_awake"]["ns"][median],
        transit_ns=model["ready_to_arrived_idle"]["ns"][median],
        timer_ns=measured.MEASURED_COSTS.timer_ns,
        metadata_ns=measured.MEASURED_COSTS.metadata_ns,
        connect_ns=measured.MEASURED_COSTS.connect_ns,
    )


def _distribution(timings: Mapping[str, Any], sample: Mapping[str, Any], less: int = 0) -> Distribution:
    values = [max(value - less, 0) for value in sample["ns"]]
    return Distribution(tuple(zip(timings["quantiles"], values, strict=True)))
