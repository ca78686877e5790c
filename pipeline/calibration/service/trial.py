"""A producer's minute simulated with what it uses and given delays: what calibration compares with the recording."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from pipeline.arrays import Floats, Ints
from pipeline.calibration.limits import MOST_RECORDS
from pipeline.calibration.partitioner.baseline import Baseline
from pipeline.calibration.service.model import ServiceModel, fluctuate, make_broker
from pipeline.calibration.session_traffic import SessionBatches, SessionTraffic, commits_ns
from pipeline.model.window import MINUTE_MS, NS_PER_MS
from pipeline.simulator.clients.client import Compression
from pipeline.simulator.clients.producer_settings import resolve_producer
from pipeline.simulator.distributions import derive_stream
from pipeline.simulator.engine.result import QueueCounter, SimulationResult
from pipeline.simulator.engine.simulate import simulate
from pipeline.simulator.scenario.measured import MEASURED_COSTS
from pipeline.simulator.scenario.scenario import KEYLESS, Producer, Recorded, Scenario, Target, Topic, Traffic

RUNNING_COSTS = replace(MEASURED_COSTS, metadata_ns=0, connect_ns=0)
"""Recorded times are those of `send()` calls that had metadata, and the connections of a running producer stand."""


@dataclass(frozen=True, eq=False)
class SessionTopic:
    """A topic of a producer session, whose strategy the simulator follows; leaders by partition, -1 for none."""

    traffic: SessionTraffic
    batches: SessionBatches
    leaders: tuple[int, ...]
    baseline: Baseline
    compression: Compression | None = None
    racks: Mapping[int, str] = field(default_factory=dict)  # of brokers by id; "" without one
    _sent_ns: dict[int, Ints] = field(default_factory=dict, init=False, repr=False)

    @property
    def first_ms(self) -> int:
        return int(self.traffic.start_ms) + int(self.traffic.elapsed_ms[0])

    @property
    def last_ms(self) -> int:
        return int(self.traffic.start_ms) + int(self.traffic.elapsed_ms[-1])

    def place_records(self, seed: int) -> Ints:
        """When each record was sent, epoch nanoseconds; placed once per seed."""
        if seed not in self._sent_ns:
            self._sent_ns[seed] = self.traffic.place_records(0, seed)
        return self._sent_ns[seed]


SessionTopics = Sequence[SessionTopic]


@dataclass(frozen=True, eq=False)
class BrokerFigures:
    """Records and batches by broker, in the order asked for; float64[b]."""

    record_count: Floats
    batch_count: Floats

    @property
    def share(self) -> Floats:
        share: Floats = self.record_count / max(self.record_count.sum(), 1.0)
        return share

    @property
    def records_per_batch(self) -> Floats:
        return self.record_count / np.maximum(self.batch_count, 1.0)


def cut_topic(topic: SessionTopic, start_ms: int, end_ms: int) -> SessionTopic:
    """Cuts a topic's traffic to a span of time; a batch belongs to its first record."""
    traffic, base_ms = topic.traffic, topic.batches.base_ms
    first, last = np.searchsorted(traffic.elapsed_ms, (np.array([start_ms, end_ms]) - traffic.start_ms))
    batches = topic.batches.select((base_ms >= start_ms) & (base_ms < end_ms))
    return replace(topic, traffic=traffic.choose(slice(first, last)), batches=batches)


def cut_beginning(topics: SessionTopics, start_ms: int, end_ms: int) -> list[SessionTopic]:
    """A time's beginning, as much of it as is simulated."""
    cut = [cut_topic(topic, start_ms, end_ms) for topic in topics]
    count = sum(len(topic.traffic) for topic in cut)
    if count > MOST_RECORDS:
        length_ms = (end_ms - start_ms) * MOST_RECORDS // count
        cut = [cut_topic(topic, start_ms, start_ms + length_ms) for topic in cut]
    return [topic for topic in cut if len(topic.traffic)]


