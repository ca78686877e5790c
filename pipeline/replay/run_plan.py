"""Which runs there are: every unit under every candidate with every seed, and which of them are the same run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pipeline.errors import ConfigError
from pipeline.partitioners.registry import find_strategy
from pipeline.replay.key_places import name_family
from pipeline.replay.producers import resolve_candidate
from pipeline.replay.units import deal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pipeline.config.replay import Candidate
    from pipeline.replay.producers import CandidateProducer
    from pipeline.replay.units import ReplayUnit, UnitSession

_RUN_RECORDS = 20_000
"""What laying out a run costs, in records."""


@dataclass(frozen=True)
class Variant:
    """A unit under a candidate.

    Attributes:
        producers: Of its sessions; empty where the candidate cannot be simulated.
        same_as: Number of the first candidate that makes the same run, often its own.
        reason: Why it cannot be simulated, or "".
    """

    producers: tuple[CandidateProducer, ...]
    same_as: int
    reason: str = ""


@dataclass(frozen=True)
class RunPlan:
    """Everything a task has to know.

    Attributes:
        units: Numbered from 0.
        candidates: None for what is in use.
        variants: By unit and candidate; None where the candidate is about none of the unit's topics.
        seeds: The seeds.
    """

    units: tuple[ReplayUnit, ...]
    candidates: tuple[Candidate | None, ...]
    variants: tuple[tuple[Variant | None, ...], ...]
    seeds: tuple[int, ...]

    def list_runs(self) -> list[tuple[int, int, int]]:
        """Unit, candidate and seed of every run that differs from those before; runs of a unit next to each other."""
        return [
            (unit, candidate, seed)
            for unit, variants in enumerate(self.variants)
            for candidate, variant in enumerate(variants)
            if variant is not None and variant.producers and variant.same_as == candidate
            for seed in self.seeds
        ]

    def deal_runs(self, task_count: int) -> list[tuple[tuple[int, int, int], ...]]:
        """Deals the runs out to tasks of about equal work; what is run does not depend on how.

        Args:
            task_count: How many tasks are wanted.
        """
        runs = self.list_runs()
        costs = [_RUN_RECORDS + self.units[unit].record_count for unit, _, _ in runs]
        return [tuple(runs[piece] for piece in task) for task in deal(costs, task_count)]


def plan_runs(
    units: Sequence[ReplayUnit], candidates: Sequence[Candidate], seeds: Sequence[int], *, with_in_use: bool = True
) -> RunPlan:
    """Lays out all runs.

    Args:
        units: Numbered from 0 in order.
        candidates: From the configuration.
        seeds: At least one.
        with_in_use: What is in use comes first, as a candidate like any other.
    """
    everyone = (*((None,) if with_in_use else ()), *candidates)
    variants = tuple(_vary(unit, everyone) for unit in units)
    return RunPlan(tuple(units), everyone, variants, tuple(seeds))


def _vary(unit: ReplayUnit, candidates: Sequence[Candidate | None]) -> tuple[Variant | None, ...]:
    first_of: dict[object, int] = {}
    found: list[Variant | None] = []
    for number, candidate in enumerate(candidates):
        if candidate is not None and not any(candidate.fits(topic.topic) for topic in unit.topics):
            found.append(None)
            continue
        try:
            producers = tuple(resolve_candidate(candidate, s.baseline, s.compression) for s in unit.sessions)
        except ConfigError as error:
            found.append(Variant((), number, str(error)))
            continue
        key = _describe_run(unit, candidate, producers)
        found.append(Variant(producers, first_of.setdefault(key, number)))
    return tuple(found)


def _describe_run(unit: ReplayUnit, candidate: Candidate | None, producers: Sequence[CandidateProducer]) -> object:
    """Equal for candidates that make the same run."""
    counts = tuple(
        candidate.partition_count(len(topic.leaders)) if candidate else len(topic.leaders) for topic in unit.topics
    )
    brokers = repr(sorted(candidate.brokers.items())) if candidate else "[]"
    sessions = tuple(
        (
            producer.resolved.family,
            producer.resolved.settings if session.is_keyed else replace(producer.resolved.settings, ignores_keys=False),
            _describe_keys(producer, session),
        )
        for producer, session in zip(producers, unit.sessions, strict=True)
    )
    return counts, brokers, sessions


def _describe_keys(producer: CandidateProducer, session: UnitSession) -> str:
    """Equal for strategies that put the session's keys, and its records without one, alike."""
    strategy = producer.resolved.strategy
    if session.is_keyed and strategy == session.baseline.strategy:
        return "as in use"
    return name_family(strategy) if session.is_keyed else find_strategy(strategy).null_key.value
