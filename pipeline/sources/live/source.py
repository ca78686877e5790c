"""Spark data source `kafka_live_batches`: the record batches of offset ranges, fetched from brokers.

One Spark partition holds some ranges; its task connects once and reads them one after another, so no more than one
range's headers are in memory. Rows of kind `batch` have the columns of `kafka_record_batches`; `problem` says what was
wrong, its `position` being an offset; `range` says how far a range was read (`base_offset` to `last_offset`, exclusive)
and, in `reason`, why no farther. Rows of kind `key`, where asked for, are those of `kafka_key_counts`, made of the same
replies: records are fetched once. So are rows of kind `arrival`, those of `kafka_arrivals`.

Options: `plan` (from `format_fetches`), `source` (the configured source as JSON: secrets by the names of their
variables), `as_of_ms`, `spark_partitions`, and those of `key_frames.key_options` where keys are to be counted,
of `arrival_frames.arrival_options` where arrivals are to be read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from pipeline.calibration.arrival_rows import CHUNK_SCHEMA
from pipeline.config.live_source import LiveCluster
from pipeline.errors import SourceUnreachableError
from pipeline.sources.live.connection import connect
from pipeline.sources.live.plan import FetchRead, pack_fetches, parse_fetches
from pipeline.sources.live.range_scan import (
    SMALL_RANGE_BYTES,
    ScannedRange,
    iter_range_keys,
    iter_range_scans,
    scan_range,
    time_range_batches,
)
from pipeline.sources.records.arrival_scan import pack_on_the_way
from pipeline.sources.records.arrival_source import SLICES, make_chunk, read_settings
from pipeline.sources.records.arrow_source import ArrowSource
from pipeline.sources.records.key_counts import make_row_maker
from pipeline.sources.records.packed_keys import PACKED_SCHEMA, pack_rows
from pipeline.sources.records.record_batches import ARROW_SCHEMA, batch_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pipeline.codec.log.scans import HeaderScan
    from pipeline.codec.records.arrivals import PackedArrivals
    from pipeline.sources.records.arrival_scan import ArrivalScanSettings
    from pipeline.sources.records.key_rows import KeyRowMaker
    from pipeline.sources.records.segment_scan import ScannedSegment

SOURCE_NAME = "kafka_live_batches"
BATCH, PROBLEM, RANGE, KEY, ARRIVAL = "batch", "problem", "range", "key", "arrival"
_OWN_FIELDS = pa.schema(
    [
        ("row_kind", pa.string()),
        *ARROW_SCHEMA,
        ("reason", pa.string()),
        ("severity", pa.string()),
        ("first_bytes_hex", pa.string()),
    ]
)
_FIELDS = {field.name: field for field in (*CHUNK_SCHEMA, *PACKED_SCHEMA, *_OWN_FIELDS)}
SCHEMA = pa.schema(list(_FIELDS.values()))


@dataclass
class RangeGroup(InputPartition):
    """The ranges one Spark task reads."""

    reads: tuple[FetchRead, ...]

    def __post_init__(self) -> None:
        super().__init__(self.reads[0].path if self.reads else None)


class LiveBatchReader(DataSourceReader):
    """Plans on the driver, connects and reads in Python workers."""

    def __init__(self, options: dict[str, str]) -> None:
        self._options = dict(options)
        self._source = LiveCluster.model_validate_json(options["source"])
        # Taken up where the plan is made and pickled along: workers need no variables, and no option holds a secret.
        self._secrets = self._source.client.read_secrets()
        self._keys = make_row_maker(options) if "questions" in options else None
        self._arrivals = read_settings(options) if SLICES in options else None

    def partitions(self) -> list[InputPartition]:
        """Groups the ranges into Spark partitions."""
        groups = pack_fetches(parse_fetches(self._options["plan"]), int(self._options.get("spark_partitions", "2")))
        return [RangeGroup(group) for group in groups] or [RangeGroup(())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Fetches each range; what could not be read whole has a `range` row that says so."""
        assert isinstance(partition, RangeGroup)  # noqa: S101  (narrows Spark's type)
        if not partition.reads:
            return
        as_of_ms = int(self._options["as_of_ms"])
        try:
            connection = connect(self._source, self._secrets)
        except SourceUnreachableError as error:
            yield from (_unread(read, str(error)) for read in partition.reads)
            return
        given_up: set[int] = set()
        try:
            for read in partition.reads:
                replies: list[tuple[bytes, HeaderScan]] = []
                reads_records = self._keys is not None or self._arrivals is not None
                keep = (lambda *reply, kept=replies: kept.append(reply)) if reads_records else None
                found = scan_range(connection, read, as_of_ms, given_up=given_up, on_reply=keep)
                yield from _rows(read, found)
                if replies:
                    yield from _record_rows(read, found.scanned, replies, self._keys, self._arrivals)
        finally:
            connection.close()


