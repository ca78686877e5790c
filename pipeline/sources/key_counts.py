"""Spark data source `kafka_key_counts`: what each key got, per segment file and window.

Rows are those of `PACKED_SCHEMA`. It reads the files that `kafka_record_batches` reads, with the same plan, and every record in them: once. Keys leave the
Python worker as ids, hashes, and answers of strategies; in mode `counts_only` as sums over keys alone.

Options: `plan` (from `format_plan`), `as_of_ms`, `start_ms`, `end_ms`, `window_ms`, `max_distinct_keys`, `mode`,
`questions` (from `format_questions`), `clear_topics` (JSON list), `spark_partitions`, and `secret_path` or the name of an
environment variable, `secret_variable`. The secret itself is no option: options are shown in Spark's plans. The reader
takes it up on the driver, and carries it to the executors among its pickled fields.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from pipeline.environment import environment_secret
from pipeline.model.window import TimeWindow
from pipeline.sources.arrow_source import ArrowSource
from pipeline.sources.key_questions import parse_questions
from pipeline.sources.key_rows import KeyRowMaker
from pipeline.sources.key_scan import KeyScanSettings, iter_window_keys
from pipeline.sources.key_secret import read_secret
from pipeline.sources.packed_keys import PACKED_SCHEMA, pack_rows
from pipeline.sources.record_batches import TARGET_BYTES, SegmentGroup
from pipeline.sources.segment_plan import pack, parse_plan

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa


SOURCE_NAME = "kafka_key_counts"
COUNTS_ONLY = "counts_only"


def make_row_maker(options: Mapping[str, str]) -> KeyRowMaker:
    """What the options say, with the secret taken up: on the driver.

    Raises:
        ConfigError: There is no secret.
    """
    secret = None
    if options["mode"] != COUNTS_ONLY:
        secret = read_secret(Path(options["secret_path"]), environment_secret(options.get("secret_variable")))
    return KeyRowMaker(
        settings=KeyScanSettings(
            as_of_ms=int(options["as_of_ms"]),
            span=TimeWindow(int(options["start_ms"]), int(options["end_ms"])),
            window_ms=int(options["window_ms"]),
            max_distinct_keys=int(options["max_distinct_keys"]),
        ),
        secret=secret,
        questions=parse_questions(options["questions"]),
        clear_topics=frozenset(json.loads(options["clear_topics"])),
    )


class KeyCountReader(DataSourceReader):
    """Scans the plan's segments in Python workers."""

    def __init__(self, options: dict[str, str]) -> None:
        self._plan = options["plan"]
        self._spark_partitions = int(options["spark_partitions"])
        self._maker = make_row_maker(options)

    def partitions(self) -> list[InputPartition]:
        """Groups the segments into Spark partitions."""
        groups = pack(parse_plan(self._plan), TARGET_BYTES, self._spark_partitions)
        return [SegmentGroup(group) for group in groups] or [SegmentGroup(())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yields the rows of each segment and window."""
        assert isinstance(partition, SegmentGroup)  # noqa: S101  (narrows Spark's type)
        for read in partition.reads:
            for found in iter_window_keys(read, self._maker.settings):
                yield from pack_rows(self._maker.make_rows(read, found))


class KeyCountSource(ArrowSource):
    """The data source as Spark knows it."""

    source_name = SOURCE_NAME
    rows = PACKED_SCHEMA
    reader_type = KeyCountReader
