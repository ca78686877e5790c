"""The order of recorded arrivals: those of all partitions of a topic as one sequence.

Records of one session, topic and minute are put in order of time. Within a millisecond the log does not tell the order
across partitions; it is drawn: records are sorted by a hash of their size and key, another one for each millisecond of each
minute and session. So the order of sizes and keys follows from them alone. Which of equal records lies in which
partition is told as if it had been one partition after the other.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MULTIPLIERS = tuple(np.uint64(number) for number in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
_SHIFTS = tuple(np.uint64(number) for number in (30, 27, 31, 32, 48))
_AT_BITS, _HASH_BITS, _PARTITION_BITS = np.uint64(48), np.uint64(16), 16


@dataclass(frozen=True, slots=True, eq=False)
class Records:
    """Records of some minutes; an element per record.

    Attributes:
        group: int64: Which minute (of a session and topic), not falling.
        at_ms: uint16: Milliseconds within it.
        body_bytes: int32.
        partition: int32.
        key_number: int64; 0 for a null key.
    """

    group: NDArray[np.int64]
    at_ms: NDArray[np.uint16]
    body_bytes: NDArray[np.int32]
    partition: NDArray[np.int32]
    key_number: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.at_ms)

    def take(self, rows: NDArray[np.int64] | slice) -> Records:
        """Some of the records."""
        return Records(
            self.group[rows], self.at_ms[rows], self.body_bytes[rows], self.partition[rows], self.key_number[rows]
        )


def derive_seed(*names: object) -> int:
    """A seed for the order within the milliseconds of a session's minute.

    >>> derive_seed("orders", "", 7, 0, 0) != derive_seed("orders", "", 7, 0, 60_000)
    True
    """
    text = "\0".join(map(str, names)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")


def put_in_order(records: Records, seeds: NDArray[np.uint64], *, hash_bits: int = 32) -> Records:
    """Sorts records by minute and time, and those of a millisecond as drawn.

    Args:
        records: In any order within a minute.
        seeds: By group: `group` indexes it.
        hash_bits: Of the hash: fewer make more records share one, and no other difference than which order is drawn.
    """
    drawn = _draw(records, seeds) >> np.uint64(32 - hash_bits)
    rank: NDArray[np.uint64] = (records.at_ms.astype(np.uint64) << _AT_BITS) | (drawn << _HASH_BITS)
    full: NDArray[np.uint64] = rank | records.partition.astype(np.uint64)
    order = sort_within(records.group, full)
    ordered = records.take(order)
    ranked = rank[order]
    same = np.flatnonzero((ranked[1:] == ranked[:-1]) & (ordered.group[1:] == ordered.group[:-1]))
    differs = ordered.body_bytes[same] != ordered.body_bytes[same + 1]
    differs |= ordered.key_number[same] != ordered.key_number[same + 1]
    if differs.any() or (len(records) and int(records.partition.max()) >> _PARTITION_BITS):
        # two kinds of record with one hash in a millisecond, or partitions that do not fit: rare
        columns = (records.partition, records.key_number, records.body_bytes, rank, records.group)
        ordered = records.take(np.lexsort(columns))
    return ordered


def sort_within(group: NDArray[np.int64], values: NDArray[np.uint64] | NDArray[np.int64]) -> NDArray[np.int64]:
    """The order by group, then value; equal ones in any order.

    Args:
        group: 0 or more, not falling.
        values: Alike in length.
    """
    order = np.argsort(values)  # quick, for NumPy has vector instructions do it
    if not len(group) or group[0] == group[-1]:
        return order
    # numbers of 16 bits are sorted by digits
    narrow = group.astype(np.uint16) if group.max() <= np.iinfo(np.uint16).max else group
    return order[np.argsort(narrow[order], kind="stable")]


def _draw(records: Records, seeds: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """32 bits by record, of its size, key, millisecond and its minute's seed."""
    state = _mix(seeds[records.group] + records.at_ms.astype(np.uint64) * _MULTIPLIERS[0])
    state = _mix(state ^ records.key_number.view(np.uint64))
    return _mix(state + records.body_bytes.astype(np.uint64)) >> _SHIFTS[3]


def _mix(state: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """SplitMix64's output function."""
    state = (state ^ (state >> _SHIFTS[0])) * _MULTIPLIERS[1]
    state = (state ^ (state >> _SHIFTS[1])) * _MULTIPLIERS[2]
    return state ^ (state >> _SHIFTS[2])
