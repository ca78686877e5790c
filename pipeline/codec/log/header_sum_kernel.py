"""Totals over header rows in one pass: columns of 80-byte rows cost as much to read as the rows themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numba as nb
from numba.core import types

from pipeline.codec.log.header_sums import (
    CODECS,
    CONTROL,
    CRC_ERRORS,
    DAMAGED,
    MAGICS,
    MAX_TIMESTAMP,
    MIN_TIMESTAMP,
    MISSING,
    RECORDS,
)
from pipeline.codec.log.scans import HEADER_ROW, Flaw
from pipeline.compilation import kernel

if TYPE_CHECKING:
    from pipeline.codec.log.header_kernels import Array, Rows

_ROWS = types.Array(nb.from_dtype(HEADER_ROW), 1, "C", readonly=True)
_INT64 = types.Array(types.int64, 1, "C")
_SOUND = int(Flaw.NONE)


@kernel(types.int64(_ROWS, _INT64, _INT64))
def sum_rows(rows: Rows, sums: Array, changes: Array) -> int:
    """Adds up header rows.

    Args:
        rows: `HEADER_ROW`s in file order.
        sums: Takes the sums, by place.
        changes: Takes the producer id of each usable row that has another one than the usable row before.

    Returns:
        Entries of `changes`.
    """
    change_count = 0
    next_offset = nb.int64(-1)
    sums[MIN_TIMESTAMP] = sums[MAX_TIMESTAMP] = -1
    for i in range(len(rows)):
        row = rows[i]
        magic = nb.int64(row.magic)
        sums[MAGICS] |= nb.int64(1) << magic
        sums[CRC_ERRORS] += not row.crc_ok
        if row.flaw != _SOUND:
            sums[DAMAGED] += 1
            continue
        attributes = nb.int64(row.attributes)
        is_append_time = (attributes & 8) != 0 and magic > 0
        sums[CODECS] |= nb.int64(1) << (attributes & 7)
        sums[RECORDS] += row.record_count
        sums[CONTROL] += (attributes & 0x20) != 0 and magic > 1
        if next_offset >= 0 and row.base_offset > next_offset:
            sums[MISSING] += row.base_offset - next_offset
        next_offset = row.last_offset + 1
        largest = row.max_timestamp_ms
        first = largest if is_append_time else min(row.base_timestamp_ms, largest)
        is_hidden = row.record_count == 0 or ((attributes & 0x40) != 0 and magic > 1 and not is_append_time)
        if first >= 0 and not is_hidden and (sums[MIN_TIMESTAMP] < 0 or first < sums[MIN_TIMESTAMP]):
            sums[MIN_TIMESTAMP] = first
        sums[MAX_TIMESTAMP] = max(sums[MAX_TIMESTAMP], largest)
        if change_count == 0 or changes[change_count - 1] != row.producer_id:
            changes[change_count] = row.producer_id
            change_count += 1
    return change_count
