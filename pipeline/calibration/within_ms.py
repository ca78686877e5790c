"""Resolves timestamps in whole milliseconds: the order of a millisecond's records, and the instant of each within it.

What lies within a millisecond matters: records sent together share a batch, records apart do not. Traffic in bursts that
is spread over the millisecond, or steady traffic that is clumped, moves an old sticky partitioner's share of a slow broker
by 15 points. So the pattern is read from the traffic itself.

Nor does the log record the order across partitions. It is drawn: records are sorted by a hash of their size and key,
another one for each millisecond of each minute and session. So the order of sizes and keys follows from them alone, and
never from the partitions.
"""

from dataclasses import dataclass
from enum import StrEnum
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from pipeline.arrays import Flags, Floats, Ints
from pipeline.calibration.limits import HALF, MOST_STRAY, STEPS
from pipeline.measures.chance import CHANCE_LEVEL
from pipeline.model.window import MINUTE_MS, NS_PER_MS
from pipeline.simulator.distributions import FIRST_FACTOR, GAMMA, SECOND_FACTOR, derive_stream

# Gap after a burst's first record, and the least between the others: what the Java client's `send()` takes.
_FIRST_STEP_NS, _STEP_NS = 11_000, 1_000
_BLOCK = 1 << 20  # records placed at a time: the work takes 40 bytes for each
_SALT_FACTOR = np.uint64(0xD1342543DE82EF95)


class Pattern(StrEnum):
    """How records lie within a millisecond."""

    BURST = "burst"  # one call of `send()` after the other, as fast as the client goes
    STEADY = "steady"  # anywhere, independent of each other


def choose_pattern(at_ms: Ints | NDArray[np.int32]) -> Pattern:
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
    by_chance = NormalDist().inv_cdf(1 - CHANCE_LEVEL) * np.sqrt(same)
    return Pattern.BURST if together > max(by_chance, HALF * same) else Pattern.STEADY


