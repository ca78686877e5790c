"""Spark's part of a small run, done by this process: a JVM and its workers cost more to start than the work takes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar

_T = TypeVar("_T")
_U = TypeVar("_U")


class HeldValues(Generic[_T]):
    """Values with what our tasks use of an RDD; each step is done at once."""

    def __init__(self, values: Sequence[_T]) -> None:
        self._values = values

    def map(self, function: Callable[[_T], _U]) -> HeldValues[_U]:
        """As `RDD.map`."""
        return HeldValues([function(value) for value in self._values])

    def filter(self, is_wanted: Callable[[_T], bool]) -> HeldValues[_T]:
        """As `RDD.filter`."""
        return HeldValues([value for value in self._values if is_wanted(value)])

    def flatMap(self, function: Callable[[_T], Iterable[_U]]) -> HeldValues[_U]:  # noqa: N802 - Spark's name
        """As `RDD.flatMap`."""
        return HeldValues([result for value in self._values for result in function(value)])

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
