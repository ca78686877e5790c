"""The recording to replay, loaded once from the tables: sessions and topics by window."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from pipeline.arrays import Ints
from pipeline.calibration.partitioner.baseline import Baseline
from pipeline.calibration.within_ms import Pattern
from pipeline.config.replay import Candidate
from pipeline.config.sections import Zones
from pipeline.model.window import TimeWindow
from pipeline.replay.leaders import DrawnLeaders, draw_leaders
from pipeline.simulator.clients.client import Compression

SLOTS = 240  # parts of a window in which a session's bytes are counted: a quarter of a second of a minute
TopicWindow: TypeAlias = tuple[int, str, str]  # start of the window, topic, topic id
SessionKey: TypeAlias = tuple[int, int, int, str, str]
"""Start of the window, producer id, producer epoch; topic and topic id where producers are pooled, else ""."""


@dataclass(frozen=True, eq=False)
class ProducerSession:
    """A producer session in a topic and window; producer id and epoch are -1 where pooled."""

    start_ms: int
    topic: str
    topic_id: str
    producer_id: int
    producer_epoch: int
    record_count: int  # records whose arrival is known
    keyless_count: int
    pattern: Pattern
    batch_count: int
    bytes_by_broker: Mapping[int, int]  # bytes of its batches in the log, by the broker that led
    bytes_by_slot: Ints  # the same by time: int64[`SLOTS`], equal parts of the window
    baseline: Baseline
    compression: Compression | None
    timestamp_type: str  # `CreateTime`, or `LogAppendTime` where any is
    counts: Mapping[str, int]  # records that are special, by what they are; see `SessionTraffic`
    sampling_rate: float  # part of the window's time that was read
    commits_ms: Ints = field(default_factory=lambda: np.zeros(0, np.int64))  # see `find_commits`
    client_id: str | None = None  # `client.id` of the client whose metrics fit; None where none or several do
    zone: str = ""  # where its producer is; "" where nothing says
    zone_source: str = "unknown"  # how that is known, see `ZoneSource`
    # of one of several producers that are pooled: the weights of all by what their clients sent, and which it is
    weights: tuple[float, ...] = ()
    number: int = 0

    @property
    def topic_key(self) -> tuple[str, str]:
        return self.topic, self.topic_id

    @property
    def topic_window(self) -> TopicWindow:
        return self.start_ms, self.topic, self.topic_id

    @property
    def is_keyed(self) -> bool:
        """Some of its records have keys."""
        return self.keyless_count < self.record_count

    def deal(self, weights: Sequence[float]) -> list["ProducerSession"]:
        """A session for each of the pooled producers; itself where its clients do not tell several."""
        if len(weights) < 2:
            return [self]
        keyed, dealt = self.record_count - self.keyless_count, list[ProducerSession]()
        for number, weight in enumerate(weights):
            count, own = round(self.record_count * weight / sum(weights)), math.ceil(keyed * weight / sum(weights))
            part = replace(self, weights=tuple(weights), number=number, record_count=count)
            dealt.append(replace(part, keyless_count=max(0, count - own)))
        return dealt

    @property
    def key(self) -> SessionKey:
        """Identity of a producer; pooled ones differ by topic at least."""
        return (
            self.start_ms,
            self.producer_id,
            self.producer_epoch,
            *(self.topic_key if self.producer_id < 0 else ("", "")),
        )


Sessions = Sequence[ProducerSession]


Row = Mapping[str, Any]
SessionWindow = tuple[int, int, int]  # start of the window, producer id, producer epoch
MOST_PARTITIONS = 3_000  # of a topic that is replayed, and of a simulated group's: each takes 80 KB while a run lasts
MOST_QUEUES = 20_000  # of a simulated group: each of its producers has one for each partition, and each takes 80 KB
MOST_SESSIONS = 5_000  # of a window, each once more for 50 partitions of its topic: takes 20 ms and 140 KB
MetricsClient = tuple[str, str]  # instance and `client.id`
_REQUEST_BYTES = 34 + 16  # of a Produce request (v9 and later) what is neither batch nor client id; 16 are the topic's


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientNode:
    """A client's metrics of its connection to a broker in a window or minute, columns of `silver.producer_nodes`."""

    window_start_ms: int
    source: str = ""
    instance: str = ""
    client_id: str
    broker_id: int
    request_count: float | None = None
    request_rate_per_s: float | None = None
    request_latency_avg_ms: float | None = None
    queue_time_avg_ms: float | None = None
    outgoing_bytes: float | None = None
    covered_ms: float | None = None
    inner_bytes: float | None = None
    inner_from_ms: int | None = None
    inner_until_ms: int | None = None
    client_version: str | None = None
    client_software_name: str | None = None
    client_rack: str | None = None

    @property
    def batch_bytes(self) -> float:
        """Of what it sent, what is no request's own; 0 where that is not known."""
        overhead_bytes = _REQUEST_BYTES + len(self.client_id.encode())
        return max(0.0, (self.outgoing_bytes or 0.0) - overhead_bytes * (self.request_count or 0))


