"""Whole files scanned by the product, and compared with the plain reader of the tests."""

from __future__ import annotations

import numpy as np

from pipeline.codec.log.segment import join_headers
from pipeline.codec.records.record_reader import iter_record_scans
from pipeline.codec.records.record_scan import RecordScan
from tests.oracles.segment_reader import read_plainly


def scan_records(path, **options) -> RecordScan:
    """All records of a file, its chunks joined."""
    scans = list(iter_record_scans(path, **options))
    rows = [scan.rows.copy() for scan in scans]
    for first, records in zip(np.cumsum([0, *(len(scan.headers) for scan in scans)]), rows, strict=False):
        records["batch_index"] += first
    return RecordScan(
        headers=join_headers(str(path), [scan.headers for scan in scans]),
        rows=np.concatenate(rows),
        key_offsets=np.cumsum([0, *(length for scan in scans for length in np.diff(scan.key_offsets))]),
        key_data=np.concatenate([scan.key_data for scan in scans]),
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
