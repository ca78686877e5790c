"""Stages of a Spark job: a kernel makes Arrow tables of tasks, written as Parquet parts by kind; what follows is a DataFrame."""

import pickle
import uuid
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pipeline.config.storage import Folder, open_in_arrow
from pipeline.engine import count_engine_tasks, count_task_slots, describe_work, reads_files_in_tasks
from pipeline.errors import StorageError
from pipeline.tables.arrow_types import format_sql_schema

Task = TypeVar("Task")
Piece = TypeVar("Piece")
Result = TypeVar("Result")
Schemas = Mapping[str, pa.Schema]
Pieces = Iterable[tuple[str, pa.Table]]  # what a kernel yields: the kind of some rows, and the rows
Kernel = Callable[[pa.Table], Pieces]

_PART = pa.schema([("kind", pa.string()), ("path", pa.string()), ("row_count", pa.int64())])
_BUCKET = "_bucket"
_NOT_WRITTEN = ""  # in place of the kind of a part that could not be written; its path is the reason
_newest = [0, 0, 0]  # the newest stage: its number, its tasks done in this process, and in all


@dataclass(frozen=True, slots=True)
class Parts:
    """Rows of one kind that tasks wrote: Parquet files of a run's staging folder."""

    spark: SparkSession
    folder: Folder
    schema: pa.Schema
    paths: tuple[str, ...]
    row_count: int
    left_out: frozenset[tuple[str, str, int]] = frozenset()  # partitions, by topic, its id and number

    def frame(self) -> DataFrame:
        """All rows but those of partitions that are left out."""
        if not self.left_out:
            return self._all()
        name = F.concat_ws("/", "topic", "topic_id", F.col("partition").cast("string"))
        is_kept = ~name.isin(["/".join(map(str, key)) for key in sorted(self.left_out)])
        return self._all().where(F.coalesce(is_kept, F.lit(True)))  # noqa: FBT003 - a value

    def _all(self) -> DataFrame:
        declared = format_sql_schema(self.schema)
        if not self.paths:
            return self.spark.createDataFrame(self.schema.empty_table(), declared)
        if not reads_files_in_tasks(self.spark, self.folder):
            return self.spark.read.schema(declared).parquet(*self.paths)
        return map_tasks(self.spark, self.paths, partial(_give_part, self.folder, self.schema), self.schema)

    def without(self, partitions: frozenset[tuple[str, str, int]]) -> Self:
        """The same without the rows of some partitions: few."""
        return replace(self, left_out=partitions)

    def load(self) -> pa.Table:
        """All rows on the driver: of a small kind."""
        return read_parts(self.folder, self.schema, self.paths)

    def with_rows(self, kind: str, rows: pa.Table) -> Self:
        """The same and some rows that the driver has: few."""
        path = write_part(self.folder, kind, rows)
        return replace(self, paths=(*self.paths, path), row_count=self.row_count + rows.num_rows)


def read_parts(folder: Folder, schema: pa.Schema, paths: Sequence[str], filters: pc.Expression = None) -> pa.Table:
    files = open_in_arrow(folder)[0]
    read = (pq.read_table(path, filesystem=files, partitioning=None, filters=filters) for path in paths)
    return pa.concat_tables([schema.empty_table(), *read])


def _give_part(folder: Folder, schema: pa.Schema, path: str) -> tuple[pa.Table]:
    return (read_parts(folder, schema, (path,)),)


def write_part(folder: Folder, kind: str, rows: pa.Table) -> str:
    """Writes rows of a kind as one Parquet file of a staging folder; returns its path, in a store without the scheme."""
    files, root = open_in_arrow(folder)
    path = f"{root}/{kind}-{uuid.uuid4().hex}.parquet"
    pq.write_table(rows, path, compression="zstd", filesystem=files)
    return path