class RequestSpan(NamedTuple):
    """What a connection did between two scrapes, as `measure_requests` says; without a broker what batches waited for."""

    broker_id: int | None
    start_ms: int
    end_ms: int
    request_count: float
    byte_count: float
    latency_ms: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Recording:
    windows: tuple[TimeWindow, ...]
    window_ms: int
    candidates: Sequence[Candidate] = ()
    # strategies in use by topic pattern, of the configuration
    partitioners: Mapping[str, str] = field(default_factory=dict)
    seeds: int = 1  # runs of each candidate where chance decides
    with_arrivals: bool = True  # records without a key are replayed, too
    # of each topic's partitions at the window's end, or -1; internal topics and `too_large` ones are left out
    leaders: Mapping[TopicWindow, Mapping[int, int]] = field(default_factory=dict)
    too_large: Mapping[TopicWindow, int] = field(default_factory=dict)  # how many partitions or producers
    brokers: Mapping[int, Sequence[int]] = field(default_factory=dict)
    # of each window's brokers, by id; "" without one
    racks: Mapping[int, Mapping[int, str]] = field(default_factory=dict)
    zones: Zones = field(default_factory=Zones)  # what the configuration says of clients' zones
    # the least offset that some replica holds, by partition
    log_starts: Mapping[TopicWindow, Mapping[int, int]] = field(default_factory=dict)
    lacks: Mapping[int, str] = field(default_factory=dict)  # by start of a window, what is missing of its records
    # minutes of the window that hold records of the topic
    minutes: Mapping[TopicWindow, int] = field(default_factory=dict)
    sessions: Mapping[SessionWindow, int] = field(default_factory=dict)  # records of each producer session
    # rows of `silver.producer_nodes` by start of the window and client; those of the windows before, too
    nodes: Mapping[int, Mapping[MetricsClient, Sequence[ClientNode]]] = field(default_factory=dict)
    # the same by minute, by client; nothing where windows are no longer
    minute_nodes: Mapping[MetricsClient, Sequence[ClientNode]] = field(default_factory=dict)
    requests: Mapping[MetricsClient, Sequence[RequestSpan]] = field(
        default_factory=dict
    )  # of the windows and before them

    def partition_counts(self) -> dict[tuple[str, str], dict[int, int]]:
        """Partitions by topic and topic id, then by start of the window."""
        counts: dict[tuple[str, str], dict[int, int]] = defaultdict(dict)
        for (start_ms, topic, topic_id), by_partition in self.leaders.items():
            counts[topic, topic_id][start_ms] = max(by_partition) + 1
        return dict(counts)

    def list_leaders(self, where: TopicWindow) -> tuple[int, ...]:
        """Leaders by partition, -1 where there is none; empty for a topic that is not known."""
        led = self.leaders.get(where, {})
        return tuple(led.get(partition, -1) for partition in range(max(led, default=-1) + 1))


def find_too_large(leaders: Mapping[TopicWindow, Mapping[int, int]]) -> dict[TopicWindow, int]:
    counts = {where: max(by_partition) + 1 for where, by_partition in leaders.items()}
    return {where: count for where, count in counts.items() if count > MOST_PARTITIONS}


@dataclass(frozen=True, eq=False)
class RecordedTopic:
    """Traffic of a topic in a window; arrays are int64[partitions]."""

    topic: str
    topic_id: str
    leaders: Mapping[int, int]  # id of each partition's leader at the window's end, or -1
    broker_ids: Sequence[int]
    records: Ints
    sizes: Ints  # bytes of the data records before compression, without batch headers
    batches: Ints
    # bytes of the batches in the log; `broker_log_sizes` by broker that led when they were written
    log_sizes: Ints
    broker_log_sizes: Mapping[int, int]
    keyless_count: int

    def draw_leaders(self, partition_count: int) -> DrawnLeaders:
        return draw_leaders(self.leaders, self.broker_ids, self.topic, partition_count)

    @property
    def partition_count(self) -> int:
        return len(self.records)

    @property
    def records_per_batch(self) -> float | None:
        batches = self.batches.sum()
        return float(self.records.sum() / batches) if batches else None
