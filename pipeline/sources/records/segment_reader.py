"""What readers of segment files have in common: one Spark partition holds one or more whole segments.

About 128 MiB of them: a header scan reads a gigabyte in well under a second, so cutting one file further gains nothing.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from pipeline.sources.files.segment_plan import SegmentRead, pack, parse_plan

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

TARGET_BYTES = 128 << 20


@dataclass
class SegmentGroup(InputPartition):
    """The segments one Spark task reads."""

    reads: tuple[SegmentRead, ...]

    def __post_init__(self) -> None:
        super().__init__(self.reads[0].path if self.reads else None)


class SegmentReader(DataSourceReader):
    """Reads segments in Python workers.

    Args:
        options: `plan` (from `format_plan`), `spark_partitions`, and what the reader asks for besides.
    """

    def __init__(self, options: dict[str, str]) -> None:
        self._options = dict(options)

    def choose_reads(self) -> Sequence[SegmentRead]:
        """The segments to read: those of the plan."""
        return parse_plan(self._options["plan"])

    def partitions(self) -> list[InputPartition]:
        """Groups the segments into Spark partitions."""
        groups = pack(self.choose_reads(), TARGET_BYTES, int(self._options.get("spark_partitions", "2")))
        return [SegmentGroup(group) for group in groups] or [SegmentGroup(())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yields the rows of each segment."""
        assert isinstance(partition, SegmentGroup)  # noqa: S101  (narrows Spark's type)
        for read in partition.reads:
            yield from self.read_segment(read)

    @abstractmethod
    def read_segment(self, read: SegmentRead) -> Iterator[pa.RecordBatch]:
        """Yields the rows of one segment; none of one that cannot be read."""
