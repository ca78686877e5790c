# ruff: noqa: INP001 - a build step of the image, not a package
"""Compiles the kernels into `NUMBA_CACHE_DIR`, archives Spark's classes, and proves that Spark and Delta start.

Run once while the image is built, without a network and as the user the containers run as.
"""

from __future__ import annotations

import importlib
import pkgutil
import struct
import tempfile
from pathlib import Path

import google_crc32c

import pipeline.codec
import pipeline.measures
from pipeline.codec.log.segment import SMALL_FILE_BYTES, scan_headers
from pipeline.config.pipeline_config import Spark
from pipeline.storage.class_archive import make_archive
from pipeline.storage.session import create_session, stop_session

RECORD = bytes.fromhex("0e 00 00 00 01 02 76 00")  # length 7, no key, the value b"v", no headers


def format_batch(base_offset: int) -> bytes:
    """A record batch of magic 2 with one uncompressed record.

    References:
        Kafka `DefaultRecordBatch`: the checksum covers everything from the attributes on.
    """
    checked = struct.pack(">hiqqqhii", 0, 0, 1_700_000_000_000, 1_700_000_000_000, -1, -1, -1, 1) + RECORD
    body = struct.pack(">ibI", 0, 2, google_crc32c.value(checked)) + checked
    return struct.pack(">qi", base_offset, len(body)) + body


def compile_kernels(folder: Path) -> None:
    """Imports every module that may hold a kernel, then scans a file above the size from which kernels are used."""
    for room in (pipeline.codec, pipeline.measures):
        for module in pkgutil.walk_packages(room.__path__, f"{room.__name__}."):
            importlib.import_module(module.name)
    batch_count = SMALL_FILE_BYTES // len(format_batch(0)) + 1
    segment = folder / "00000000000000000000.log"
    segment.write_bytes(b"".join(map(format_batch, range(batch_count))))
    scan = scan_headers(segment)
    if len(scan.rows) != batch_count or scan.problems:
        raise SystemExit(f"{len(scan.rows)} of {batch_count} batches read; problems: {scan.problems[:3]}")


def write_delta(folder: Path) -> None:
    """Writes and reads one Delta table with the project's own session."""
    spark = create_session(Spark(master="local[1]", driver_memory="512m"))
    try:
        spark.range(3).write.format("delta").save(str(folder / "table"))
        row_count = spark.read.format("delta").load(str(folder / "table")).count()
    finally:
        stop_session(spark)
    if row_count != 3:
        raise SystemExit(f"3 rows written, {row_count} read")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        compile_kernels(Path(name))
        write_delta(Path(name))
    make_archive()
