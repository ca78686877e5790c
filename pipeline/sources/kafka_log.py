"""`kafka_log`: a data source of Spark that reads Kafka's log directories, or a tree of several, as they lie on a broker's disk.

    spark.dataSource.register(KafkaLog)
    spark.read.format("kafka_log").option("kind", "batches").load("/kafka-logs")
|| Of a partition's replicas the leader's is read, else the longest. Rows are `batches` (`window_start` by the option `window_ms`),
`segments`, or `problems` that could not be read. No record is decoded; a file may grow while it is read.
"""

import time
from collections.abc import Iterator
from dataclasses import asdict

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from pipeline.errors import ConfigError, NothingUsableError
from pipeline.model.number_text import escape_hidden
from pipeline.model.window import HOUR_MS, LATEST_MS, TimeWindow
from pipeline.sources.files.cluster_state import read_cluster_history, read_replica_states
from pipeline.sources.files.log_directories import discover_logs
from pipeline.sources.files.segment_plan import choose_replicas, plan_reads
from pipeline.sources.records.batch_rows import BATCH_SCHEMA, LeaderEpochs
from pipeline.sources.records.pieces import SUMMARY_SCHEMA, Kind
from pipeline.sources.records.record_scan import SegmentTask, plan_segment_tasks
from pipeline.sources.records.scan_settings import ScanSettings

_OF_LOG = ("path", "topic", "topic_id", "partition")
_SEGMENT = (
    *(*_OF_LOG, "first_offset", "last_offset", "min_timestamp_ms", "max_timestamp_ms", "batch_count", "record_count"),
    *("control_batch_count", "missing_offset_count", "producer_id_count", "crc_error_count", "magic", "codecs"),
)
_PROBLEM = (*_OF_LOG, "position", "reason", "severity")
_LEAST_TASKS = 8  # a reader is not told how many tasks run at a time
_KINDS: dict[str, tuple[Kind, str, pa.Schema]] = {
    "batches": (Kind.BATCHES, "", BATCH_SCHEMA),
    "segments": (Kind.SUMMARIES, "segment", pa.schema(map(SUMMARY_SCHEMA.field, _SEGMENT))),
    "problems": (Kind.SUMMARIES, "problem", pa.schema(map(SUMMARY_SCHEMA.field, _PROBLEM))),
}
"""By the option `kind`: which pieces of a scan, which of their rows, and the columns."""


class KafkaLog(DataSource):
    """Log directories as a DataFrame; options `path`, `kind` (`batches`), and `window_ms` of the batches' windows (an hour)."""

    @classmethod
    def name(cls) -> str:
        return "kafka_log"

    def schema(self) -> StructType:
        return from_arrow_schema(self._kind[2])  # of a text Sail takes instants without their zone

    def reader(self, schema: StructType) -> DataSourceReader:
        path = self.options.get("path")
        if not path:
            raise ConfigError("kafka_log needs a path: load('/kafka-logs')")
        try:
            window_ms = int(self.options.get("window_ms", HOUR_MS))
        except ValueError as error:
            raise ConfigError(f"window_ms {self.options['window_ms']!r}; expected whole milliseconds") from error
        if window_ms < 1:
            raise ConfigError(f"window_ms {window_ms}; expected 1 or more")
        return _Reader(path, self._kind, window_ms)

    @property
    def _kind(self) -> tuple[Kind, str, pa.Schema]:
        name = self.options.get("kind", "batches")
        if name not in _KINDS:
            raise ConfigError(f"kind {name!r} of kafka_log; expected {', '.join(_KINDS)}")
        return _KINDS[name]


class _Reader(DataSourceReader):
    def __init__(self, path: str, kind: tuple[Kind, str, pa.Schema], window_ms: int) -> None:
        self._path, self._kind, self._window_ms = path, kind, window_ms

    def partitions(self) -> list[InputPartition]:
        tree = discover_logs([self._path])
        if not tree.directories:
            reasons = "; ".join(f"{problem.path}: {problem.reason}" for problem in tree.problems)
            raise NothingUsableError(reasons or f"{self._path}: no log directory")
        history, problems = read_cluster_history(tree)
        as_of_ms = time.time_ns() // 1_000_000
        settings = ScanSettings(as_of_ms=as_of_ms, span=TimeWindow(0, LATEST_MS), window_ms=self._window_ms)
        leaders = LeaderEpochs.of(history, tree, read_replica_states(tree)[0])
        reads = plan_reads(choose_replicas(tree, history.state_at(as_of_ms).leaders))
        tasks = plan_segment_tasks(reads, settings, leaders, _LEAST_TASKS)
        refused = [
            asdict(one) | {"path": escape_hidden(one.path), "reason": escape_hidden(one.reason)}
            for one in (*tree.problems, *problems)
        ]
        return [InputPartition(value) for value in (*tasks, refused)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        kind, row_kind, schema = self._kind
        if not isinstance(partition.value, SegmentTask):
            if row_kind == "problem":
                yield from pa.Table.from_pylist(partition.value, schema=schema).to_batches()
            return
        for piece in partition.value.run():
            if piece.kind is kind:
                wanted = piece.rows.filter(pc.field("row_kind") == row_kind) if row_kind else piece.rows
                yield from wanted.select(schema.names).to_batches()
