"""Strategies asked about keys while their bytes are at hand: the user's own, and every one where only counts are stored.

What a user's function raises is not the pipeline's failure: the key goes without an answer, and the quarantine names it.
Neither the exception's text nor the key is repeated there, for the one may hold the other.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.config.sections import COUNTS_ONLY
from pipeline.errors import ConfigError
from pipeline.model.log import TopicPartition
from pipeline.partitioners.registry import find_strategy, is_custom, list_families
from pipeline.partitioners.strategy import Strategy, choose_partition
from pipeline.sources.records.segment_scan import RecordLog

if TYPE_CHECKING:
    from pipeline.runs import RunContext

NO_ANSWER = -1
_ASKED_TWICE = 256  # keys of a segment about which a user's function is asked a second time


@dataclass(frozen=True, slots=True, order=True)
class Question:
    topic: str
    strategy: str  # name, `module:name` for the user's own
    version: str  # fingerprint of the user's module; "" for built-in strategies
    partition_count: int


class Answers(NamedTuple):
    partitions: NDArray[np.int64]  # by key the partition, or `NO_ANSWER`
    failures: tuple[str, ...]  # what went wrong, in words that name no key


def choose_questions(
    run: RunContext, reads: Sequence[RecordLog], partitions: Iterable[TopicPartition]
) -> tuple[Question, ...]:
    """Which strategies are asked about keys of which topic, for how many partitions; `ConfigError`: one does not load.

    The user's own are asked for the topic's partition count, the configuration's and the candidates'. Where only counts
    are stored, one strategy of each family that keys can distinguish is asked too.
    """
    keys = run.config.keys
    names = list(keys.strategies)
    if keys.mode == COUNTS_ONLY:
        names += [family.strategies[0] for family in list_families()]
    if not names:
        return ()
    own: dict[str, int] = defaultdict(int)
    for read in reads:
        own[read.topic] = max(own[read.topic], read.partition + 1)
    for known in partitions:
        if known.topic in own:
            own[known.topic] = max(own[known.topic], known.partition + 1)
    versions = {name: load_strategy(name)[1] for name in names}
    candidates = run.config.candidates
    return tuple(
        Question(topic, name, versions[name], count)
        for topic, own_count in sorted(own.items())
        for name in names
        for count in sorted(
            {own_count, *keys.partition_counts, *(c.partition_count(own_count) for c in candidates if c.fits(topic))}
        )
    )


@cache
def load_strategy(name: str) -> tuple[Strategy, str]:
    """A strategy and its version, loaded once per process; `ConfigError` where there is none of the name."""
    strategy = find_strategy(name)
    return strategy, strategy.source.rpartition(" ")[2] if is_custom(name) else ""


def ask(question: Question, keys: pa.Array) -> Answers:
    """Asks one strategy about distinct keys, large binary without nulls; `ConfigError` if it is not the driver's."""
    strategy, version = load_strategy(question.strategy)
    if version != question.version:
        raise ConfigError(f"strategy {question.strategy} is version {version} here, {question.version} on the driver")
    if strategy.function is not None:
        return _ask_function(strategy, keys, question.partition_count)
    from pipeline.partitioners.assignment import assign_partitions  # noqa: PLC0415 - imports Numba

    partitions = assign_partitions(strategy, keys, question.partition_count).astype(np.int64)
    return Answers(np.maximum(partitions, NO_ANSWER), ())


def _ask_function(strategy: Strategy, keys: pa.Array, partition_count: int) -> Answers:
    partitions = np.full(len(keys), NO_ANSWER, np.int64)
    raised: Counter[str] = Counter()
    for index, key in enumerate(keys.to_pylist()):
        try:
            answer = choose_partition(strategy, key, partition_count)
            again = choose_partition(strategy, key, partition_count) if index < _ASKED_TWICE else answer
        except Exception as error:  # noqa: BLE001 - a user's function may raise whatever it likes
            raised[type(error).__name__] += 1
            continue
        if again != answer:
            failure = f"returned {answer}, then {again} for one key; expected a function of the key"
            return Answers(np.full(len(keys), NO_ANSWER, np.int64), (f"{failure}: no answer is stored",))
        partitions[index] = NO_ANSWER if answer is None else answer
    expected = f"expected a partition, 0 to {partition_count - 1}: these keys go without an answer"
    failures = (f"raised {name} for {count} of {len(keys)} keys; {expected}" for name, count in sorted(raised.items()))
    return Answers(partitions, tuple(failures))
