"""The order of recorded arrivals: those of all partitions of a topic as one sequence.

The log does not record the order across partitions within a millisecond. It is drawn: records are sorted by a hash of
their size and key, another one for each millisecond of each minute and session. So the order of sizes and keys follows
from them alone, and never from the partitions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pipeline.calibration.within_ms import mix_bits
from pipeline.simulator.engine.random_stream import GAMMA

if TYPE_CHECKING:
    from numpy.typing import NDArray

_AT_BITS, _HASH_BITS, _PARTITION_BITS = np.uint64(48), np.uint64(16), 16


@dataclass(frozen=True, slots=True, eq=False)
class ArrivedRecords:
    """Records of some groups; an element per record.

    Attributes:
        group: int64, number of the session's minute, not falling.
        at_ms: uint16, milliseconds within the minute.
        body_bytes: int32.
        partition: int32.
        key_number: int64; 0 for a null key.
    """

    group: NDArray[np.int64]
    at_ms: NDArray[np.uint16]
    body_bytes: NDArray[np.int32]
    partition: NDArray[np.int32]
    key_number: NDArray[np.int64]

    def take(self, rows: NDArray[np.int64] | slice) -> ArrivedRecords:
        """Some of the records."""
        return ArrivedRecords(
            self.group[rows], self.at_ms[rows], self.body_bytes[rows], self.partition[rows], self.key_number[rows]
        )


def put_in_order(records: ArrivedRecords, seeds: NDArray[np.uint64], *, hash_bits: int = 32) -> ArrivedRecords:
    """Sorts records by group and time, and those of a millisecond as drawn.

    Args:
        records: In any order within a group.
        seeds: By group.
        hash_bits: Of the drawn hash; fewer make more records share one, which changes the order drawn and nothing else.
    """
    drawn = _draw(records, seeds) >> np.uint64(32 - hash_bits)
    rank: NDArray[np.uint64] = (records.at_ms.astype(np.uint64) << _AT_BITS) | (drawn << _HASH_BITS)
    order = sort_within(records.group, rank | records.partition.astype(np.uint64))
    ordered = records.take(order)
    ranked = rank[order]
    same = np.flatnonzero((ranked[1:] == ranked[:-1]) & (ordered.group[1:] == ordered.group[:-1]))
    differs = ordered.body_bytes[same] != ordered.body_bytes[same + 1]
    differs |= ordered.key_number[same] != ordered.key_number[same + 1]
    if differs.any() or (len(order) and int(records.partition.max()) >> _PARTITION_BITS):
        # two kinds of record with one hash in a millisecond, or partitions beyond 16 bits: rare
        columns = (records.partition, records.key_number, records.body_bytes, rank, records.group)
        ordered = records.take(np.lexsort(columns))
    return ordered


def _draw(records: ArrivedRecords, seeds: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """32 bits by record, of its size, key, millisecond and its group's seed."""
    state = mix_bits(seeds[records.group] + records.at_ms.astype(np.uint64) * np.uint64(GAMMA))
    state = mix_bits(state ^ records.key_number.view(np.uint64))
    return mix_bits(state + records.body_bytes.astype(np.uint64)) >> np.uint64(32)


def sort_within(group: NDArray[np.int64], values: NDArray[np.uint64] | NDArray[np.int64]) -> NDArray[np.int64]:
    """The order by group (not falling), then value; equal ones in any order."""
    order = np.argsort(values)  # quick: NumPy uses vector instructions
    if not len(group) or group[0] == group[-1]:
        return order
    # NumPy sorts numbers of 16 bits by digits
    narrow = group.astype(np.uint16) if group.max() <= np.iinfo(np.uint16).max else group
    return order[np.argsort(narrow[order], kind="stable")]
