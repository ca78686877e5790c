"""Chooses Spark for large work and this process for small: starting a JVM and its workers costs 20 CPU-s."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Generic, TypeVar, cast

from pyspark import RDD, StorageLevel
from pyspark.sql import SparkSession

_T = TypeVar("_T")
_U = TypeVar("_U")
_MOST_S = 30
"""Seconds of one core that are done here: on two cores Spark would take half of them, and 10 s to start."""
_done = _planned = 0


class HeldValues(Generic[_T]):
    """Values with what our tasks use of an RDD; each step is done at once."""

    def __init__(self, values: Sequence[_T]) -> None:
        self._values = values

    def map(self, function: Callable[[_T], _U]) -> HeldValues[_U]:
        """As `RDD.map`."""
        return self.flatMap(lambda value: (function(value),))

    def filter(self, is_wanted: Callable[[_T], bool]) -> HeldValues[_T]:
        """As `RDD.filter`."""
        return HeldValues([value for value in self._values if is_wanted(value)])

    def flatMap(self, function: Callable[[_T], Iterable[_U]]) -> HeldValues[_U]:  # noqa: N802 - Spark's name
        """As `RDD.flatMap`."""
        global _done, _planned  # noqa: PLW0603 - as Spark's own tracker, for whoever watches this process
        results: list[_U] = []
        _done, _planned = 0, len(self._values)
        for value in self._values:
            results.extend(function(value))
            _done += 1
        _planned = _done = 0
        return HeldValues(results)

    def groupByKey(self: HeldValues[tuple[Any, _U]], _count: int) -> HeldValues[tuple[Any, list[_U]]]:  # noqa: N802
        """As `RDD.groupByKey`."""
        groups: dict[Any, list[_U]] = defaultdict(list)
        for key, value in self._values:
            groups[key].append(value)
        return HeldValues(list(groups.items()))

    def persist(self, _level: object) -> HeldValues[_T]:
        """Does nothing: values are held."""
        return self

    def unpersist(self) -> None:
        """Lets go of the values."""
        self._values = ()

    def collect(self) -> list[_T]:
        """All values."""
        return list(self._values)


class InProcess:
    """What `ingest` and `replay` use of a `SparkSession`, where all rows of a run are few."""

    defaultParallelism = 1  # noqa: N815 - Spark's name

    @property
    def sparkContext(self) -> InProcess:  # noqa: N802 - Spark's name
        """Itself."""
        return self

    def parallelize(self, values: Sequence[_T], _count: int) -> HeldValues[_T]:
        """As `SparkContext.parallelize`."""
        return HeldValues(values)


class OnDemand(ABC):
    """A `SparkSession` that starts on first use."""

    @property
    @abstractmethod
    def is_wanted(self) -> bool:
        """Whether all work uses it, however small."""


def choose_engine(spark: SparkSession, seconds: float) -> SparkSession:
    """Chooses Spark, or this process for work of few seconds of one core."""
    if isinstance(spark, OnDemand) and seconds <= _MOST_S and not spark.is_wanted:
        return cast("SparkSession", InProcess())
    return spark


def count_held() -> tuple[int, int]:
    """Counts the values done and the values in all that this process works on."""
    return _done, _planned


@contextmanager
def held_by_executors(values: RDD[_T]) -> Iterator[RDD[_T]]:
    """Values that executors keep on their disks, once an action has made all of them; let go at the end.

    Spark's local iterator alone runs one task at a time, and makes a value again for whoever asks twice.
    """
    held = values.persist(StorageLevel.DISK_ONLY)
    try:
        yield held
    finally:
        held.unpersist()
