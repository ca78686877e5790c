"""Everything known about each topic in each window, put together: what was recorded, and each candidate's outcome."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter

import numpy as np

from pipeline.calibration.caveats import Statement
from pipeline.config.replay import IN_USE
from pipeline.replay.back_tests import weigh_latency
from pipeline.replay.concerns import Concerns, doubt_log, list_concerns
from pipeline.replay.keyed.topics import KeyedOutcome, KeyedTopic
from pipeline.replay.metrics import MetricsBySession
from pipeline.replay.recorded import ProducerSession, RecordedTopic, Recording, Row, SessionKey, Sessions, TopicWindow
from pipeline.replay.simulated.plan import GroupVariant, SessionGroup, SimulationPlan
from pipeline.replay.simulated.runs import GroupRun, TopicRun, add_runs
from pipeline.replay.simulated.topics import MODEL_ERROR, ModelError, SimulatedTopic
from pipeline.simulator.engine.batches import BATCH_HEADER_BYTES


@dataclass(frozen=True, eq=False)
class CandidateOutcome:
    """Outcome of a topic under a candidate: by its keys, by simulation, or both."""

    name: str  # in the configuration, or `in-use`
    # where its keys go; None where no keys are stored, or the candidate's strategy does not follow from them
    keys: KeyedOutcome | None
    runs: SimulatedTopic | None  # its simulated runs; None where it cannot be simulated, for a reason
    partitioner: str | None  # strategy that was simulated, of several that of the session with most records; or None
    reason: str
    is_as_in_use: bool  # its runs are those of the current setup
    assumptions: tuple[Statement, ...]
    has_keyless: bool

    @property
    def is_baseline(self) -> bool:
        return self.name == IN_USE

    @property
    def placing_runs(self) -> SimulatedTopic | None:
        """The runs where they say where records go: some have no key, or keys say nothing about the candidate."""
        return self.runs if self.has_keyless or self.keys is None or self.keys.strategy is None else None


@dataclass(frozen=True, eq=False)
class ReplayedTopic:
    start_ms: int
    recorded: RecordedTopic
    sessions: Sessions
    outcomes: Sequence[CandidateOutcome]  # the current setup, then candidates in their order
    keyed: KeyedTopic | None
    latency_avg_ms: float | None  # the mean from `send()` to the acknowledgement, as producers' metrics have it
    concerns: Concerns


@dataclass(frozen=True, eq=False, kw_only=True)
class TopicInput:
    """A topic in a window as the driver knows it, before tasks add its traffic and its runs; picklable."""

    where: TopicWindow
    window_ms: int
    leaders: Mapping[int, int]  # of its partitions at the window's end, or -1
    broker_ids: Sequence[int]
    log_starts: Mapping[int, int]  # the least offset that some replica holds, by partition
    minute_count: int  # minutes that hold records of it; 0 where unknown
    lack: str  # what is missing of the window's records
    sessions: Sessions
    metrics: MetricsBySession  # of its sessions
    first_metrics: MetricsBySession  # of those of which no topic before holds them
    keyed: KeyedTopic | None
    candidates: Mapping[int, str]  # those that are about it, by number; the current setup is the first
    # the groups that write to it, and what each becomes, by candidate
    variants: Mapping[int, Sequence[tuple[SessionGroup, GroupVariant]]]

    def merge_runs(self, results: Iterable[GroupRun]) -> dict[int, dict[int, TopicRun]]:
        """Adds up what its groups did, by candidate and seed; a candidate that makes the same run as another has its results."""
        of_group: dict[tuple[int, int], dict[int, TopicRun]] = defaultdict(dict)
        for number, candidate, seed, run in results:
            of_group[number, candidate][seed] = run
        merged: dict[int, dict[int, TopicRun]] = {}
        for candidate, variants in self.variants.items():
            runs: dict[int, list[TopicRun]] = defaultdict(list)
            for group, variant in variants:
                if variant.producers:
                    for seed, run in of_group[group.number, variant.same_as].items():
                        runs[seed].append(run)
            if runs:
                merged[candidate] = {seed: add_runs(runs[seed]) for seed in sorted(runs)}
        return merged


def list_topics(
    recording: Recording,
    *,
    keyed: Mapping[TopicWindow, KeyedTopic],
    sessions: Sessions,
    metrics: MetricsBySession,
    plan: SimulationPlan,
) -> Iterator[TopicInput]:
    by_topic: dict[TopicWindow, list[ProducerSession]] = defaultdict(list)
    for session in sessions:
        by_topic[session.topic_window].append(session)
    # by topic in a window and candidate: the groups that write to the topic, and what each becomes
    variants: dict[tuple[TopicWindow, int], list[tuple[SessionGroup, GroupVariant]]] = defaultdict(list)
    for group, of_group in zip(plan.groups, plan.variants, strict=True):
        for topic in range(len(group.topics)):
            for number, variant in enumerate(of_group):
                if variant is not None:
                    variants[group.topic_window(topic), number].append((group, variant))
    seen: set[SessionKey] = set()
    for where in sorted(recording.leaders):
        own, keys = by_topic[where], keyed.get(where)
        if not own and keys is None and not recording.with_arrivals:
            continue  # only keys are wanted
        named = {0: IN_USE, **{n: one.name for n, one in enumerate(recording.candidates, 1) if one.fits(where[1])}}
        known = {one.key: metrics[one.key] for one in own}
        first = {key: each for key, each in known.items() if key not in seen}
        seen |= known.keys()
        yield TopicInput(
            where=where,
            window_ms=recording.window_ms,
            leaders=recording.leaders[where],
            broker_ids=tuple(sorted(recording.brokers.get(where[0], ()))),
            log_starts=recording.log_starts.get(where, {}),
            minute_count=recording.minutes.get(where, 0),
            lack=recording.lacks.get(where[0], ""),
            sessions=own,
            metrics=known,
            first_metrics=first,
            keyed=keys,
            candidates=named,
            variants={number: variants[where, number] for number in named},
        )


def replay_topic(
    topic: TopicInput, traffic: Sequence[Row], runs: Mapping[int, Mapping[int, TopicRun]]
) -> ReplayedTopic:
    """Puts a topic together, from its rows of `silver.partition_traffic` and its merged runs."""
    own, metrics = topic.sessions, [topic.metrics[one.key] for one in topic.sessions]
    recorded = describe_topic(topic, traffic)
    other_error = SimulatedTopic(recorded, runs[0]).error_of_others() if runs.get(0) else MODEL_ERROR
    outcomes = [
        _describe_outcome(topic, number, recorded, runs.get(number), other_error) for number in topic.candidates
    ]
    log = list(doubt_log(traffic, topic.log_starts, topic.minute_count, topic.window_ms, lack=topic.lack))
    latencies = [(one.record_count, matched.latency_avg_ms) for one, matched in zip(own, metrics, strict=True)]
    return ReplayedTopic(
        start_ms=topic.where[0],
        recorded=recorded,
        sessions=own,
        outcomes=outcomes,
        keyed=topic.keyed,
        latency_avg_ms=weigh_latency(latencies),
        concerns=list_concerns(recorded, own, outcomes[0].reason, log, metrics),
    )


def describe_topic(topic: TopicInput, traffic: Sequence[Row]) -> RecordedTopic:
    """Describes a topic from rows of `silver.partition_traffic`; sizes before compression from keys where these are known."""
    count = max([*topic.leaders, *(row["partition"] for row in traffic)]) + 1
    records, batches, logs = (np.zeros(count, np.int64) for _ in range(3))
    by_broker: dict[int, int] = defaultdict(int)
    columns = itemgetter("partition", "leader_id", "record_count", "batch_count", "size_bytes")
    for partition, leader_id, record_count, batch_count, size in map(columns, traffic):
        records[partition] += record_count
        batches[partition] += batch_count
        logs[partition] += size
        by_broker[leader_id] += size
    sizes, keyed = np.maximum(logs - BATCH_HEADER_BYTES * batches, 0), topic.keyed
    if keyed is not None:
        known = keyed.recorded[:count, 1]
        sizes[: len(known)] = known
    return RecordedTopic(
        topic=topic.where[1],
        topic_id=topic.where[2],
        leaders=topic.leaders,
        broker_ids=topic.broker_ids,
        records=records,
        sizes=sizes,
        batches=batches,
        log_sizes=logs,
        broker_log_sizes=dict(by_broker),
        keyless_count=keyed.keyless_count if keyed else sum(session.keyless_count for session in topic.sessions),
    )


def _describe_outcome(
    topic: TopicInput,
    number: int,
    recorded: RecordedTopic,
    runs: Mapping[int, TopicRun] | None,
    other_error: ModelError,
) -> CandidateOutcome:
    """`other_error` is that of candidates that change something: what the current setup is off by adds to it."""
    name, keyed, variants = topic.candidates[number], topic.keyed, topic.variants[number]
    producers = [producer for _, variant in variants for producer in variant.producers]
    reasons = dict.fromkeys(variant.reason for _, variant in variants if variant.reason)
    is_whole = bool(runs) and not reasons  # a topic of which one producer cannot be simulated is not simulated
    is_as_in_use = bool(variants) and all(variant.same_as == 0 for _, variant in variants)
    error = MODEL_ERROR if is_as_in_use else other_error
    return CandidateOutcome(
        name=name,
        keys=keyed.outcomes.get(name) if keyed else None,
        runs=SimulatedTopic(recorded, runs, error) if is_whole and runs else None,
        partitioner=_name_partitioner(topic.sessions, variants),
        reason="; ".join(reasons) or ("" if runs else "no arrivals are stored"),
        is_as_in_use=is_as_in_use,
        assumptions=tuple(statement for producer in producers for statement in producer.assumptions),
        has_keyless=recorded.keyless_count > 0,
    )


def _name_partitioner(own: Sessions, variants: Sequence[tuple[SessionGroup, GroupVariant]]) -> str | None:
    """The strategy of the session that sends most to the topic, of those that are simulated."""
    counts = {(session.producer_id, session.producer_epoch): session.record_count for session in own}
    simulated = [
        (counts.get((session.producer_id, session.producer_epoch), 0), producer.resolved.strategy)
        for group, variant in variants
        if variant.producers
        for session, producer in zip(group.sessions, variant.producers, strict=True)
    ]
    return max(simulated, key=itemgetter(0))[1] if simulated else None