class LiveBatchSource(ArrowSource):
    """The data source as Spark knows it."""

    source_name = SOURCE_NAME
    rows = SCHEMA
    reader_type = LiveBatchReader


def _rows(read: FetchRead, found: ScannedRange) -> Iterator[pa.RecordBatch]:
    scanned = found.scanned
    batches = batch_rows(
        scanned,
        scanned.is_countable,
        broker_id=found.leader_id,
        topic=read.topic,
        topic_id=read.topic_id,
        partition=read.partition,
        segment_base_offset=read.start_offset,
    )
    if batches.num_rows:
        yield _widen(batches, BATCH)
    said = _said(read)
    rows: list[dict[str, Any]] = [
        {
            **said,
            "row_kind": PROBLEM,
            "position": problem.position,
            "reason": problem.reason,
            "severity": problem.severity,
            "first_bytes_hex": problem.first_bytes.hex(),
        }
        for problem in scanned.problems
    ]
    rows += [
        {
            **said,
            "row_kind": RANGE,
            "base_offset": read.start_offset,
            "last_offset": found.next_offset,
            "record_count": found.retry_count,
            "reason": reason or None,
        }
        for reason in (found.lost or ("",))
    ]
    yield pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


def _record_rows(
    read: FetchRead,
    scanned: ScannedSegment,
    replies: list[tuple[bytes, HeaderScan]],
    keys: KeyRowMaker | None,
    arrivals: ArrivalScanSettings | None,
) -> Iterator[pa.RecordBatch]:
    """What was counted of keys, then the arrivals, both of records that are decoded once."""
    is_small = read.size_bytes < SMALL_RANGE_BYTES
    scans = iter_range_scans(replies, is_small=is_small)
    packed: list[PackedArrivals] = []
    if arrivals is not None:
        times = time_range_batches(scanned, replies, arrivals)
        scans = pack_on_the_way(scans, times, arrivals.make_packer(read.topic, is_small=is_small), packed)
    if keys is not None:
        for found in iter_range_keys(scanned, scans, keys.settings, is_small=is_small):
            for rows in pack_rows(keys.make_rows(read, found)):
                yield _widen(rows, KEY)
    for _ in scans:  # what nobody asked for keys
        continue
    for chunk in packed:
        yield _widen(make_chunk(read, chunk), ARRIVAL)


def _said(read: FetchRead) -> dict[str, Any]:
    return {"topic": read.topic, "topic_id": read.topic_id, "partition": read.partition}


def _unread(read: FetchRead, reason: str) -> pa.RecordBatch:
    row = {**_said(read), "row_kind": RANGE, "base_offset": read.start_offset, "last_offset": read.start_offset}
    return pa.RecordBatch.from_pylist([{**row, "reason": reason}], schema=SCHEMA)


def _widen(rows: pa.RecordBatch, row_kind: str) -> pa.RecordBatch:
    known = {"row_kind": pa.repeat(pa.scalar(row_kind), rows.num_rows)}
    known |= {field.name: rows.column(field.name) for field in rows.schema}
    arrays = [known.get(field.name, pa.nulls(rows.num_rows, field.type)) for field in SCHEMA]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)