def choose_minute(topics: SessionTopics, start_ms: int, end_ms: int) -> tuple[int, int]:
    """The minute with the most batches; the whole window if it holds no whole minute."""
    minutes = range(start_ms + -start_ms % MINUTE_MS, end_ms, MINUTE_MS)
    if end_ms - start_ms <= MINUTE_MS or not minutes:
        return start_ms, end_ms
    base_ms = np.concatenate([topic.batches.base_ms for topic in topics])
    counts = [int(((base_ms >= at_ms) & (base_ms < at_ms + MINUTE_MS)).sum()) for at_ms in minutes]
    at_ms = minutes[int(np.argmax(counts))]
    return at_ms, min(at_ms + MINUTE_MS, end_ms)


def simulate_answers(
    topics: SessionTopics, models: Sequence[ServiceModel], at_ms: Sequence[int], seed: int, step: int
) -> Floats:
    """Requests answered until some instants, and the ms they took: float64[instants, models, 2]; each `step` draws anew."""
    result = _run(topics, _fluctuate(models, seed, step), seed, at_ms)
    return np.array(result.answered_marks)[:, : len(models)] / (1, NS_PER_MS)


def observe(topics: SessionTopics, broker_ids: Sequence[int]) -> BrokerFigures:
    leader = np.concatenate([topic.batches.leader for topic in topics])
    records = np.concatenate([topic.batches.record_count for topic in topics])
    is_on = leader[None, :] == np.array(broker_ids)[:, None]
    return BrokerFigures((is_on * records).sum(axis=1).astype(np.float64), is_on.sum(axis=1).astype(np.float64))


def simulate_trial(topics: SessionTopics, models: Sequence[ServiceModel], seed: int) -> BrokerFigures:
    """Simulates what topics of one session got, with the first one's settings; `models` are in the order wanted."""
    result = _run(topics, _fluctuate(models, seed), seed)
    queues = [result.queues_of_broker(number) for number in range(len(models))]
    counters = (QueueCounter.DONE_RECORDS, QueueCounter.DONE_BATCHES)
    return BrokerFigures(*(np.array([result.count(own, each) for own in queues], np.float64) for each in counters))


def _fluctuate(models: Sequence[ServiceModel], seed: int, step: int = 0) -> list[ServiceModel]:
    return [fluctuate(one, derive_stream(seed, "delays within spans", f"{step} {one.broker_id}")) for one in models]


def _run(
    topics: SessionTopics, models: Sequence[ServiceModel], seed: int, marks_ms: Sequence[int] = ()
) -> SimulationResult:
    baseline = topics[0].baseline
    resolved = resolve_producer(
        baseline.client,
        baseline.version,
        baseline.config,
        strategy=baseline.strategy,
        compression=topics[0].compression,
    )
    number_of = {model.broker_id: number for number, model in enumerate(models)}
    start_ms = min(topic.first_ms for topic in topics if len(topic.traffic))
    targets = tuple(Target(topic=number) for number in range(len(topics)))
    recorded = _merge(topics, start_ms, seed)
    if resolved.settings.is_transactional:
        recorded = recorded.with_commits(commits_ns(topics[0].batches.commits_ms, start_ms))  # of all topics alike
    traffic = Traffic(recorded, targets=targets)
    producer = Producer("session", (traffic,), resolved.family, baseline.version, resolved.settings, RUNNING_COSTS)
    scenario = Scenario(
        "calibration",
        tuple(replace(make_broker(model, start_ms), rack=topics[0].racks.get(model.broker_id, "")) for model in models),
        tuple(
            Topic(f"{number}", tuple(number_of.get(leader, -1) for leader in topic.leaders))
            for number, topic in enumerate(topics)
        ),
        (producer,),
    )
    return simulate(scenario, seed, marks_ns=tuple((at_ms - start_ms) * NS_PER_MS for at_ms in marks_ms))


def _merge(topics: SessionTopics, start_ms: int, seed: int) -> Recorded:
    parts = []
    for number, topic in enumerate(topics):
        traffic = topic.traffic
        if len(traffic):
            due_ns = topic.place_records(seed) - start_ms * NS_PER_MS
            partition = np.where(traffic.is_keyed, traffic.partition, KEYLESS)
            parts.append((due_ns, traffic.body_bytes, partition, np.full(len(traffic), number)))
    due_ns, *others = (np.concatenate(column).astype(np.int64) for column in zip(*parts, strict=True))
    order = np.argsort(due_ns, kind="stable")
    return Recorded(due_ns[order], *(column[order] for column in others))
