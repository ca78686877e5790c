"""Work divided among Spark tasks: each runs a function over its pieces and hands back values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

from pipeline.engine import count_task_slots
from pipeline.stages import run_values

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TASKS_PER_CORE = 3
Piece = TypeVar("Piece")
Result = TypeVar("Result")


def run_tasks(
    spark: SparkSession,
    pieces: Sequence[Piece],
    cost_of: Callable[[Piece], int],
    work: Callable[[Sequence[Piece]], Iterable[Result]],
) -> Iterable[Result]:
    """Runs work on every piece, some neighbours at a time, with enough tasks to keep every core busy to the end.

    `cost_of` says about how many records' work a piece is, above 0; `work` is called where a task runs, so what it holds is sent
    there. The results are in no certain order, and to be taken once: each is unpacked when it is taken.
    """
    return run_values(spark, deal_tasks(spark, pieces, cost_of), work)


def deal_tasks(
    spark: SparkSession, pieces: Sequence[Piece], cost_of: Callable[[Piece], int]
) -> list[tuple[Piece, ...]]:
    """Deals pieces of work out to tasks, see `deal`, as many as keep every core busy to the end."""
    return deal(pieces, cost_of, _TASKS_PER_CORE * count_task_slots(spark)) if pieces else []


def deal(pieces: Sequence[Piece], cost_of: Callable[[Piece], int], task_count: int) -> list[tuple[Piece, ...]]:
    """Deals pieces of work out to about so many tasks of equal cost, each with neighbours; no task is empty.

    >>> deal("abcde", {"a": 1, "b": 1, "c": 1, "d": 5, "e": 1}.__getitem__, 3)
    [('a', 'b', 'c'), ('d',), ('e',)]
    """
    costs = [cost_of(piece) for piece in pieces]
    limit = max(1, -(-sum(costs) // max(1, task_count)))
    tasks: list[list[Piece]] = []
    filled = limit
    for piece, cost in zip(pieces, costs, strict=True):
        if filled + cost > limit:
            tasks.append([])
            filled = 0
        tasks[-1].append(piece)
        filled += cost
    return [tuple(task) for task in tasks]