@dataclass(frozen=True, slots=True)
class Staging:
    """Runs stages, whose parts lie in one folder."""

    spark: SparkSession
    folder: Folder
    subject: str = ""  # whose they are, for people: cluster and windows

    def run_tasks(
        self, doing: str, tasks: Sequence[Task], work: Callable[[Task], Pieces], schemas: Schemas
    ) -> dict[str, Parts]:
        """Runs a picklable kernel on picklable tasks, each one Spark task; `schemas` are those of the rows of each kind."""
        describe_work(f"{self.subject}: {doing}")
        write = partial(then, work, partial(_write_pieces, self.folder))
        return self._gather(map_tasks(self.spark, tasks, write, _PART), schemas)

    def run_groups(
        self, doing: str, frame: DataFrame, *, by: Sequence[str], count: int, work: Kernel, schemas: Schemas
    ) -> dict[str, Parts]:
        """Runs a kernel on `count` buckets of rows; rows alike in `by` are in one bucket."""
        describe_work(f"{self.subject}: {doing}")
        write = partial(then, work, partial(_write_pieces, self.folder))
        return self._gather(map_groups(frame, by, count, write, _PART), schemas)

    def _gather(self, written: DataFrame, schemas: Schemas) -> dict[str, Parts]:
        paths: dict[str, list[str]] = defaultdict(list)
        counts: dict[str, int] = defaultdict(int)
        for part in written.toArrow().to_pylist():
            if part["kind"] == _NOT_WRITTEN:
                raise StorageError(f"{self.folder}: {part['path']}; free space or repair the folder, then run again")
            paths[part["kind"]].append(part["path"])
            counts[part["kind"]] += part["row_count"]
        where = self.spark, self.folder
        return {
            kind: Parts(*where, schema, tuple(sorted(paths[kind])), counts[kind]) for kind, schema in schemas.items()
        }


def map_tasks(
    spark: SparkSession, tasks: Sequence[Task], work: Callable[[Task], Iterable[pa.Table]], schema: pa.Schema
) -> DataFrame:
    """A DataFrame of rows of `schema` that picklable work makes of picklable tasks, each of which is one Spark task."""
    if not tasks:
        return spark.createDataFrame(schema.empty_table(), format_sql_schema(schema))
    packed = [pickle.dumps(task) for task in tasks]
    number = _newest[0] + 1
    _newest[:] = [number, 0, len(packed)]

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for place in batch["id"].to_pylist():
                for rows in work(pickle.loads(packed[place])):  # noqa: S301 - our own, of this job
                    yield from rows.cast(schema).to_batches()
                _count_task(number)

    return spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(run, format_sql_schema(schema))


def _count_task(number: int) -> None:
    """By name in a pickled kernel: there `_newest` itself would be a copy."""
    _newest[1] += number == _newest[0]  # of stages beside each other the newest counts


def map_groups(
    frame: DataFrame, by: Sequence[str], count: int, work: Callable[[pa.Table], Iterable[pa.Table]], schema: pa.Schema
) -> DataFrame:
    """A DataFrame of rows of `schema` that picklable work makes of `count` buckets of rows; rows alike in `by` are together."""

    def run(rows: pa.Table) -> pa.Table:
        return pa.concat_tables([schema.empty_table(), *work(rows.drop_columns([_BUCKET]))])

    bucket = F.pmod(F.xxhash64(*by), F.lit(count)).alias(_BUCKET)
    return frame.select("*", bucket).groupBy(_BUCKET).applyInArrow(run, format_sql_schema(schema))


def count_tasks() -> tuple[int, int]:
    """Counts the tasks done and the tasks in all that this process's engine works on."""
    return count_engine_tasks() or (_newest[1], _newest[2])


def run_values(
    spark: SparkSession, tasks: Sequence[Task], work: Callable[[Task], Iterable[Result]]
) -> Iterator[Result]:
    """Runs picklable work on every task and hands its values, few, to the driver, in no certain order."""

    def run(task: Task) -> Iterator[pa.Table]:
        for value in work(task):
            yield pa.table({"value": pa.array([pack_value(value)], pa.binary())})

    packed = map_tasks(spark, tasks, run, pa.schema([("value", pa.binary())])).toArrow()
    return (unpack_value(value.as_py()) for value in packed["value"])


def pack_value(value: object) -> bytes:
    return zlib.compress(pickle.dumps(value), level=1)  # histograms are zeros for the most part


def unpack_value(packed: bytes) -> Any:  # noqa: ANN401 - whatever was packed
    return pickle.loads(zlib.decompress(packed))  # noqa: S301 - made by our own tasks


def then(first: Callable[[Any], Any], second: Callable[[Any], Any], task: Any) -> Any:  # noqa: ANN401
    return second(first(task))


def _write_pieces(folder: Folder, pieces: Pieces) -> Iterator[pa.Table]:
    for kind, rows in pieces:
        if not rows.num_rows:
            continue
        try:
            row = {"kind": kind, "path": write_part(folder, kind, rows), "row_count": rows.num_rows}
        except OSError as error:
            row = {"kind": _NOT_WRITTEN, "path": str(error), "row_count": 0}
        yield pa.Table.from_pylist([row], schema=_PART)


_TASKS_PER_CORE = 3


def deal_tasks(
    spark: SparkSession, pieces: Sequence[Piece], cost_of: Callable[[Piece], int]
) -> list[tuple[Piece, ...]]:
    """Deals pieces of work out to tasks of neighbours, see `deal`, as many as keep every core busy to the end."""
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
