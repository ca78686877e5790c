"""A scenario: brokers, topics, producers and their traffic, in whole nanoseconds from the run's start.

`tests/oracles/simulator` says in which order its events happen, and what is drawn from which stream.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import ConfigError
from pipeline.simulator.clients.client import ClientFamily, Settings, ThreadCosts
from pipeline.simulator.distributions import ALIKE, ZERO, Distribution, Steps

KEYLESS = -1  # in place of a partition: the client's partitioner picks it
NO_KEY = -1  # in place of a key's length: the record has none
COMMIT = -1  # in place of a target: no record, the application commits its transaction and waits until it is done


@dataclass(frozen=True)
class PerfTest:
    """`kafka-producer-perf-test --throughput`: as fast as it goes until ahead of the rate, then a sleep."""

    rate_per_s: int  # `--throughput`, or 0 for no throttle
    oversleep_ns: Distribution = field(default_factory=Distribution)  # how much longer than asked a sleep takes


@dataclass(frozen=True)
class Gaps:
    gap_ns: Distribution  # between two records' due times. A blocked sender catches up after.


@dataclass(frozen=True)
class OnOff:
    gap_ns: Distribution  # between two records while on
    on_ns: Distribution  # how long it is on; it begins so
    off_ns: Distribution  # how long it is off


@dataclass(frozen=True, eq=False)
class Recorded:
    """A recorded series: all arrays alike in length, a row per record; of any whole numbers, stretched ones too."""

    due_ns: NDArray[np.integer[Any]]  # when the application sent it, not falling
    body_bytes: NDArray[np.integer[Any]]  # see `batches.measure_body_bytes`
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


@dataclass(frozen=True)
class Service:
    """How long a broker takes for a request and back, without any delay: the sum of its parts, times the warm-up."""

    request_ns: Distribution = ZERO  # for each request
    # pairs, rising, of a time and what a request takes after the connection was idle for that time or longer: threads
    # that slept long wake slowly. While a response is held back the broker is idle, so one behind a delay is never
    # warm.
    idle: tuple[tuple[int, Distribution], ...] = ()
    partition_ns: int = 0  # for each partition in the request beyond the first
    kib_ns: int = 0  # for each 1,024 bytes of batches, in proportion, rounded down
    warm_up_percent: int = 100  # factor at time 0, falling in a straight line to 100 at `warm_up_ns`
    warm_up_ns: int = 0  # see there
    run_to_run_ppm: Distribution = ALIKE  # factor between two runs, parts per million; see `measured.py`

    def mapped(self, change: Callable[[int], int]) -> "Service":
        return replace(
            self,
            request_ns=self.request_ns.mapped(change),
            idle=tuple((after_ns, request_ns.mapped(change)) for after_ns, request_ns in self.idle),
            partition_ns=change(self.partition_ns),
            kib_ns=change(self.kib_ns),
        )

    def with_capacity(self, capacity: float) -> "Service":
        return self if capacity == 1 else self.mapped(lambda ns: round(ns / capacity))


@dataclass(frozen=True)
class ErrorWindow:
    start_ns: int  # first instant at which the service of an affected request begins
    end_ns: int  # the first instant after the window
    chance_ppm: int = 1_000_000  # affected requests per million


@dataclass(frozen=True)
class SimulatedBroker:
    """A broker as its clients see it. It takes one request at a time from each connection."""

    broker_id: int
    service: Service = field(default_factory=Service)  # how long a request takes
    rack: str = ""  # `broker.rack`; "" without one
    # requests in service at a time over all connections, first come first served; 0 is no limit. A delay and a
    # replica's answer hold the connection, not the handler.
    handler_count: int = 0
    delay_ns: Steps = field(default_factory=Steps)  # how long the response is held back, by when the service ends
    oversleep_ns: Distribution = ZERO  # how much longer than that it is held, where there is a delay
    replica_wait_ns: Distribution = ZERO  # with acks=all: until the in-sync replicas have the batches
    quota_bytes_per_s: int = 0  # `producer_byte_rate` of each client; 0 is none
    errors: tuple[ErrorWindow, ...] = ()  # rising, not overlapping


@dataclass(frozen=True)
class Topic:
    name: str
    leaders: tuple[int, ...]  # of each partition, the leader's index among the scenario's brokers, or -1 without one
    listed: tuple[int, ...] = ()  # the partitions with a leader in the order of the metadata, or () for ascending

    @property
    def available(self) -> tuple[int, ...]:
        return self.listed or tuple(p for p, leader in enumerate(self.leaders) if leader >= 0)


@dataclass(frozen=True)
class Producer:
    name: str  # its `client.id`
    traffic: tuple[Traffic, ...]  # one for each thread that calls `send()`
    family: ClientFamily = ClientFamily.JAVA
    version: str = ""  # for people; all that follows from it is in `settings`
    settings: Settings = field(default_factory=Settings)
    costs: ThreadCosts = field(default_factory=ThreadCosts)  # of its threads
    coordinator: int = 0  # index of the broker that coordinates its transactions


@dataclass(frozen=True)
class Scenario:
    """A scenario; a run ends when all batches are done, as after `close()`. `ConfigError` for one that never ends."""

    name: str  # for people
    brokers: tuple[SimulatedBroker, ...]  # at least one
    topics: tuple[Topic, ...]  # at least one
    producers: tuple[Producer, ...]  # at least one

    def __post_init__(self) -> None:
        if not (self.brokers and self.topics and self.producers):
            raise ConfigError(f"scenario {self.name}: expected at least one broker, topic and producer")
        for topic in self.topics:
            if not topic.leaders or not all(-1 <= leader < len(self.brokers) for leader in topic.leaders):
                raise ConfigError(f"topic {topic.name}: expected leaders among {len(self.brokers)} brokers")
        for producer in self.producers:
            if producer.costs.loop_ns < 1:
                raise ConfigError(f"producer {producer.name}: loop_ns is 0; expected 1 ns or more: time would not pass")
            for traffic in producer.traffic:
                _check_targets(producer.name, traffic, self.topics)
                _check_end(producer.name, traffic)

    @property
    def partition_starts(self) -> tuple[int, ...]:
        return tuple(accumulate((len(topic.leaders) for topic in self.topics), initial=0))

    def list_choices(self, topic: Topic, producer: Producer) -> tuple[int, ...]:
        """The partitions that a producer chooses from: with a leader in its rack (KIP-1123), else all with a leader."""
        available = topic.available
        if not producer.settings.client_rack:
            return available
        rack = producer.settings.client_rack
        return tuple(p for p in available if self.brokers[topic.leaders[p]].rack == rack) or available

    @property
    def leaders(self) -> tuple[int, ...]:
        return tuple(leader for topic in self.topics for leader in topic.leaders)


def _check_targets(name: str, traffic: Traffic, topics: tuple[Topic, ...]) -> None:
    if not traffic.targets:
        raise ConfigError(f"producer {name}: its traffic has no target")
    for target in traffic.targets:
        if not 0 <= target.topic < len(topics):
            raise ConfigError(f"producer {name}: target topic {target.topic}; there are {len(topics)}")
        if not -1 <= target.partition < len(topics[target.topic].leaders):
            topic = topics[target.topic]
            raise ConfigError(f"producer {name}: partition {target.partition}; {topic.name} has {len(topic.leaders)}")
        if target.weight < 1:
            raise ConfigError(f"producer {name}: a target's weight is {target.weight}; expected 1 or more")


def _check_end(name: str, traffic: Traffic) -> None:
    arrivals = traffic.arrivals
    if isinstance(arrivals, Recorded):
        return
    if not (traffic.record_count or traffic.end_ns):
        raise ConfigError(f"producer {name}: its traffic has neither a record count nor an end")
    stands_still = not isinstance(arrivals, PerfTest) and _is_zero(arrivals.gap_ns)
    if isinstance(arrivals, OnOff):
        stands_still = stands_still or _is_zero(arrivals.on_ns)
    if stands_still and not traffic.record_count:
        raise ConfigError(f"producer {name}: its records are no time apart, so they never end")


def _is_zero(distribution: Distribution) -> bool:
    return distribution.is_constant and not distribution.points[0][1]
