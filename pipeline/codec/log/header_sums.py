"""Totals over the batch headers of a scan: in NumPy for small scans, in one pass of a kernel for large ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pipeline.model.log import Codec

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pipeline.codec.log.scans import HeaderScan

LARGE_ROW_COUNT = 100_000
"""Rows from which the kernel serves: a scan of so many batches has imported Numba already."""

DAMAGED, CRC_ERRORS, RECORDS, CONTROL, MISSING, MIN_TIMESTAMP, MAX_TIMESTAMP, MAGICS, CODECS, SUM_COUNT = range(10)
"""Places in the array of sums; magics and codecs are sets of bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeaderSums:
    """Totals; over usable batches where nothing else is said.

    Attributes:
        damaged_batch_count: Batches that cannot be used.
        crc_error_count: Those of them whose checksum does not match.
        record_count: Records, control records included.
        control_batch_count: Control batches.
        missing_offset_count: Offsets between batches that no batch covers.
        min_timestamp_ms: Smallest timestamp the headers tell (the first record's of each batch); None for none.
        max_timestamp_ms: Largest.
        magics: Formats of all batches, ascending.
        codecs: Names, sorted.
        producer_ids: Ascending, -1 left out.
    """

    damaged_batch_count: int
    crc_error_count: int
    record_count: int
    control_batch_count: int
    missing_offset_count: int
    min_timestamp_ms: int | None
    max_timestamp_ms: int | None
    magics: tuple[int, ...]
    codecs: tuple[str, ...]
    producer_ids: tuple[int, ...]


def sum_headers(scan: HeaderScan, *, large_row_count: int = LARGE_ROW_COUNT) -> HeaderSums:
    """Adds up the headers of a scan.

    Args:
        scan: Headers.
        large_row_count: Rows from which the kernel serves.

    Returns:
        The totals; the same either way.
    """
    if len(scan) >= large_row_count:
        from pipeline.codec.log.header_sum_kernel import sum_rows  # noqa: PLC0415 - Numba takes longer than a small file

        sums = np.zeros(SUM_COUNT, np.int64)
        changes = np.empty(len(scan), np.int64)
        producer_ids = _distinct(changes[: sum_rows(scan.rows, sums, changes)])
        return _name_sums(sums.tolist(), producer_ids)
    usable = scan.usable
    return _name_sums(_sum_in_numpy(scan, usable), _distinct(scan.rows["producer_id"][usable]))


def _sum_in_numpy(scan: HeaderScan, usable: NDArray[np.bool_]) -> list[int]:
    stamps, largest = scan.min_timestamp_ms[usable], scan.max_timestamp_ms[usable]
    stamps, largest = stamps[stamps >= 0], largest[largest >= 0]
    gaps = scan.base_offset[usable][1:] - scan.last_offset[usable][:-1] - 1
    sums = [0] * SUM_COUNT
    sums[DAMAGED] = int(np.count_nonzero(~usable))
    sums[CRC_ERRORS] = int(np.count_nonzero(~scan.crc_ok))
    sums[RECORDS] = int(scan.record_count[usable].sum(dtype=np.int64))
    sums[CONTROL] = int(np.count_nonzero(scan.is_control[usable]))
    sums[MISSING] = int(gaps[gaps > 0].sum())
    sums[MIN_TIMESTAMP] = int(stamps.min()) if len(stamps) else -1
    sums[MAX_TIMESTAMP] = int(largest.max()) if len(largest) else -1
    sums[MAGICS] = sum(1 << magic for magic in _distinct(scan.rows["magic"]))
    sums[CODECS] = sum(1 << codec for codec in _distinct(scan.codec[usable]))
    return sums


def _name_sums(sums: list[int], producer_ids: list[int]) -> HeaderSums:
    return HeaderSums(
        damaged_batch_count=sums[DAMAGED],
        crc_error_count=sums[CRC_ERRORS],
        record_count=sums[RECORDS],
        control_batch_count=sums[CONTROL],
        missing_offset_count=sums[MISSING],
        min_timestamp_ms=None if sums[MIN_TIMESTAMP] < 0 else sums[MIN_TIMESTAMP],
        max_timestamp_ms=None if sums[MAX_TIMESTAMP] < 0 else sums[MAX_TIMESTAMP],
        magics=tuple(magic for magic in range(3) if sums[MAGICS] >> magic & 1),
        codecs=tuple(sorted(codec.name.lower() for codec in Codec if sums[CODECS] >> codec & 1)),
        producer_ids=tuple(producer for producer in producer_ids if producer >= 0),
    )


def _distinct(values: NDArray[np.integer]) -> list[int]:
    """Sorted distinct values; `np.unique` would import `numpy.ma`, a quarter of the time a small file takes."""
    ordered = np.sort(values)
    is_first = np.ones(len(ordered), np.bool_)
    is_first[1:] = ordered[1:] != ordered[:-1]
    found: list[int] = ordered[is_first].tolist()
    return found
