"""Arrivals read from made segments without Spark: scan, chunks, rows, sessions; used by unit tests and properties."""

import pyarrow as pa

from pipeline.calibration.arrival_rows import CHUNK_SCHEMA, GROUP, ROW_SCHEMA, join_chunks
from pipeline.calibration.session_traffic import iter_sessions
from pipeline.codec.records.key_ids import KeySecret
from pipeline.model.window import TimeWindow
from pipeline.sources.files.segment_plan import SegmentRead
from pipeline.sources.records.batch_rows import LeaderEpochs
from pipeline.sources.records.pieces import Kind
from pipeline.sources.records.record_scan import scan_file
from pipeline.sources.records.scan_settings import ScanSettings
from tests.batches import START_MS

HOUR_MS = 3_600_000
WINDOW_START_MS = START_MS - START_MS % HOUR_MS
SECRET = KeySecret(bytes(range(32)))


def settings_for(*, secret=SECRET, span=None, window_ms=HOUR_MS, slices=()):
    return ScanSettings(
        as_of_ms=START_MS + HOUR_MS,
        span=span or TimeWindow(WINDOW_START_MS, WINDOW_START_MS + HOUR_MS),
        window_ms=window_ms,
        secret=secret,
        slices=slices,
        reads_arrivals=True,
    )


def write_log(folder, partition, batches, *, topic="orders", base_offset=0):
    """A segment file of the batches, and the read of it."""
    path = folder / f"{topic}-{partition}" / f"{base_offset:020d}.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(batches))
    return SegmentRead(
        path=str(path),
        size_bytes=path.stat().st_size,
        broker_id=1,
        log_directory=str(folder),
        topic=topic,
        topic_id="",
        partition=partition,
        base_offset=base_offset,
        next_base_offset=-1,
        high_watermark=-1,
        is_active=True,
    )


def read_chunks(reads, settings=None):
    settings = settings or settings_for()
    pieces = (piece for read in reads for piece in scan_file(read, settings, LeaderEpochs({}, {})))
    return [batch for kind, rows in pieces if kind is Kind.ARRIVALS for batch in rows.to_batches() if len(batch)]


def sort_chunks(chunks):
    """As Spark sorts them."""
    table = pa.Table.from_batches(chunks, CHUNK_SCHEMA)
    return table.sort_by([(name, "ascending") for name in (*GROUP, "first_ms")])


def join(chunks, *, is_named=True, chunk_rows=3, **sizes):
    """Rows of all chunks, with instants as the table has them."""
    batches = sort_chunks(chunks).to_batches(max_chunksize=chunk_rows)
    rows = pa.Table.from_batches(join_chunks(batches, is_named=is_named, **sizes), ROW_SCHEMA)
    minute_start = rows["minute_start_ms"].cast(pa.timestamp("ms", tz="UTC"))
    rate = pa.array([1.0] * rows.num_rows, pa.float64())
    return rows.append_column("minute_start", minute_start).append_column("sampling_rate", rate)


def read_sessions(reads, settings=None):
    settings = settings or settings_for()
    return list(iter_sessions(join(read_chunks(reads, settings), is_named=settings.secret is not None)))
