"""Counts that distinguish the switching rules of partitioners, over bins: records of one partition in one millisecond.

The order of partitions within a millisecond is not recorded. The order that changes partition least is assumed: the
current partition goes on, and one that goes on in the next millisecond comes last.

All arrays are int64[bins] in order of time, but for `counts`, which is int64[COUNTS] and added to.
"""

from typing import Any

import numba as nb

from pipeline.compilation import kernel, part

Array = Any  # inside a kernel, an array's items are Numba's numbers

_BINS = nb.types.Array(nb.int64, 1, "C", readonly=True)
_OUTPUT = nb.int64[::1]

(
    JOINS,  # records that went on in a batch
    STAYS,  # batches opened on the current partition
    CHANGES,  # records that opened a batch on another partition
    CHANGES_JOINING,  # records that went on in a batch of another partition
    STAYS_BELOW_BYTES,  # the current partition had got fewer bytes than the limit
    CHANGES_BELOW_BYTES,
    STAYS_BEYOND_BYTES,
    CHANGES_BEYOND_BYTES,
    GOES_ON_BELOW_MS,  # it had been current for less than the limit
    CHANGES_BELOW_MS,
    GOES_ON_BEYOND_MS,
    CHANGES_BEYOND_MS,
    TIED,  # batches opened in a millisecond with several partitions
    COUNTS,
) = range(14)

HEADER_BYTES = 61


@part
def _end_of_ms(at_ms: Array, first: int) -> int:
    end = first
    while end < len(at_ms) and at_ms[end] == at_ms[first]:
        end += 1
    return end


@part
def _find_last(partition: Array, current: int, first: int, end: int, after: int) -> int:
    """Of a millisecond's bins, one whose partition has records in the next millisecond too; -1 for none."""
    for row in range(first, end):
        if partition[row] != current:
            for later in range(end, after):
                if partition[later] == partition[row]:
                    return row
    return -1


@kernel(nb.void(_BINS, _BINS, _OUTPUT))
def order_bins(at_ms: Array, partition: Array, order: Array) -> None:
    """Puts bins, sorted by millisecond, into the order in which partition changes least; fills `order` with indexes."""
    current, first = -1, 0
    while first < len(at_ms):
        end = _end_of_ms(at_ms, first)
        last = _find_last(partition, current, first, end, _end_of_ms(at_ms, end)) if end - first > 1 else -1
        place = first
        for row in range(first, end):
            if partition[row] == current:
                order[place] = row
                place += 1
        for row in range(first, end):
            if partition[row] != current and row != last:
                order[place] = row
                place += 1
        if last >= 0:
            order[place] = last
        current = partition[order[end - 1]]
        first = end


@kernel(nb.void(_BINS, _BINS, _BINS, _BINS, _BINS, nb.int64, _OUTPUT))
def count_by_bytes(
    at_ms: Array,
    partition: Array,
    record_count: Array,
    body_bytes: Array,
    opened_count: Array,
    limit_bytes: int,
    counts: Array,
) -> None:
    """Counts batches opened on the current partition and on others, by the bytes that partition had got.

    A partition that goes on beyond `limit_bytes` is taken to have been drawn again there. `body_bytes` includes the
    records' length fields; `opened_count` is of batches.
    """
    current, run_bytes = -1, 0
    for row in range(len(at_ms)):
        records, opened = record_count[row], min(opened_count[row], record_count[row])
        if partition[row] != current:
            records -= 1
            if opened and current >= 0:
                counts[CHANGES] += 1
                counts[CHANGES_BELOW_BYTES if run_bytes < limit_bytes else CHANGES_BEYOND_BYTES] += 1
            elif current >= 0:
                counts[CHANGES_JOINING] += 1
            current, run_bytes = partition[row], 0
            if opened:
                opened -= 1
                run_bytes += HEADER_BYTES
        counts[JOINS] += records - opened
        counts[STAYS] += opened
        for number in range(opened):
            # Batches of a bin are taken to be alike, the first opened by its first record.
            here = body_bytes[row] * number // opened + HEADER_BYTES * number
            if run_bytes + here < limit_bytes:
                counts[STAYS_BELOW_BYTES] += 1
            else:
                counts[STAYS_BEYOND_BYTES] += 1
                run_bytes = -here
        run_bytes += body_bytes[row] + HEADER_BYTES * opened


@kernel(nb.void(_BINS, _BINS, _BINS, nb.int64, nb.int64, _OUTPUT))
def count_by_time(
    at_ms: Array, partition: Array, record_count: Array, limit_ms: int, tolerance_ms: int, counts: Array
) -> None:
    """Counts records on the current partition and on others, by how long it had been current.

    A partition that goes on beyond `limit_ms` is taken to have been drawn again there. In the limit's own millisecond its
    time may not be up yet: where it changes within `tolerance_ms`, it was not drawn.
    """
    current, since_ms, is_doubtful = -1, at_ms[0], False
    for row in range(len(at_ms)):
        records, elapsed_ms = record_count[row], at_ms[row] - since_ms
        if partition[row] != current:
            records -= 1
            if current >= 0 and elapsed_ms < limit_ms and is_doubtful and elapsed_ms <= tolerance_ms:
                counts[CHANGES_BEYOND_MS] += 1
                counts[GOES_ON_BEYOND_MS] -= 1
            elif current >= 0:
                counts[CHANGES_BEYOND_MS if elapsed_ms >= limit_ms else CHANGES_BELOW_MS] += 1
            current, since_ms, is_doubtful = partition[row], at_ms[row], False
        elif elapsed_ms >= limit_ms:
            is_doubtful = is_doubtful or elapsed_ms == limit_ms
            counts[GOES_ON_BEYOND_MS] += 1
            since_ms = at_ms[row]
        counts[GOES_ON_BELOW_MS] += records


@kernel(nb.void(_BINS, _BINS, _BINS, _BINS, _OUTPUT))
def count_openings(at_ms: Array, partition: Array, record_count: Array, opened_count: Array, counts: Array) -> None:
    """Counts batches opened on the partition of the one before, in the order within a millisecond that has least of them."""
    current, first = -1, 0
    while first < len(at_ms):
        end = _end_of_ms(at_ms, first)
        total, most, records, joining = 0, 0, 0, 0
        for row in range(first, end):
            opened = min(opened_count[row], record_count[row])
            total += opened
            most = max(most, opened)
            records += record_count[row]
            joining += opened == 0 and partition[row] != current and current >= 0
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


@kernel(nb.int64(_BINS, _BINS, _BINS, nb.int64))
def count_even_moments(at_ms: Array, partition: Array, record_count: Array, partition_count: int) -> int:
    """Counts milliseconds at whose end the partitions in use, numbered from 0, differ by a record at most."""
    totals = [0 for _ in range(partition_count)]
    even = 0
    for row in range(len(at_ms)):
        totals[partition[row]] += record_count[row]
        if row + 1 == len(at_ms) or at_ms[row + 1] != at_ms[row]:
            even += max(totals) - min(totals) <= 1
    return even
