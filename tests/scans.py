"""Whole files scanned by the product, and compared with the plain reader of the tests."""

from dataclasses import replace

import numpy as np

from pipeline.codec.log.problems import limit_problems
from pipeline.codec.log.segment import CHUNK_BYTES, scan_headers
from pipeline.codec.records.record_reader import iter_record_scans
from pipeline.codec.records.record_scan import RECORD_ROW, RecordScan
from tests.oracles.segment_reader import read_plainly


def scan_records(path, *, check_crc=True, chunk_bytes=CHUNK_BYTES) -> RecordScan:
    """All records of a file, its chunks joined."""
    headers = scan_headers(path, check_crc=check_crc, chunk_bytes=chunk_bytes)
    scans = list(iter_record_scans(path, headers, chunk_bytes=chunk_bytes))
    rows = [scan.rows.copy() for scan in scans]
    for first, records in zip(np.cumsum([0, *(len(scan.headers) for scan in scans)]), rows, strict=False):
        records["batch_index"] += first
    problems = [*headers.problems, *(problem for scan in scans for problem in scan.headers.problems)]
    return RecordScan(
        headers=replace(headers, problems=limit_problems(str(path), problems)),
        rows=np.concatenate([np.empty(0, RECORD_ROW), *rows]),
        key_offsets=np.cumsum([0, *(length for scan in scans for length in np.diff(scan.key_offsets))]),
        key_data=np.concatenate([np.empty(0, np.uint8), *(scan.key_data for scan in scans)]),
    )


def list_keys(scan) -> list[bytes | None]:
    """The key of each record."""
    return [None if length < 0 else key for length, key in zip(scan.key_length, scan.keys.to_pylist(), strict=True)]


def scan_and_compare(path, **options) -> RecordScan:
    """All records of a file, after a comparison of every field with what the plain reader finds."""
    scan = scan_records(path, **options)
    plain = read_plainly(path.read_bytes(), check_crc=options.get("check_crc", True))
    assert scan.headers.rows.tolist() == plain.header_rows
    assert scan.rows.tolist() == plain.record_rows
    assert list_keys(scan) == plain.keys
    return scan
