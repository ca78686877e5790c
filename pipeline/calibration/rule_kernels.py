"""Counts by which the rules of partitioners are told apart, over cells: records of one partition in one millisecond.

Within a millisecond the order of partitions is not recorded. It is taken as it changes partition least: the one at work
goes on, and one that is at work in the next millisecond comes last.
"""

from __future__ import annotations

from typing import Any

import numba as nb

from pipeline.compilation import kernel, part

Array = Any  # inside a kernel, an array's items are Numba's numbers

_CELLS = nb.types.Array(nb.int64, 1, "C", readonly=True)
_OUTPUT = nb.int64[::1]

(
    JOINS,  # records that went on in a batch
    STAYS,  # batches opened on the partition at work
    CHANGES,  # records that opened a batch on another partition
    CHANGES_JOINING,  # records that went on in a batch of another partition
    STAYS_BELOW_BYTES,  # by what the partition at work had got: less than the limit
    CHANGES_BELOW_BYTES,
    STAYS_BEYOND_BYTES,
    CHANGES_BEYOND_BYTES,
    GOES_ON_BELOW_MS,  # by how long it had been at work: less than the limit
    CHANGES_BELOW_MS,
    GOES_ON_BEYOND_MS,
    CHANGES_BEYOND_MS,
    TIED,  # batches opened in a millisecond with several partitions
    COUNTS,
) = range(14)

HEADER_BYTES = 61


@part
def _end_of_ms(at_ms: Array, first: int) -> int:
    """The first cell after those of one's millisecond."""
    end = first
    while end < len(at_ms) and at_ms[end] == at_ms[first]:
        end += 1
    return end


@part
def _find_last(partition: Array, current: int, first: int, end: int, after: int) -> int:
    """Of a millisecond's cells, one whose partition is at work in the next millisecond too; -1 for none."""
    for cell in range(first, end):
        if partition[cell] != current:
            for later in range(end, after):
                if partition[later] == partition[cell]:
                    return cell
    return -1


@kernel(nb.void(_CELLS, _CELLS, _OUTPUT))
def order_cells(at_ms: Array, partition: Array, order: Array) -> None:
    """Puts cells, sorted by millisecond, into the order in which partition changes least.

    Args:
        at_ms: Not falling.
        partition: Each once in a millisecond.
        order: Filled with indexes.
    """
    current, first = -1, 0
    while first < len(at_ms):
        end = _end_of_ms(at_ms, first)
        last = _find_last(partition, current, first, end, _end_of_ms(at_ms, end)) if end - first > 1 else -1
        place = first
        for cell in range(first, end):
            if partition[cell] == current:
                order[place] = cell
                place += 1
        for cell in range(first, end):
            if partition[cell] != current and cell != last:
                order[place] = cell
                place += 1
        if last >= 0:
            order[place] = last
        current = partition[order[end - 1]]
        first = end


@kernel(nb.void(_CELLS, _CELLS, _CELLS, _CELLS, _CELLS, nb.int64, _OUTPUT))
def count_by_bytes(
    at_ms: Array,
    partition: Array,
    record_count: Array,
    body_bytes: Array,
    opened_count: Array,
    limit_bytes: int,
    counts: Array,
) -> None:
    """Counts batches opened on the partition at work and on others, by what that partition had got.

    A partition that goes on beyond the limit is taken to have been drawn again there.

    Args:
        at_ms: Of the cells, in order.
        partition: Of the cells.
        record_count: Of the cells.
        body_bytes: Of their records, with their length fields.
        opened_count: Batches opened on that partition in that millisecond.
        limit_bytes: That a partition gets before the next one's turn.
        counts: Added to; `COUNTS` long.
    """
    current, run_bytes = -1, 0
    for cell in range(len(at_ms)):
        records, opened = record_count[cell], min(opened_count[cell], record_count[cell])
        if partition[cell] != current:
            records -= 1
            if opened and current >= 0:
                counts[CHANGES] += 1
                counts[CHANGES_BELOW_BYTES if run_bytes < limit_bytes else CHANGES_BEYOND_BYTES] += 1
            elif current >= 0:
                counts[CHANGES_JOINING] += 1
            current, run_bytes = partition[cell], 0
            if opened:
                opened -= 1
                run_bytes += HEADER_BYTES
        counts[JOINS] += records - opened
        counts[STAYS] += opened
        for number in range(opened):
            # Batches of a cell are taken to be alike, the first opened by its first record.
            here = body_bytes[cell] * number // opened + HEADER_BYTES * number
            if run_bytes + here < limit_bytes:
                counts[STAYS_BELOW_BYTES] += 1
            else:
                counts[STAYS_BEYOND_BYTES] += 1
                run_bytes = -here
        run_bytes += body_bytes[cell] + HEADER_BYTES * opened


