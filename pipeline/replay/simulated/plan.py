"""Which runs there are: every group under every candidate with every seed, and which of them are the same run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from pipeline.errors import ConfigError
from pipeline.partitioners.registry import find_strategy
from pipeline.replay.simulated.keys import name_family
from pipeline.replay.simulated.producers import KEEP, resolve_candidate

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pipeline.config.replay import Candidate
    from pipeline.replay.simulated.groups import GroupSession, SessionGroup
    from pipeline.replay.simulated.producers import CandidateProducer


class SimulationRun(NamedTuple):
    """Group, candidate and seed; the first two by number in the plan."""

    group: int
    candidate: int
    seed: int


@dataclass(frozen=True)
class GroupVariant:
    """A group under a candidate: its producers, or the reason why it cannot be simulated.

    `same_as` is the number of the first candidate that makes the same run, often its own.
    """

    producers: tuple[CandidateProducer, ...]
    same_as: int
    reason: str = ""


@dataclass(frozen=True)
class SimulationPlan:
    """Everything a task has to know: what is in use is the first candidate.

    `variants` are by group and candidate; None where the candidate is about none of the group's topics.
    """

    groups: tuple[SessionGroup, ...]
    candidates: tuple[Candidate, ...]
    variants: tuple[tuple[GroupVariant | None, ...], ...]
    seeds: tuple[int, ...]

    def list_runs(self) -> list[SimulationRun]:
        """Every run that differs from those before; runs of a group next to each other."""
        return [
            SimulationRun(group, candidate, seed)
            for group, variants in enumerate(self.variants)
            for candidate, variant in enumerate(variants)
            if variant is not None and variant.producers and variant.same_as == candidate
            for seed in self.seeds
        ]


def plan_simulations(
    groups: Sequence[SessionGroup], candidates: Sequence[Candidate], seeds: Sequence[int]
) -> SimulationPlan:
    """Lays out all runs; every candidate is resolved here, once, and what is in use like any other."""
    everyone = (KEEP, *candidates)
    variants = tuple(tuple(_iter_variants(group, everyone)) for group in groups)
    return SimulationPlan(tuple(groups), everyone, variants, tuple(seeds))


def _iter_variants(group: SessionGroup, candidates: Sequence[Candidate]) -> Iterator[GroupVariant | None]:
    first_of: dict[object, int] = {}
    for number, candidate in enumerate(candidates):
        if not any(candidate.fits(topic.topic) for topic in group.topics):
            yield None
            continue
        try:
            producers = tuple(resolve_candidate(candidate, s.baseline, s.compression) for s in group.sessions)
        except ConfigError as error:
            yield GroupVariant((), number, str(error))
            continue
        yield GroupVariant(producers, first_of.setdefault(_describe_run(group, candidate, producers), number))


def _describe_run(group: SessionGroup, candidate: Candidate, producers: Sequence[CandidateProducer]) -> object:
    """Equal for candidates that make the same run."""
    counts = tuple(candidate.partition_count(len(topic.leaders)) for topic in group.topics)
    sessions = tuple(
        (
            producer.resolved.family,
            producer.resolved.settings if session.is_keyed else replace(producer.resolved.settings, ignores_keys=False),
            _describe_keys(producer, session),
        )
        for producer, session in zip(producers, group.sessions, strict=True)
    )
    return counts, repr(sorted(candidate.brokers.items())), sessions


def _describe_keys(producer: CandidateProducer, session: GroupSession) -> str:
    """Equal for strategies that put the session's keys, and its records without one, alike."""
    strategy = producer.resolved.strategy
    if session.is_keyed and strategy == session.baseline.strategy:
        return "as in use"
    return name_family(strategy) if session.is_keyed else find_strategy(strategy).null_key.value
