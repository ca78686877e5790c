"""Spark data source `kafka_key_counts`: what each key got, per segment file and window.

Rows are those of `PACKED_SCHEMA`. It reads the files that `kafka_record_batches` reads, with the same plan, and every
record in them: once. Keys leave the Python worker as ids, hashes, and answers of strategies; in mode `counts_only` as sums
over keys alone.

Options: `plan` (from `format_plan`), `spark_partitions`, those of `record_options`, `max_distinct_keys` and `questions`
(from `format_questions`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.sources.records.arrow_source import ArrowSource
from pipeline.sources.records.key_questions import parse_questions
from pipeline.sources.records.key_rows import KeyRowMaker
from pipeline.sources.records.key_scan import KeyScanSettings, iter_window_keys
from pipeline.sources.records.packed_keys import PACKED_SCHEMA, pack_rows
from pipeline.sources.records.record_options import read_record_options
from pipeline.sources.records.segment_reader import SegmentReader

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa

    from pipeline.sources.files.segment_plan import SegmentRead


SOURCE_NAME = "kafka_key_counts"


def make_row_maker(options: Mapping[str, str]) -> KeyRowMaker:
    """What the options say, with the secret taken up: on the driver.

    Raises:
        ConfigError: There is no secret.
    """
    told = read_record_options(options)
    scan = told.scan
    return KeyRowMaker(
        settings=KeyScanSettings(
            as_of_ms=scan.as_of_ms,
            span=scan.span,
            window_ms=scan.window_ms,
            max_distinct_keys=int(options["max_distinct_keys"]),
        ),
        secret=told.secret,
        questions=parse_questions(options["questions"]),
        clear_topics=told.clear_topics,
    )


class KeyCountReader(SegmentReader):
    """Scans the plan's segments in Python workers."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self._maker = make_row_maker(options)

    def read_segment(self, read: SegmentRead) -> Iterator[pa.RecordBatch]:
        """Yields the rows of each window."""
        for found in iter_window_keys(read, self._maker.settings):
            yield from pack_rows(self._maker.make_rows(read, found))


class KeyCountSource(ArrowSource):
    """The data source as Spark knows it."""

    source_name = SOURCE_NAME
    rows = PACKED_SCHEMA
    reader_type = KeyCountReader
