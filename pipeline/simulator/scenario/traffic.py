"""What an application sends: when, how large, and where to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pipeline.simulator.scenario.distribution import Distribution

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

KEYLESS = -1
"""In place of a partition: the client's partitioner picks it."""
NO_KEY = -1
"""In place of a key's length: the record has none."""


@dataclass(frozen=True)
class PerfTest:
    """`kafka-producer-perf-test --throughput`: as fast as it goes until ahead of the rate, then a sleep.

    After a record's `send()` returned, its clock in whole milliseconds is the one taken before: if records so far /
    elapsed > rate, the deficit grows by 1 / rate; at 2 ms or more the tool sleeps it off. `Object.wait` rounds a sleep up
    to whole milliseconds. So there are bursts, and after a stall the tool goes unthrottled until it has caught up.

    Attributes:
        rate_per_s: `--throughput`, or 0 for no throttle.
        oversleep_ns: How much longer than asked a sleep takes.
    """

    rate_per_s: int
    oversleep_ns: Distribution = field(default_factory=Distribution)


@dataclass(frozen=True)
class Gaps:
    """Records apart by a gap from a distribution: constant, or exponential for a Poisson process.

    Attributes:
        gap_ns: Between two records' due times. A blocked sender catches up after.
    """

    gap_ns: Distribution


@dataclass(frozen=True)
class OnOff:
    """Records come while on, and not while off; both last as long as their distributions say.

    Attributes:
        gap_ns: Between two records while on.
        on_ns: How long it is on; it begins so.
        off_ns: How long it is off.
    """

    gap_ns: Distribution
    on_ns: Distribution
    off_ns: Distribution


@dataclass(frozen=True, eq=False)
class Recorded:
    """A recorded series: all arrays alike in length, a row per record; of any whole numbers, stretched ones too.

    Attributes:
        due_ns: When the application sent it, not falling.
        body_bytes: See `record_size.measure_body_bytes`.
        partition: Within the topic, or `KEYLESS`.
        target: Index into `Traffic.targets`, for the topic only; what else the target says is not looked at.
    """

    due_ns: NDArray[np.integer[Any]]
    body_bytes: NDArray[np.integer[Any]]
    partition: NDArray[np.integer[Any]]
    target: NDArray[np.integer[Any]]


Arrivals = PerfTest | Gaps | OnOff | Recorded


@dataclass(frozen=True)
class Target:
    """Where a part of the records goes.

    Attributes:
        topic: Index of the topic in the scenario.
        weight: Of this target among the traffic's, as a whole number.
        partition: That the key's hash or the record itself names, or `KEYLESS`.
        key_bytes: Length of the key, or `NO_KEY`.
        is_explicit: The record names the partition. Where `partitioner.ignore.keys` or a partitioner that looks at no
            key is set, other records with a partition go where the partitioner says.
    """

    topic: int = 0
    weight: int = 1
    partition: int = KEYLESS
    key_bytes: int = NO_KEY
    is_explicit: bool = False


@dataclass(frozen=True)
class Traffic:
    """What one sending thread of an application does.

    Attributes:
        arrivals: When it sends.
        value_bytes: The values' lengths. Not looked at if recorded.
        targets: Where to, drawn by weight for every record if there are several.
        record_count: It stops after as many; 0 is no limit. Recorded arrivals stop at their end.
        start_ns: When it begins.
        end_ns: It stops before the first record due then; 0 is no limit.
    """

    arrivals: Arrivals
    value_bytes: Distribution = field(default_factory=Distribution)
    targets: tuple[Target, ...] = (Target(),)
    record_count: int = 0
    start_ns: int = 0
    end_ns: int = 0
