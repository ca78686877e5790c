"""Plan of a keyed replay: windows, topics with their partition counts, candidates; plain values for every task."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from pipeline.config.replay import IN_USE, Candidate
from pipeline.errors import ConfigError
from pipeline.model.window import TimeWindow, Windows
from pipeline.partitioners import registry
from pipeline.partitioners.strategy import KeyRule, Strategy
from pipeline.replay.simulated.producers import check_producer, is_simulated, name_strategy

FAMILIES = registry.list_families()


@dataclass(frozen=True)
class AnswerColumn:
    """The stored answers of a user-defined strategy to one partition count."""

    strategy: str
    version: str
    partition_count: int


@dataclass(frozen=True)
class HashColumn:
    """A column of `silver.key_hashes`; of texts, only keys that are UTF-8 have it."""

    name: str
    is_text: bool


@dataclass(frozen=True)
class KeyAssignment:
    """One way to assign a topic's keys to partitions."""

    candidate: str  # whose it is; "" where it only serves to identify the current strategy
    family: str  # the family assigned by, where the current strategy is not known before; else ""
    strategy: str
    function: registry.KeyFunction | None  # what decides; None for a user's own strategy
    empty_key: KeyRule
    columns: tuple[int, ...]  # by window: number of the column looked up
    partition_counts: tuple[int, ...]  # by window; 0 where the window is not replayed


@dataclass(frozen=True)
class KeyedTopicPlan:
    """A topic: its partition count by window (0: none known, or a window that only serves as the one before)."""

    topic: str
    topic_id: str
    partition_counts: tuple[int, ...]
    assignments: tuple[KeyAssignment, ...]


@dataclass(frozen=True)
class KeyedPlan:
    # ascending: windows to replay and, before each, the one before it where that is committed
    window_starts_ms: tuple[int, ...]
    previous: tuple[int, ...]  # by window: number of the one before, or -1
    topics: tuple[KeyedTopicPlan, ...]
    columns: tuple[HashColumn | AnswerColumn, ...]  # what is looked up for a key, by number
    bucket_count: int  # parts of the keys that are worked on one by one


def resolve_strategy(name: str) -> Strategy:
    """The strategy of a candidate; a `ConfigError` without one, or where its choices do not follow from stored keys."""
    if registry.is_custom(name):
        return registry.load_custom(name)
    strategy = registry.find_strategy(name)
    registry.key_function_of(strategy)
    return strategy


def check_candidates(candidates: Sequence[Candidate], partitioners: Mapping[str, str]) -> None:
    """Refuses what cannot be replayed, before anything runs: a `ConfigError` names the candidate or the topic pattern."""
    for candidate in candidates:
        try:
            check_producer(candidate)
            _check_strategy(name_strategy(candidate))
        except ConfigError as error:
            raise ConfigError(f"candidate {candidate.name}: {error}") from error
    for pattern, strategy in partitioners.items():
        try:
            _check_strategy(strategy)
        except ConfigError as error:
            raise ConfigError(f"partitioners: {pattern}: {error}") from error


def _check_strategy(name: str | None) -> None:
    if name is not None and not is_simulated(name):
        resolve_strategy(name)


def assigns_keys(name: str | None) -> bool:
    """Whether a strategy's choices follow from what is stored about keys; None, the one in use, is replayed as it is."""
    return name is None or registry.is_custom(name) or registry.is_replayable(registry.find_strategy(name))


def strategy_in_use(partitioners: Mapping[str, str], topic: str) -> str | None:
    """The strategy that the configuration names for a topic: that of the first pattern that fits."""
    return next((strategy for pattern, strategy in partitioners.items() if fnmatchcase(topic, pattern)), None)


def plan_keys(
    windows: Windows,
    committed: frozenset[TimeWindow],
    partition_counts: Mapping[tuple[str, str], Mapping[int, int]],
    candidates: Sequence[Candidate],
    *,
    partitioners: Mapping[str, str],
    bucket_count: int,
) -> KeyedPlan:
    """Lays out which columns serve which candidate on which topic; a `ConfigError` where a strategy cannot be replayed.

    A candidate that names no strategy is assigned once per family: which of them is in use is known afterwards.
    `partition_counts` are by topic and topic id, then by start of the window.
    """
    before = {window.start_ms: window.start_ms - (window.end_ms - window.start_ms) for window in windows}
    known = {window.start_ms for window in committed}
    starts = sorted({*before, *(known & {*before.values()})})
    number_of = {start: number for number, start in enumerate(starts)}
    numbers: _Numbers = {}
    topics = []
    for (topic, topic_id), by_start in sorted(partition_counts.items()):
        counts = tuple(by_start.get(start, 0) if start in before else 0 for start in starts)
        fitting = [candidate for candidate in candidates if candidate.fits(topic)]
        in_use = strategy_in_use(partitioners, topic)
        assignments = tuple(_list_assignments(numbers, fitting, in_use, counts))
        topics.append(KeyedTopicPlan(topic, topic_id, counts, assignments))
    return KeyedPlan(
        window_starts_ms=tuple(starts),
        previous=tuple(number_of.get(before.get(start, -1), -1) for start in starts),
        topics=tuple(topics),
        columns=tuple(numbers),
        bucket_count=bucket_count,
    )


_Numbers = dict[HashColumn | AnswerColumn, int]  # the columns that assignments look up, numbered as they come


def _list_assignments(
    numbers: _Numbers, candidates: Sequence[Candidate], in_use: str | None, counts: tuple[int, ...]
) -> Iterator[KeyAssignment]:
    yield from (_assign_by_family(numbers, "", family, counts) for family in FAMILIES)
    if in_use is not None and assigns_keys(in_use):
        yield _assign_by_strategy(numbers, IN_USE, in_use, counts)
    for candidate in candidates:
        new_counts = tuple(candidate.partition_count(count) if count else 0 for count in counts)
        strategy = name_strategy(candidate) or in_use
        if strategy is None:
            yield from (_assign_by_family(numbers, candidate.name, family, new_counts) for family in FAMILIES)
        elif assigns_keys(strategy):
            yield _assign_by_strategy(numbers, candidate.name, strategy, new_counts)


def _assign_by_family(
    numbers: _Numbers, candidate: str, family: registry.StrategyFamily, counts: tuple[int, ...]
) -> KeyAssignment:
    # the members of a family differ over the empty key
    function, columns = family.function, _number_hash(numbers, family.function, counts)
    return KeyAssignment(candidate, family.name, family.strategies[0], function, KeyRule.KEYLESS, columns, counts)


def _assign_by_strategy(numbers: _Numbers, candidate: str, name: str, counts: tuple[int, ...]) -> KeyAssignment:
    strategy = resolve_strategy(name)
    if strategy.function is None:
        function = registry.key_function_of(strategy)
        columns = _number_hash(numbers, function, counts)
        return KeyAssignment(candidate, "", name, function, strategy.empty_key, columns, counts)
    version = strategy.source.rpartition(" ")[2]
    asked = (AnswerColumn(name, version, count) if count else None for count in counts)
    columns = tuple(-1 if column is None else numbers.setdefault(column, len(numbers)) for column in asked)
    return KeyAssignment(candidate, "", name, None, KeyRule.HASHED, columns, counts)


def _number_hash(numbers: _Numbers, function: registry.KeyFunction, counts: tuple[int, ...]) -> tuple[int, ...]:
    column = HashColumn(function.hash_column, function.is_text)
    return (numbers.setdefault(column, len(numbers)),) * len(counts)
