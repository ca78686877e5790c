"""Traffic of an application: when, how large, and where to."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.simulator.scenario.distribution import Distribution

KEYLESS = -1  # in place of a partition: the client's partitioner picks it
NO_KEY = -1  # in place of a key's length: the record has none
COMMIT = -1  # in place of a target: no record, the application commits its transaction and waits until it is done


@dataclass(frozen=True)
class PerfTest:
    """`kafka-producer-perf-test --throughput`: as fast as it goes until ahead of the rate, then a sleep.

    After a record's `send()` returned, its clock in whole milliseconds is the one taken before: if records so far /
    elapsed > rate, the deficit grows by 1 / rate; at 2 ms or more the tool sleeps it off. `Object.wait` rounds a sleep
    up to whole milliseconds. So there are bursts, and after a stall the tool goes unthrottled until it has caught up.
    """

    rate_per_s: int  # `--throughput`, or 0 for no throttle
    oversleep_ns: Distribution = field(default_factory=Distribution)  # how much longer than asked a sleep takes


@dataclass(frozen=True)
class Gaps:
    """Records apart by a gap from a distribution: constant, or exponential for a Poisson process."""

    gap_ns: Distribution  # between two records' due times. A blocked sender catches up after.


@dataclass(frozen=True)
class OnOff:
    """Records come while on, and not while off; both last as long as their distributions say."""

    gap_ns: Distribution  # between two records while on
    on_ns: Distribution  # how long it is on; it begins so
    off_ns: Distribution  # how long it is off


@dataclass(frozen=True, eq=False)
class Recorded:
    """A recorded series: all arrays alike in length, a row per record; of any whole numbers, stretched ones too."""

    due_ns: NDArray[np.integer[Any]]  # when the application sent it, not falling
    body_bytes: NDArray[np.integer[Any]]  # see `record_size.measure_body_bytes`
    partition: NDArray[np.integer[Any]]  # within the topic, or `KEYLESS`
    target: NDArray[np.integer[Any]]  # index into `Traffic.targets`, for the topic only; or `COMMIT`

    def with_commits(self, at_ns: NDArray[np.integer[Any]]) -> "Recorded":
        """The application commits at these times, rising, each time right after the last record before."""
        places = np.unique(np.searchsorted(self.due_ns, at_ns))
        places = places[places > 0]
        return Recorded(
            np.insert(self.due_ns, places, self.due_ns[places - 1]),
            np.insert(self.body_bytes, places, 0),
            np.insert(self.partition, places, KEYLESS),
            np.insert(self.target, places, COMMIT),
        )


Arrivals = PerfTest | Gaps | OnOff | Recorded


@dataclass(frozen=True)
class Target:
    topic: int = 0  # index of the topic in the scenario
    weight: int = 1  # of this target among the traffic's, as a whole number
    partition: int = KEYLESS  # that the key's hash or the record itself names, or `KEYLESS`
    key_bytes: int = NO_KEY  # length of the key, or `NO_KEY`
    # the record names the partition. Where `partitioner.ignore.keys` or a partitioner that looks at no key is set,
    # other records with a partition go where the partitioner says.
    is_explicit: bool = False


@dataclass(frozen=True)
class Traffic:
    arrivals: Arrivals  # when it sends
    value_bytes: Distribution = field(default_factory=Distribution)  # the values' lengths. Not looked at if recorded.
    targets: tuple[Target, ...] = (Target(),)  # where to, drawn by weight for every record if there are several
    record_count: int = 0  # it stops after as many; 0 is no limit. Recorded arrivals stop at their end.
    start_ns: int = 0  # when it begins
    end_ns: int = 0  # it stops before the first record due then; 0 is no limit
