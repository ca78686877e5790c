"""Resolves timestamps in whole milliseconds: the order of a millisecond's records, and the instant of each within it.

What lies within a millisecond matters: records sent together share a batch, records apart do not. Traffic in bursts that
is spread over the millisecond, or steady traffic that is clumped, moves an old sticky partitioner's share of a slow broker
by 15 points. So the pattern is read from the traffic itself.

Nor does the log record the order across partitions. It is drawn: records are sorted by a hash of their size and key,
another one for each millisecond of each minute and session. So the order of sizes and keys follows from them alone, and
never from the partitions.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from pipeline.model.window import NS_PER_MS
from pipeline.simulator.engine.random_stream import FIRST_FACTOR, GAMMA, SECOND_FACTOR, derive_stream

# Gap after a burst's first record, and between the others: what the Java client's `send()` takes.
_FIRST_STEP_NS, _STEP_NS = 11_000, 1_000
# Traffic is bursty where a third of the pairs in one millisecond are more than independent records have.
_CLUMPED_RATIO = 1 / 3
_DEVIATIONS = 3
_BLOCK = 1 << 20  # records placed at a time: the work takes 40 bytes for each
_SALT_FACTOR = np.uint64(0xD1342543DE82EF95)


class Pattern(StrEnum):
    """How records lie within a millisecond."""

    BURST = "burst"  # one call of `send()` after the other, as fast as the client goes
    STEADY = "steady"  # anywhere, independent of each other


def choose_pattern(at_ms: NDArray[np.int64] | NDArray[np.int32]) -> Pattern:
    """Distinguishes bursts from steady traffic; steady where there is too little to decide.

    Records that come independently of each other, at whatever rate, have half as many pairs in one millisecond as they
    have in two neighbouring ones. A clock that lets one record go every two milliseconds and now and then two at once has
    many of the first and hardly any of the second. What is more than half is pairs that came together.

    Args:
        at_ms: Not falling; int64[n] or int32[n].

    >>> choose_pattern(np.repeat(np.arange(0, 3000, 3), 6))
    <Pattern.BURST: 'burst'>
    >>> choose_pattern(np.arange(3000))
    <Pattern.STEADY: 'steady'>
    """
    if not len(at_ms):
        return Pattern.STEADY
    starts = np.flatnonzero(np.append(True, at_ms[1:] != at_ms[:-1]))
    counts = np.diff(np.append(starts, len(at_ms)))
    is_next = np.diff(at_ms[starts]) == 1
    same = int((counts * (counts - 1)).sum()) // 2
    neighbouring = int((counts[1:] * counts[:-1])[is_next].sum())
    together = same - neighbouring / 2
    is_clear = together > _DEVIATIONS * np.sqrt(same)
    return Pattern.BURST if is_clear and together >= _CLUMPED_RATIO * same else Pattern.STEADY


def place_within_ms(at_ms: NDArray[np.int64] | NDArray[np.int32], pattern: Pattern, seed: int) -> NDArray[np.int64]:
    """Places records within their milliseconds: nanoseconds since the first record's millisecond, not falling; int64[n].

    Bursts begin anywhere in the first half of a millisecond, go on after 11 us and then with 1 us a record. Steady
    records lie anywhere, each by itself. The result depends on the milliseconds (not falling) and the seed alone.
    """
    placed = np.empty(len(at_ms), np.int64)
    if not len(at_ms):
        return placed
    stream = derive_stream(seed, "within a millisecond", pattern.value)
    starts = np.flatnonzero(np.append(True, at_ms[1:] != at_ms[:-1]))
    ends = np.append(starts[1:], len(at_ms))
    first_ms = int(at_ms[0])
    block = max(1, _BLOCK * len(starts) // len(at_ms))
    for first in range(0, len(starts), block):
        mine = slice(first, first + block)
        begin, end = int(starts[mine][0]), int(ends[mine][-1])
        since_ms = at_ms[begin:end].astype(np.int64) - first_ms  # 32 bits would overflow after two seconds
        if pattern is Pattern.BURST:
            within = _place_bursts(since_ms, starts[mine] - begin, ends[mine] - starts[mine], stream)
        else:
            within = _draw_within(since_ms, np.arange(begin, end), stream)
        placed[begin:end] = since_ms * NS_PER_MS + within
    if pattern is Pattern.STEADY:
        placed.sort()
    return placed


def _place_bursts(
    since_ms: NDArray[np.int64], starts: NDArray[np.int64], counts: NDArray[np.int64], stream: int
) -> NDArray[np.int64]:
    rank = np.arange(len(since_ms)) - np.repeat(starts, counts)
    begin = np.repeat(_draw_within(since_ms[starts], np.zeros(len(starts), np.int64), stream) // 2, counts)
    steps = np.where(rank > 0, _FIRST_STEP_NS + (rank - 1) * _STEP_NS, 0)
    placed: NDArray[np.int64] = np.minimum(begin + steps, NS_PER_MS - 1)
    return placed


def _draw_within(since_ms: NDArray[np.int64], salt: NDArray[np.int64], stream: int) -> NDArray[np.int64]:
    """A nanosecond within a millisecond for each millisecond and salt."""
    value = since_ms.astype(np.uint64) * np.uint64(GAMMA) + salt.astype(np.uint64) * _SALT_FACTOR + np.uint64(stream)
    return ((mix_bits(value) >> np.uint64(40)) * np.uint64(NS_PER_MS) >> np.uint64(24)).astype(np.int64)


def mix_bits(state: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """SplitMix64's output function, element by element; see `simulator.engine.random_stream`."""
    state = (state ^ (state >> np.uint64(30))) * np.uint64(FIRST_FACTOR)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(SECOND_FACTOR)
    return state ^ (state >> np.uint64(31))


_AT_BITS, _HASH_BITS, _PARTITION_BITS = np.uint64(48), np.uint64(16), 16


@dataclass(frozen=True, slots=True, eq=False)
class ArrivedRecords:
    """Records of some groups; an element per record.

    `group` numbers the session's minute and does not fall; `at_ms` is within the minute; `key_number` is 0 for a null key.
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
    """Sorts records, in any order within a group, by group and time, and those of a millisecond as drawn.

    Each group has a seed. Fewer `hash_bits` make more records share a hash, which changes the order drawn and nothing else.
    """
    drawn = _draw_order(records, seeds) >> np.uint64(32 - hash_bits)
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


def _draw_order(records: ArrivedRecords, seeds: NDArray[np.uint64]) -> NDArray[np.uint64]:
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
