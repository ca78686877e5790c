"""Totals over the batch headers of a scan."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from pipeline.codec.log.scans import HeaderScan
from pipeline.model.log import Codec
from pipeline.model.segment_summary import HeaderSums


def sum_headers(scan: HeaderScan) -> HeaderSums:
    """Adds up the headers of a scan."""
    usable = scan.usable
    stamps, largest = scan.min_timestamp_ms[usable], scan.max_timestamp_ms[usable]
    gaps = scan.base_offset[usable][1:] - scan.last_offset[usable][:-1] - 1
    codecs = {codec.value: codec.name.lower() for codec in Codec}
    return HeaderSums(
        damaged_batch_count=int(np.count_nonzero(~usable)),
        crc_error_count=int(np.count_nonzero(~scan.crc_ok)),
        record_count=int(scan.record_count[usable].sum(dtype=np.int64)),
        control_batch_count=int(np.count_nonzero(scan.is_control[usable])),
        missing_offset_count=int(gaps[gaps > 0].sum()),
        min_timestamp_ms=_extreme(np.min, stamps),
        max_timestamp_ms=_extreme(np.max, largest),
        magics=tuple(_distinct(scan.rows["magic"])),
        codecs=tuple(sorted(codecs[codec] for codec in _distinct(scan.codec[usable]))),
        producer_ids=tuple(producer for producer in _distinct(scan.rows["producer_id"][usable]) if producer >= 0),
    )


def _extreme(choose: Callable[[NDArray[np.int64]], np.int64], stamps: NDArray[np.int64]) -> int | None:
    known = stamps[stamps >= 0]
    return int(choose(known)) if len(known) else None


def _distinct(values: NDArray[np.integer]) -> list[int]:
    """Sorted distinct values; `np.unique` would import `numpy.ma`, a quarter of the time a small file takes."""
    ordered = np.sort(values)
    is_first = np.ones(len(ordered), np.bool_)
    is_first[1:] = ordered[1:] != ordered[:-1]
    found: list[int] = ordered[is_first].tolist()
    return found
