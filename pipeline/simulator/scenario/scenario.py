"""A scenario: brokers, topics, producers and how long they run. All times are whole nanoseconds from the run's start.

The order of events, the same in the simulator and in its oracle in the tests:

*Clocks.* Each thing that can happen next has a clock, which shows one time or none. Clocks are numbered:

1. *responses*: one for each connection (producer, broker), number producer x brokers + broker;
2. *senders*: one for each producer, after the responses;
3. *threads*: one for each `Traffic`, in the order of producers and then of their traffic, after the senders.

The next event is that of the earliest clock, on a tie the one with the lowest number.

*Partition queues.* A producer's queue of batches for a partition has number producer x partitions + partition, where
partitions are counted over all topics of the scenario.

*Transactions.* A producer that commits has one thread. The coordinator serves its requests like others, without the delay, which
is known of Produce requests alone.

*Chance.* Each purpose and unit has a stream of random numbers, counted from 0:

| purpose | unit | drawn |
|---|---|---|
| `partition` | producer x topics + topic | each draw of a partition, a repeated one too |
| `gap` | thread | each gap; of on/off traffic also each length of a phase; of the perf test each oversleep |
| `value size` | thread | each record |
| `target` | thread | each record, if there are several targets |
| `wake` | producer | each wake-up of a sleeping sender by an append |
| `response wake` | producer | each wake-up of a sleeping sender by a response |
| `wake call` | thread | the first call since the sender's last `runOnce` that wakes it, asleep or not |
| `service` | connection | each request, when its service begins |
| `oversleep` | connection | each request that is delayed |
| `replica wait` | connection | each request with acks=all |
| `error` | connection | each request within an error window |
| `backoff` | producer | each batch that goes back |
| `service of the run` | broker | once, before the first event |
| `threads of the run` | producer | once, before the first event |

A distribution with one value needs no draw.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import accumulate

from pipeline.errors import ConfigError
from pipeline.simulator.clients.client import ClientFamily, Settings, ThreadCosts
from pipeline.simulator.scenario.distribution import ALIKE, ZERO, Distribution, Steps
from pipeline.simulator.scenario.traffic import OnOff, PerfTest, Recorded, Traffic


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
    run_to_run_ppm: Distribution = ALIKE  # factor between two runs, parts per million; see `run_to_run.py`

    def mapped(self, change: Callable[[int], int]) -> Service:
        return replace(
            self,
            request_ns=self.request_ns.mapped(change),
            idle=tuple((after_ns, request_ns.mapped(change)) for after_ns, request_ns in self.idle),
            partition_ns=change(self.partition_ns),
            kib_ns=change(self.kib_ns),
        )

    def with_capacity(self, capacity: float) -> Service:
        """The service of a broker that is `capacity` times as fast."""
        return self if capacity == 1 else self.mapped(lambda ns: round(ns / capacity))


@dataclass(frozen=True)
class ErrorWindow:
    """A time in which a broker answers requests with an error that the client may retry."""

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
        """For each topic, the number of its first partition, counted over all topics; and their total."""
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
