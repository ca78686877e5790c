"""Timestamps no calendar holds, among sound ones: all of the cluster is ingested, and the batches keep their place in the log."""

from __future__ import annotations

import pytest

from pipeline.jobs import ingest
from pipeline.storage.rows import load_rows
from pipeline.tables import TABLES
from tests.batches import make_batch, make_records
from tests.spark.capture_runs import plan, stored

TOPIC = "times"
SOUND = "codec-gzip"  # some 50 batches a minute
BEYOND = (2**62, -(2**62), 2**63 - 1, -5, 253_402_300_800_000)


def write_log(folder, start_ms):
    """A batch of three records for each timestamp, extreme ones between sound ones of the same minute."""
    log = folder / "brokers/0" / f"{TOPIC}-0"
    log.mkdir(parents=True)
    stamps = [stamp for index, beyond in enumerate(BEYOND) for stamp in (start_ms + index, beyond)] + [start_ms + 50]
    batches = []
    for index, stamp in enumerate(stamps):
        records = make_records(3, base_offset=3 * index, start_ms=start_ms, key=b"k%d")
        base_ms = start_ms if abs(stamp - start_ms) < 10**9 else stamp
        batches.append(make_batch(records, max_timestamp_ms=stamp, base_timestamp_ms=base_ms))
    (log / f"{0:020d}.log").write_bytes(b"".join(batches))
    (log / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n")
    (log / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    return stamps


@pytest.mark.parametrize("few_rows", [10**6, 50], ids=["few rows", "many rows"])
def test_a_producers_timestamps_stop_no_ingest(spark, capture, tmp_path, few_rows):
    part = capture.part(tmp_path / "capture", topics=(SOUND,))
    context = plan(part.write_config(tmp_path, topics=(SOUND, TOPIC), sources=("log_directories",)), part.span(3, 4))
    stamps = write_log(part.folder, context.span.start_ms)

    ingest.run(spark, context, few_rows=few_rows)

    batches = [row for row in stored(context.warehouse, "silver.record_batches") if row["topic"] == TOPIC]
    assert sum(row["record_count"] for row in batches) == 3 * len(stamps)
    assert sum(row["is_time_outlier"] for row in batches) == len(BEYOND)
    assert [row["max_timestamp"] is None for row in sorted(batches, key=lambda row: row["base_offset"])] == [
        stamp in BEYOND for stamp in stamps
    ]
    for table in TABLES:
        load_rows(context.warehouse, table).to_pylist()  # every instant is one that Python holds
