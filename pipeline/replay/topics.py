"""Everything known about each topic in each window, put together: what was recorded, and each candidate's outcome."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter

from pipeline.calibration.caveats import Statement
from pipeline.config.replay import IN_USE
from pipeline.replay.back_tests import find_longest, weigh_latency
from pipeline.replay.concerns import Concerns, list_concerns, read_log_facts
from pipeline.replay.keyed.topics import KeyedOutcome, KeyedTopic
from pipeline.replay.metrics import SessionMetrics
from pipeline.replay.recorded import ProducerSession, RecordedTopic, Recording, SessionKey, TopicWindow, describe_topic
from pipeline.replay.simulated.plan import GroupVariant, SessionGroup, SimulationPlan
from pipeline.replay.simulated.runs import TopicRun
from pipeline.replay.simulated.topics import CURRENT_ERROR, OTHER_ERROR, SimulatedTopic


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
        """Whether it is the current setup."""
        return self.name == IN_USE

    @property
    def placing_runs(self) -> SimulatedTopic | None:
        """The runs where they say where records go: some have no key, or keys say nothing about the candidate."""
        return self.runs if self.has_keyless or self.keys is None or self.keys.strategy is None else None


@dataclass(frozen=True, eq=False)
class ReplayedTopic:
    """Everything about a topic in a window; outcomes begin with the current setup, then follow the candidates' order.

    `latency_avg_ms` is the mean from `send()` to the acknowledgement as producers' metrics have it, or None;
    no record took longer than `longest_ms`, as far as they are known, or None.
    """

    start_ms: int
    recorded: RecordedTopic
    sessions: Sequence[ProducerSession]
    outcomes: Sequence[CandidateOutcome]
    keyed: KeyedTopic | None
    latency_avg_ms: float | None
    concerns: Concerns
    longest_ms: float | None = None


def replay_topics(
    recording: Recording,
    *,
    keyed: Mapping[TopicWindow, KeyedTopic],
    sessions: Sequence[ProducerSession],
    metrics: Mapping[SessionKey, SessionMetrics],
    plan: SimulationPlan,
    runs: Mapping[TopicWindow, Mapping[int, Mapping[int, TopicRun]]],
) -> Iterator[ReplayedTopic]:
    """Topics of the windows, in order; `runs` as `simulate_runs` gives them for the plan."""
    by_topic: dict[TopicWindow, list[ProducerSession]] = defaultdict(list)
    for session in sessions:
        by_topic[session.topic_window].append(session)
    variants = _find_variants(plan)
    for where in sorted(recording.leaders):
        own, keys, simulated = by_topic[where], keyed.get(where), runs.get(where, {})
        if not own and keys is None and not recording.with_arrivals:
            continue  # only keys are wanted
        recorded = describe_topic(recording, where, own, keys)
        named = [(0, IN_USE), *((n, one.name) for n, one in enumerate(recording.candidates, 1) if one.fits(where[1]))]
        is_steady = all(model.is_steady for one in own for model in metrics[one.key].models.values())
        outcomes = [
            _describe_outcome(
                name,
                recorded,
                keys,
                simulated.get(number),
                own=own,
                variants=variants[where, number],
                is_steady=is_steady,
            )
            for number, name in named
        ]
        traffic, log_starts = recording.traffic.get(where, ()), recording.log_starts.get(where, {})
        log = read_log_facts(traffic, log_starts, recording.minutes.get(where, 0), recording.window_ms)
        yield ReplayedTopic(
            start_ms=where[0],
            recorded=recorded,
            sessions=own,
            outcomes=outcomes,
            keyed=keys,
            latency_avg_ms=weigh_latency([(one.record_count, metrics[one.key].latency_avg_ms) for one in own]),
            longest_ms=find_longest([metrics[one.key].longest_ms for one in own]),
            concerns=list_concerns(recorded, own, outcomes[0].reason, log, [metrics[one.key] for one in own]),
        )


def _find_variants(plan: SimulationPlan) -> dict[tuple[TopicWindow, int], list[tuple[SessionGroup, GroupVariant]]]:
    """By topic in a window and candidate: the groups that write to the topic, and what each becomes."""
    found: dict[tuple[TopicWindow, int], list[tuple[SessionGroup, GroupVariant]]] = defaultdict(list)
    for group, variants in zip(plan.groups, plan.variants, strict=True):
        for topic in range(len(group.topics)):
            for number, variant in enumerate(variants):
                if variant is not None:
                    found[group.topic_window(topic), number].append((group, variant))
    return found


def _describe_outcome(
    name: str,
    recorded: RecordedTopic,
    keyed: KeyedTopic | None,
    runs: Mapping[int, TopicRun] | None,
    *,
    own: Sequence[ProducerSession],
    variants: Sequence[tuple[SessionGroup, GroupVariant]],
    is_steady: bool,
) -> CandidateOutcome:
    producers = [producer for _, variant in variants for producer in variant.producers]
    reasons = dict.fromkeys(variant.reason for _, variant in variants if variant.reason)
    is_whole = bool(runs) and not reasons  # a topic of which one producer cannot be simulated is not simulated
    is_as_in_use = bool(variants) and all(variant.same_as == 0 for _, variant in variants)
    error = CURRENT_ERROR if is_as_in_use else OTHER_ERROR
    return CandidateOutcome(
        name=name,
        keys=keyed.outcomes.get(name) if keyed else None,
        runs=SimulatedTopic(recorded, runs, error, is_steady) if is_whole and runs else None,
        partitioner=_name_partitioner(own, variants),
        reason="; ".join(reasons) or ("" if runs else "no arrivals are stored"),
        is_as_in_use=is_as_in_use,
        assumptions=tuple(statement for producer in producers for statement in producer.assumptions),
        has_keyless=recorded.keyless_count > 0,
    )


def _name_partitioner(
    own: Sequence[ProducerSession], variants: Sequence[tuple[SessionGroup, GroupVariant]]
) -> str | None:
    """The strategy of the session that sends most to the topic, of those that are simulated."""
    counts = {(session.producer_id, session.producer_epoch): session.record_count for session in own}
    simulated = [
        (counts.get((session.producer_id, session.producer_epoch), 0), producer.resolved.strategy)
        for group, variant in variants
        if variant.producers
        for session, producer in zip(group.sessions, variant.producers, strict=True)
    ]
    return max(simulated, key=itemgetter(0))[1] if simulated else None