def place_within_ms(at_ms: Ints | NDArray[np.int32], pattern: Pattern, seed: int) -> Ints:
    """Places records within their milliseconds: nanoseconds since the first record's millisecond, not falling; int64[n].

    Steady records lie anywhere, each by itself. So do those of bursty traffic, where a millisecond holds no more of them
    than the time around it would by chance; the others follow each other at the pace of the traffic's bursts. The result
    depends on the milliseconds (not falling) and the seed alone.
    """
    placed = np.empty(len(at_ms), np.int64)
    if not len(at_ms):
        return placed
    stream = derive_stream(seed, "within a millisecond", pattern.value)
    starts = np.flatnonzero(np.append(True, at_ms[1:] != at_ms[:-1]))
    counts = np.diff(np.append(starts, len(at_ms)))
    occupied_ms = at_ms[starts].astype(np.int64) - int(at_ms[0])  # 32 bits would overflow after two seconds
    bursts = _find_bursts(occupied_ms, counts) if pattern is Pattern.BURST else None
    block = max(1, _BLOCK * len(starts) // len(at_ms))
    for first in range(0, len(starts), block):
        mine = slice(first, first + block)
        begin, end = int(starts[first]), int(starts[mine][-1] + counts[mine][-1])
        since_ms = np.repeat(occupied_ms[mine], counts[mine])
        within = _draw_within(since_ms, np.arange(begin, end), stream)
        if bursts is not None:
            in_burst = np.repeat(bursts.is_burst[mine], counts[mine])
            within[in_burst] = _place_bursts(bursts, mine, occupied_ms[mine], counts[mine], stream)[in_burst]
        placed[begin:end] = since_ms * NS_PER_MS + within
    placed.sort()
    return placed


@dataclass(frozen=True, eq=False)
class _Bursts:
    """Milliseconds that hold bursts, and those whose burst continues in the next one."""

    is_burst: Flags
    goes_on: Flags
    step_ns: int  # from one record of a burst to the next


def _find_bursts(occupied_ms: Ints, counts: Ints) -> _Bursts:
    """Separates bursts from the records around them, and measures their pace.

    Bursts begin anywhere in a millisecond, so those of 0.3 ms are cut by the end of one in 3 of 10 cases: how often that
    is, less how often the next burst but one millisecond away is another one, is how long they are.
    """
    is_burst = counts >= _bound_chance(occupied_ms, counts)
    goes_on = is_burst & np.append(is_burst[1:] & (np.diff(occupied_ms) == 1), False)
    cut_count = int(goes_on.sum())
    by_chance = int((np.diff(occupied_ms[is_burst]) == 2).sum())
    burst_count = int(is_burst.sum()) - cut_count
    followers = max(int(counts[is_burst].sum()) - burst_count, 1)
    step_ns = int(((cut_count - by_chance) * NS_PER_MS - burst_count * _FIRST_STEP_NS) / followers)
    # slower than that it is no loop around `send()`, and records come each by itself
    return _Bursts(is_burst & (step_ns <= MOST_STRAY * NS_PER_MS), goes_on, max(_STEP_NS, step_ns))


def _bound_chance(occupied_ms: Ints, counts: Ints) -> Floats:
    """Bounds the count of each millisecond that chance hardly exceeds, by Poisson's law with its minute's usual mean."""
    from scipy.special import pdtrik  # noqa: PLC0415 - 0.3 s to import

    minutes, number = np.unique(occupied_ms // MINUTE_MS, return_inverse=True)
    ordered = counts[np.lexsort((counts, number))]
    occupied = np.bincount(number)
    length_ms = np.minimum(occupied_ms[-1] + 1 - minutes * MINUTE_MS, MINUTE_MS)  # the last one ends with the records
    empty = length_ms - occupied
    # the median over all milliseconds of the minute, empty ones too
    middle = np.cumsum(occupied) - occupied + np.maximum(length_ms // 2 - empty, 0)
    mean = np.where(empty > length_ms // 2, 0.0, ordered[middle])
    for _ in range(STEPS):
        most: Floats = np.maximum(2.0, 1 + pdtrik(1 - CHANCE_LEVEL, np.maximum(mean, CHANCE_LEVEL)))
        bound = most[number]
        is_usual = counts < bound
        usual = np.bincount(number, weights=is_usual)
        mean = np.bincount(number, weights=counts * is_usual) / np.maximum(empty + usual, 1)
    return bound


def _place_bursts(bursts: _Bursts, mine: slice, occupied_ms: Ints, counts: Ints, stream: int) -> Ints:
    """Places bursts within their milliseconds: at the end if they continue, at the start if they began before."""
    goes_on = bursts.goes_on[mine]
    comes_on = np.append(mine.start > 0 and bursts.goes_on[mine.start - 1], goes_on[:-1])
    fitting_ns = (NS_PER_MS - _FIRST_STEP_NS) // counts
    step_ns = np.where(goes_on & comes_on, fitting_ns, np.minimum(bursts.step_ns, fitting_ns))
    first_ns = np.where(comes_on, step_ns, np.maximum(_FIRST_STEP_NS, step_ns))
    rest_ns = NS_PER_MS - 1 - first_ns - np.maximum(counts - 2, 0) * step_ns
    drawn_ns = _draw_within(occupied_ms, np.zeros(len(counts), np.int64), stream) * rest_ns // NS_PER_MS
    begin_ns = np.where(comes_on, 0, np.where(goes_on, rest_ns, drawn_ns))
    rank = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    later_ns = np.where(rank > 0, np.repeat(first_ns, counts) + (rank - 1) * np.repeat(step_ns, counts), 0)
    return np.repeat(begin_ns, counts) + later_ns


def _draw_within(since_ms: Ints, salt: Ints, stream: int) -> Ints:
    """A nanosecond within a millisecond for each millisecond and salt."""
    value = since_ms.astype(np.uint64) * np.uint64(GAMMA) + salt.astype(np.uint64) * _SALT_FACTOR + np.uint64(stream)
    return ((mix_bits(value) >> np.uint64(40)) * np.uint64(NS_PER_MS) >> np.uint64(24)).astype(np.int64)


def mix_bits(state: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """SplitMix64's output function, element by element; see `simulator.distributions`."""
    state = (state ^ (state >> np.uint64(30))) * np.uint64(FIRST_FACTOR)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(SECOND_FACTOR)
    return state ^ (state >> np.uint64(31))


_AT_BITS, _HASH_BITS, _PARTITION_BITS = np.uint64(48), np.uint64(16), 16


@dataclass(frozen=True, slots=True, eq=False)
class ArrivedRecords:
    """Records of some groups; an element per record.

    `group` numbers the session's minute and does not fall; `at_ms` is within the minute; `key_number` is 0 for a null key.
    """

    group: Ints
    at_ms: NDArray[np.uint16]
    body_bytes: NDArray[np.int32]
    partition: NDArray[np.int32]
    key_number: Ints

    def take(self, rows: Ints | slice) -> "ArrivedRecords":
        return ArrivedRecords(
            self.group[rows], self.at_ms[rows], self.body_bytes[rows], self.partition[rows], self.key_number[rows]
        )


def put_in_order(records: ArrivedRecords, seeds: NDArray[np.uint64], *, hash_bits: int = 32) -> ArrivedRecords:
    """Sorts records by group and time, those of a millisecond by chance; fewer `hash_bits` change the order, nothing else."""
    # `hash_bits` by record, of its size, key, millisecond and its group's seed
    state = mix_bits(seeds[records.group] + records.at_ms.astype(np.uint64) * np.uint64(GAMMA))
    state = mix_bits(state ^ records.key_number.view(np.uint64))
    drawn = mix_bits(state + records.body_bytes.astype(np.uint64)) >> np.uint64(64 - hash_bits)
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


def sort_within(group: Ints, values: NDArray[np.uint64] | Ints) -> Ints:
    """The order by group (not falling), then value; equal ones in any order."""
    order = np.argsort(values)  # quick: NumPy uses vector instructions
    if not len(group) or group[0] == group[-1]:
        return order
    # NumPy sorts numbers of 16 bits by digits
    narrow = group.astype(np.uint16) if group.max() <= np.iinfo(np.uint16).max else group
    return order[np.argsort(narrow[order], kind="stable")]
