"""Scans of record batches in memory: what a Fetch reply brings, read as `segment` reads a file.

A broker cuts a reply at the byte limit, in the middle of a batch: that is no problem here, `valid_bytes` says where the
cut batch begins. Small readings are done by plain Python, which starts sooner; both ways give equal scans.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.codec.log.header_walk import Stop
from pipeline.codec.log.plain_segment import PlainSegment
from pipeline.codec.log.scans import HeaderScan, RecordScan
from pipeline.codec.log.segment import describe_walk, open_wrappers

if TYPE_CHECKING:
    from pipeline.codec.log.buffer_segment import BufferSegment


def scan_buffer(data: bytes, *, name: str, check_crc: bool = True, by_kernels: bool = True) -> HeaderScan:
    """Reads the header of every whole batch.

    Args:
        data: Record batches one after another; the last one may be cut.
        name: Stands for the file in problems.
        check_crc: Verify every checksum.
        by_kernels: Use the Numba kernels; else plain Python.

    Returns:
        Positions are those in `data`.
    """
    return _scan(data, _open(data, by_kernels=by_kernels), name=name, check_crc=check_crc)


def decode_buffer(data: bytes, headers: HeaderScan, *, by_kernels: bool = True) -> RecordScan:
    """Reads the records, keys included, of batches that were scanned before.

    Args:
        data: The batches.
        headers: Those to decode; positions are those in `data`. The flaw of a batch that does not parse is set.
        by_kernels: Use the Numba kernels; else plain Python.
    """
    decoded = _open(data, by_kernels=by_kernels).decode(headers.rows, want_keys=True)
    return RecordScan(headers=headers, rows=decoded.rows, key_offsets=decoded.key_offsets, key_data=decoded.key_data)


def _scan(data: bytes, segment: PlainSegment | BufferSegment, *, name: str, check_crc: bool) -> HeaderScan:
    rows, position, stop = segment.walk(0, len(data), check_crc=check_crc)
    open_wrappers(data, rows)
    return describe_walk(name, data, rows, position, _cut_is_no_end(stop))


def _cut_is_no_end(stop: Stop) -> Stop:
    return Stop.END if stop is Stop.BEYOND_FILE else stop


def _open(data: bytes, *, by_kernels: bool) -> PlainSegment | BufferSegment:
    if not by_kernels:
        return PlainSegment(data)
    from pipeline.codec.log.buffer_segment import BufferSegment  # noqa: PLC0415 - Numba takes longer than a small reading

    return BufferSegment.of(data)