@kernel(nb.void(_CELLS, _CELLS, _CELLS, nb.int64, nb.int64, _OUTPUT))
def count_by_time(
    at_ms: Array, partition: Array, record_count: Array, limit_ms: int, tolerance_ms: int, counts: Array
) -> None:
    """Counts records on the partition at work and on others, by how long that partition had been at work.

    A partition that goes on beyond the limit is taken to have been drawn again there. In the limit's own millisecond its
    time may not be up yet: where it changes soon after, it was not drawn.

    Args:
        at_ms: Of the cells, in order.
        partition: Of the cells.
        record_count: Of the cells.
        limit_ms: That a partition is at work.
        tolerance_ms: How soon that is.
        counts: Added to; `COUNTS` long.
    """
    current, since_ms, is_doubtful = -1, at_ms[0], False
    for cell in range(len(at_ms)):
        records, elapsed_ms = record_count[cell], at_ms[cell] - since_ms
        if partition[cell] != current:
            records -= 1
            if current >= 0 and elapsed_ms < limit_ms and is_doubtful and elapsed_ms <= tolerance_ms:
                counts[CHANGES_BEYOND_MS] += 1
                counts[GOES_ON_BEYOND_MS] -= 1
            elif current >= 0:
                counts[CHANGES_BEYOND_MS if elapsed_ms >= limit_ms else CHANGES_BELOW_MS] += 1
            current, since_ms, is_doubtful = partition[cell], at_ms[cell], False
        elif elapsed_ms >= limit_ms:
            is_doubtful = is_doubtful or elapsed_ms == limit_ms
            counts[GOES_ON_BEYOND_MS] += 1
            since_ms = at_ms[cell]
        counts[GOES_ON_BELOW_MS] += records


@kernel(nb.void(_CELLS, _CELLS, _CELLS, _CELLS, _OUTPUT))
def count_openings(at_ms: Array, partition: Array, record_count: Array, opened_count: Array, counts: Array) -> None:
    """Counts batches opened on the partition of the one before, in the order within a millisecond that has least of them.

    Args:
        at_ms: Of the cells, in order.
        partition: Of the cells.
        record_count: Of the cells.
        opened_count: Batches opened on that partition in that millisecond.
        counts: Added to: `JOINS`, `STAYS`, `CHANGES`, `CHANGES_JOINING`, `TIED`.
    """
    current, first = -1, 0
    while first < len(at_ms):
        end = _end_of_ms(at_ms, first)
        total, most, records, joining = 0, 0, 0, 0
        for cell in range(first, end):
            opened = min(opened_count[cell], record_count[cell])
            total += opened
            most = max(most, opened)
            records += record_count[cell]
            joining += opened == 0 and partition[cell] != current and current >= 0
        goes_on = partition[first] == current or most == 0
        stays = max(0, 2 * most - total - 1) if end - first > 1 else most - (not goes_on)
        begins = 1 if current < 0 else 0
        counts[STAYS] += stays
        counts[TIED] += total if end - first > 1 else 0
        counts[CHANGES] += max(0, total - stays - begins)
        counts[CHANGES_JOINING] += joining
        counts[JOINS] += max(0, records - total - joining)
        current = partition[end - 1]
        first = end


@kernel(nb.int64(_CELLS, _CELLS, _CELLS, nb.int64, nb.int64))
def count_even_moments(
    at_ms: Array, partition: Array, record_count: Array, partition_count: int, tolerance: int
) -> int:
    """Counts milliseconds at whose end all partitions that are used have got equally many records.

    Args:
        at_ms: Of the cells, not falling.
        partition: Numbered from 0.
        record_count: Of the cells.
        partition_count: Partitions that are used.
        tolerance: Records by which the most and the least may differ.
    """
    totals = [0 for _ in range(partition_count)]
    even = 0
    for cell in range(len(at_ms)):
        totals[partition[cell]] += record_count[cell]
        if cell + 1 == len(at_ms) or at_ms[cell + 1] != at_ms[cell]:
            even += max(totals) - min(totals) <= tolerance
    return even
