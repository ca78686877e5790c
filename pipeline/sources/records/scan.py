"""One Spark job over everything a run reads: tasks yield pieces of tables, the driver takes the small ones first.

Pieces are Arrow tables that Spark moves as they are, pickled: no plan, no code generation, no conversion of rows (a job of
this kind costs 0.3 CPU-s where the same one over a data source of Spark SQL costs 3). What was read stays with Spark until
the run is done. Of a kind with few rows the driver takes all; of one with many Spark works on parts, by the same functions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from math import inf
from typing import Generic, TypeVar, cast

import polars as pl
import pyarrow as pa
from pyspark import RDD, StorageLevel
from pyspark.sql import SparkSession

from pipeline.engine import HeldValues, InProcess, choose_engine, held_by_executors
from pipeline.sources.records.pieces import SCHEMAS, Kind, Piece, ReadTask, run_read_task

_T = TypeVar("_T")
_U = TypeVar("_U")
_SMALL = (Kind.SUMMARIES, Kind.OTHERS)
_MOST_ROWS = 2_000_000
"""Rows of a kind (of arrivals: records) that are read and held without Spark: 200 MB."""


class Parts(Generic[_T]):
    """Values that belong together: on the driver, or with Spark where they would be too many."""

    def __init__(self, values: list[_T] | RDD[_T]) -> None:
        self.held = values if isinstance(values, list) else None
        self.spread = None if isinstance(values, list) else values

    def map(self, function: Callable[[_T], _U]) -> Parts[_U]:
        """Applies a function to each value, where it is."""
        if self.spread is not None:
            return Parts(self.spread.map(function))
        return Parts([function(value) for value in self.held or ()])

    def plus(self, value: _T) -> Parts[_T]:
        """The values and one more."""
        if self.spread is not None:
            return Parts(self.spread.union(self.spread.context.parallelize([value], 1)))
        return Parts([*(self.held or ()), value])

    def __iter__(self) -> Iterator[_T]:
        """The values one after another, two of them on the driver at most; tasks make all of them first."""
        return iter(self.held or ()) if self.spread is None else _iterate_spread(self.spread)

    def collect(self) -> list[_T]:
        """All values: small ones."""
        return self.held or [] if self.spread is None else self.spread.collect()


def _iterate_spread(values: RDD[_T]) -> Iterator[_T]:
    with held_by_executors(values) as held:
        held.count()
        yield from held.toLocalIterator(prefetchPartitions=True)


class Scan:
    """What the tasks of a run read; of a kind with at most `few` rows one process holds all.

    `parallelism`: the least number of parts that rows of a kind are divided into, where it has more.
    """

    def __init__(self, pieces: RDD[Piece] | HeldValues[Piece], *, few: int, parallelism: int = 1) -> None:
        self._pieces, self._few, self._parallelism = cast("RDD[Piece]", pieces), few, parallelism
        self._held: list[Piece] | None = None
        self._small: list[Piece] = []
        self.counts: Counter[Kind] = Counter()
        for kind, rows, count in self._pieces.map(_without_many_rows).collect():
            self.counts[kind] += count
            if rows is not None:
                self._small.append(Piece(kind, rows))

    def _is_few(self, kind: Kind) -> bool:
        return self.counts[kind] <= self._few

    def small(self, kind: Kind) -> pa.Table:
        """All rows of a small kind."""
        return _concat(kind, self._small)

    def parts(self, kind: Kind, by: Sequence[str] = ()) -> Parts[pa.Table]:
        """The rows of a kind that is not small, as they were read, or with rows alike in `by` in one part."""
        if self._is_few(kind):
            if self._held is None:
                few = {kind for kind in self.counts if self._is_few(kind)}
                pieces = self._pieces if few >= set(self.counts) else self._pieces.filter(lambda p: p.kind in few)
                self._held = pieces.collect() if self.counts else []
            if by:
                return Parts([_concat(kind, self._held)])
            # Piece by piece: what is made of one (a tenth of a gigabyte for all) goes before the next is begun.
            return Parts([piece.rows for piece in self._held if piece.kind is kind] or [SCHEMAS[kind].empty_table()])
        tables = self._pieces.filter(lambda piece: piece.kind is kind).map(lambda piece: piece.rows)
        if not by:
            return Parts(tables)
        count = max(self._parallelism, -(-self.counts[kind] // self._few))
        grouped = tables.flatMap(partial(_split, by=by, count=count)).groupByKey(count)
        return Parts(grouped.map(lambda found: pa.concat_tables(found[1])))

    def close(self) -> None:
        """Lets go of what Spark holds."""
        self._pieces.unpersist()


def scan(spark: SparkSession, plan: Callable[[int], Sequence[ReadTask]], *, few: int, seconds: float = inf) -> Scan:
    """Runs the tasks: few seconds of work with few rows in this process, else by Spark.

    `plan` makes the tasks, at least as many as its argument where there is enough to read.
    """
    if isinstance(choose_engine(spark, seconds), InProcess):
        held = read_few(plan(1), _MOST_ROWS)
        if held is not None:
            return Scan(HeldValues(held), few=_MOST_ROWS)
    least = spark.sparkContext.defaultParallelism
    tasks = plan(least)
    read = (
        spark.sparkContext.parallelize(tasks, max(1, len(tasks))).flatMap(run_read_task).persist(StorageLevel.DISK_ONLY)
    )
    return Scan(read, few=few, parallelism=least)


def read_few(tasks: Sequence[ReadTask], most_rows: int) -> list[Piece] | None:
    """Runs the tasks one after another in this process; None where a kind has more than `most_rows`."""
    counts: Counter[Kind] = Counter()

    def read(task: ReadTask) -> Iterator[Piece]:
        for piece in run_read_task(task):
            counts[piece.kind] += piece.row_count
            if counts[piece.kind] > most_rows:
                raise _TooManyRowsError
            yield piece

    try:
        return HeldValues(tasks).flatMap(read).collect()
    except _TooManyRowsError:
        return None


class _TooManyRowsError(Exception):
    pass


def _concat(kind: Kind, pieces: Iterable[Piece]) -> pa.Table:
    return pa.concat_tables([SCHEMAS[kind].empty_table(), *(piece.rows for piece in pieces if piece.kind is kind)])


def _split(rows: pa.Table, *, by: Sequence[str], count: int) -> Iterator[tuple[int, pa.Table]]:
    """Cuts rows into parts by a hash of some columns; a part without rows is left out."""
    part = pl.DataFrame(rows.select(by)).hash_rows(seed=0) % count
    for number in part.unique().to_list():
        yield number, rows.filter((part == number).to_arrow())


def _without_many_rows(piece: Piece) -> tuple[Kind, pa.Table | None, int]:
    return piece.kind, piece.rows if piece.kind in _SMALL else None, piece.row_count
