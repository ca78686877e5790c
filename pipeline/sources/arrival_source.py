"""Spark data source `kafka_arrivals`: recorded arrivals, packed, per segment chunk, producer session, minute and window.

It reads the files that `kafka_record_batches` reads, with the same plan, and every record in them. Keys leave the Python
worker as numbers of their ids, if at all.

Options: `plan` (from `format_plan`), `spark_partitions` and `arrivals` (from `format_settings`). The secret is no option:
options are shown in Spark's plans. The reader takes it up on the driver, and carries it to the executors among its pickled
fields.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from pipeline.calibration.arrival_rows import CHUNK_SCHEMA
from pipeline.codec.arrival_layout import COUNTS
from pipeline.environment import environment_secret
from pipeline.model.window import TimeWindow
from pipeline.sources.arrival_scan import ArrivalScanSettings, iter_arrivals
from pipeline.sources.key_scan import KeyScanSettings
from pipeline.sources.key_secret import read_secret
from pipeline.sources.record_batches import TARGET_BYTES, SegmentGroup
from pipeline.sources.segment_plan import pack, parse_plan

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray
    from pyspark.sql.types import StructType

    from pipeline.codec.arrivals import PackedArrivals
    from pipeline.runs import RunContext

SOURCE_NAME = "kafka_arrivals"
"""Rows are those of `CHUNK_SCHEMA`."""
OPTION = "arrivals"
PSEUDONYMOUS = "pseudonymous"
SQL_TYPES = {pa.int64(): "bigint", pa.string(): "string", pa.binary(): "binary"}
_TIMESTAMP_TYPES = np.array(["CreateTime", "LogAppendTime"])


class Partitioned(Protocol):
    """Where arrivals were read: a segment file, or a fetched partition."""

    @property
    def topic(self) -> str:
        """Topic."""

    @property
    def topic_id(self) -> str:
        """Topic id, or ""."""

    @property
    def partition(self) -> int:
        """Partition."""


def format_settings(run: RunContext, slices: Sequence[TimeWindow] = ()) -> str:
    """What a run's scans for arrivals are told, as an option; without the secret.

    Args:
        run: Says which windows, and what is stored about keys.
        slices: Of a sampled source the times that are read.
    """
    keys = run.config.keys
    return json.dumps(
        {
            "as_of_ms": run.as_of_ms,
            "start_ms": run.span.start_ms,
            "end_ms": run.span.end_ms,
            "window_ms": run.config.window_ms,
            "is_named": keys.mode == PSEUDONYMOUS,
            "secret_path": str(keys.secret),
            "secret_variable": keys.secret_variable,
            "clear_topics": keys.clear_topics.get(run.cluster_name, ()),
            "slices": [(piece.start_ms, piece.end_ms) for piece in slices],
        }
    )


def read_settings(text: str) -> ArrivalScanSettings:
    """What the option says, with the secret taken up: on the driver.

    Raises:
        ConfigError: There is no secret.
    """
    told = json.loads(text)
    secret = None
    if told["is_named"]:
        secret = read_secret(Path(told["secret_path"]), environment_secret(told["secret_variable"]))
    return ArrivalScanSettings(
        scan=KeyScanSettings(
            as_of_ms=told["as_of_ms"],
            span=TimeWindow(told["start_ms"], told["end_ms"]),
            window_ms=told["window_ms"],
            max_distinct_keys=2,  # none are counted
        ),
        secret=secret,
        clear_topics=frozenset(told["clear_topics"]),
        slices=tuple(TimeWindow(*piece) for piece in told["slices"]),
    )


def make_chunk(read: Partitioned, packed: PackedArrivals) -> pa.RecordBatch:
    """Rows of `CHUNK_SCHEMA`, one per group.

    Args:
        read: Where they were read.
        packed: At least one group.
    """
    groups = packed.groups
    ends = np.concatenate([[0], np.cumsum(groups["record_count"])])
    columns: dict[str, Any] = {
        "topic": pa.repeat(pa.scalar(read.topic, pa.string()), len(groups)),
        "topic_id": pa.repeat(pa.scalar(read.topic_id, pa.string()), len(groups)),
        "partition": np.full(len(groups), read.partition, np.int64),
        "timestamp_type": _TIMESTAMP_TYPES[groups["is_append_time"]],
        "at_ms": _binaries(ends, packed.at_ms),
        "body_bytes": _binaries(ends, packed.body_bytes),
        "key_number": _binaries(ends if packed.key_number is not None else 0 * ends, packed.key_number),
    }
    numbers = ("window_start_ms", "minute_start_ms", "producer_id", "producer_epoch", "record_count", "first_ms")
    columns |= {name: np.ascontiguousarray(groups[name]) for name in (*numbers, *COUNTS)}
    return pa.RecordBatch.from_arrays([pa.array(columns[f.name], f.type) for f in CHUNK_SCHEMA], schema=CHUNK_SCHEMA)


def _binaries(ends: NDArray[np.int64], values: NDArray[Any] | None) -> pa.Array:
    held = np.zeros(0, np.int64) if values is None else np.ascontiguousarray(values)
    offsets = (ends * held.itemsize).astype(np.int32)
    return pa.Array.from_buffers(pa.binary(), len(ends) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(held)])


class ArrivalReader(DataSourceReader):
    """Scans the plan's segments in Python workers."""

    def __init__(self, options: dict[str, str]) -> None:
        self._plan = options["plan"]
        self._spark_partitions = int(options["spark_partitions"])
        self._settings = read_settings(options[OPTION])

    def partitions(self) -> list[InputPartition]:
        """Groups the segments into Spark partitions."""
        groups = pack(parse_plan(self._plan), TARGET_BYTES, self._spark_partitions)
        return [SegmentGroup(group) for group in groups] or [SegmentGroup(())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yields the rows of each segment's chunks."""
        assert isinstance(partition, SegmentGroup)  # noqa: S101  (narrows Spark's type)
        for read in partition.reads:
            for packed in iter_arrivals(read, self._settings):
                yield make_chunk(read, packed)


class ArrivalSource(DataSource):
    """The data source as Spark knows it."""

    @classmethod
    def name(cls) -> str:
        """Name for `spark.read.format`."""
        return SOURCE_NAME

    def schema(self) -> str:
        """Spark SQL types of the rows."""
        return ", ".join(f"`{field.name}` {SQL_TYPES[field.type]}" for field in CHUNK_SCHEMA)

    def reader(self, schema: StructType) -> DataSourceReader:
        """The reader; the schema is always the whole one."""
        return ArrivalReader(self.options)
