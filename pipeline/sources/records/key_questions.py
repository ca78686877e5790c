"""Strategies asked about keys while their bytes are at hand: the user's own, and every one where only counts are stored.

What a user's function raises is not the pipeline's failure: the key goes without an answer, and the quarantine tells it.
Neither the exception's text nor the key is repeated there, for the one may hold the other.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, dataclass
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pipeline.errors import ConfigError
from pipeline.partitioners.custom import is_custom
from pipeline.partitioners.registry import find_strategy
from pipeline.partitioners.strategy import choose_partition

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa
    from numpy.typing import NDArray

    from pipeline.partitioners.strategy import Strategy

NO_ANSWER = -1
_ASKED_TWICE = 256
"""Keys of a segment about which a user's function is asked a second time."""


@dataclass(frozen=True, slots=True, order=True)
class Question:
    """Where would this strategy put the key?

    Attributes:
        topic: Whose keys it is asked about.
        strategy: Name, `module:name` for the user's own.
        version: Fingerprint of the user's module; "" for built-in strategies.
        partition_count: For how many partitions.
    """

    topic: str
    strategy: str
    version: str
    partition_count: int


class Answers(NamedTuple):
    """What a strategy said."""

    partitions: NDArray[np.int64]
    """By key the partition, or `NO_ANSWER`."""
    failures: tuple[str, ...]
    """What went wrong, in words that name no key."""


def format_questions(questions: Iterable[Question]) -> str:
    """Writes questions as the option the Spark data source takes."""
    return json.dumps([asdict(question) for question in questions])


def parse_questions(text: str) -> tuple[Question, ...]:
    """Reads what `format_questions` wrote."""
    return tuple(Question(**fields) for fields in json.loads(text))


def version_of(name: str) -> str:
    """The version under which a strategy's answers are stored.

    Raises:
        ConfigError: There is no such strategy.
    """
    return load_strategy(name)[1] if is_custom(name) else ""


@cache
def load_strategy(name: str) -> tuple[Strategy, str]:
    """A strategy and its version, loaded once per process.

    Raises:
        ConfigError: There is no such strategy.
    """
    strategy = find_strategy(name)
    return strategy, strategy.source.rpartition(" ")[2] if is_custom(name) else ""


def ask(question: Question, keys: pa.Array) -> Answers:
    """Asks one strategy about every key.

    Args:
        question: The strategy, and the partition count.
        keys: Distinct keys, large binary without nulls.

    Raises:
        ConfigError: The strategy is not there, or is another version than the driver's.
    """
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
    for place, key in enumerate(keys.to_pylist()):
        try:
            answer = choose_partition(strategy, key, partition_count)
            again = choose_partition(strategy, key, partition_count) if place < _ASKED_TWICE else answer
        except Exception as error:  # noqa: BLE001 - a user's function may raise whatever it likes
            raised[type(error).__name__] += 1
            continue
        if again != answer:
            failure = (
                f"returned {answer}, then {again} for one key; expected a function of the key: no answer is stored"
            )
            return Answers(np.full(len(keys), NO_ANSWER, np.int64), (failure,))
        partitions[place] = NO_ANSWER if answer is None else answer
    return Answers(
        partitions,
        tuple(
            f"raised {name} for {count} of {len(keys)} keys; expected a partition, 0 to {partition_count - 1}: "
            "these keys go without an answer"
            for name, count in sorted(raised.items())
        ),
    )
