"""Chance in the simulator, the same on every machine: streams of numbers, distributions, steps over time.

A stream is a key of 64 bits, derived from the run's seed, what the numbers are for, and whose they are. Its n-th number
is SplitMix64's, which needs no state but n. So two variants of a run see the same chance where they ask the same
question. Whatever ends in nanoseconds is integer arithmetic: a mathematical library may round differently on another
machine. `engine.primitives` has the same functions for kernels.

References: Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from itertools import pairwise

import mmh3
import numpy as np

from pipeline.arrays import Ints
from pipeline.errors import ConfigError, InputError

GAMMA = 0x9E3779B97F4A7C15
FIRST_FACTOR = 0xBF58476D1CE4E5B9
SECOND_FACTOR = 0x94D049BB133111EB
LEVEL_BITS = 5  # a level of a quantile table has 2 to the power of this many steps of equal probability
LEVEL_COUNT = 24
"""Level 0 is the lower half of a distribution, level 1 the next quarter, and so on; the last one reaches 1."""
TABLE_LENGTH = (LEVEL_COUNT << LEVEL_BITS) + 1
FRACTION_BITS = 20
MAX_TABLE_VALUE = 1 << 42
"""Of a quantile table: a step times a fraction stays below 63 bits. In nanoseconds, 73 minutes."""
_MASK = 0xFFFFFFFFFFFFFFFF


def derive_stream(seed: int, purpose: str, unit: int | str = 0) -> int:
    """The key of a stream, 64 bits, unsigned: the first half of MurmurHash3 (x64, 128 bits) of "seed/purpose/unit"."""
    first, _ = mmh3.hash64(f"{seed}/{purpose}/{unit}".encode(), signed=False)
    return int(first)


def draw_bits(stream: int, count: int) -> int:
    """The stream's number at a count, from 0 on: unsigned, of 64 bits."""
    value = (stream + (count + 1) * GAMMA) & _MASK
    value = ((value ^ value >> 30) * FIRST_FACTOR) & _MASK
    value = ((value ^ value >> 27) * SECOND_FACTOR) & _MASK
    return value ^ value >> 31


def draw_index(stream: int, count: int, length: int) -> int:
    """An index below a length, as clients draw it: Java's `(nextInt() & 0x7fffffff) % length`."""
    return (draw_bits(stream, count) >> 33) % length


def draw_quantile(stream: int, count: int, table: Sequence[int] | Ints) -> int:
    """A whole number from a distribution by its `make_quantile_table`: the quantile at a uniform draw."""
    bits = draw_bits(stream, count)
    level = 0
    while level < LEVEL_COUNT - 1 and bits >> 63:
        bits = bits << 1 & _MASK
        level += 1
    if level < LEVEL_COUNT - 1:
        bits = bits << 1 & _MASK  # the zero that ends the ones
    step = bits >> 64 - LEVEL_BITS
    fraction = (bits >> 64 - LEVEL_BITS - FRACTION_BITS) & (1 << FRACTION_BITS) - 1
    place = (level << LEVEL_BITS) + step
    low, high = int(table[place]), int(table[place + 1])
    return low + ((high - low) * fraction >> FRACTION_BITS)


@functools.cache
def list_probabilities() -> tuple[float, ...]:
    """The probabilities a quantile table's entries stand for: `TABLE_LENGTH` of them, 0 first and 1 last, all exact."""
    steps = 1 << LEVEL_BITS
    probabilities = [0.0]
    for level in range(LEVEL_COUNT):
        low = 1.0 - 0.5**level
        high = 1.0 - 0.5 ** (level + 1) if level < LEVEL_COUNT - 1 else 1.0
        probabilities += [low + (high - low) * step / steps for step in range(1, steps + 1)]
    return tuple(probabilities)


def make_quantile_table(points: Sequence[tuple[float, int]]) -> Ints:
    """The table of a distribution known at points of rising probability, 0 to 1, and value; `InputError` for others."""
    if len(points) < 2 or points[0][0] != 0.0 or points[-1][0] != 1.0:
        raise InputError(f"quantiles {list(points)!r}; expected a point at probability 0 first and one at 1 last")
    for (before_p, before), (after_p, after) in pairwise(points):
        if after_p < before_p or after < before:
            raise InputError(f"quantile {after} at {after_p} after {before} at {before_p}; expected both to rise")
    if points[0][1] < 0 or points[-1][1] > MAX_TABLE_VALUE:
        raise InputError(f"quantiles from {points[0][1]} to {points[-1][1]}; expected 0 to {MAX_TABLE_VALUE}")
    known = np.array([probability for probability, _ in points])
    values = np.array([value for _, value in points], np.int64)
    wanted = np.array(list_probabilities())
    place = np.maximum(np.searchsorted(known, wanted, side="left") - 1, 0)
    low, span = values[place], values[place + 1] - values[place]
    width = known[place + 1] - known[place]
    ratio = np.divide(wanted - known[place], width, out=np.ones(len(wanted)), where=width > 0)
    table: Ints = low + (span * ratio).astype(np.int64)
    table[0], table[-1] = values[0], values[-1]  # the distribution may jump there
    return table


@functools.cache
def _list_exponential_quantiles() -> tuple[Decimal, ...]:
    with localcontext() as context:
        context.prec = 30  # Decimal's logarithm is rounded right to the last digit, everywhere
        last = Decimal(1) - Decimal(2) ** -(LEVEL_COUNT + LEVEL_BITS)  # 1 itself would be infinity
        return tuple(-(1 - min(Decimal(p), last)).ln() for p in list_probabilities())


def make_exponential_table(mean: int) -> Ints:
    """The table of an exponential distribution, up to 20 times the mean; `InputError` for a wrong mean."""
    quantiles = _list_exponential_quantiles()
    if mean <= 0 or mean * quantiles[-1] > MAX_TABLE_VALUE:
        raise InputError(f"mean {mean}; expected 1 to {int(MAX_TABLE_VALUE / quantiles[-1])}")
    return np.array([int(mean * quantile) for quantile in quantiles], np.int64)


PPM = 1_000_000


@dataclass(frozen=True)
class Distribution:
    """A distribution of whole numbers, by quantiles with straight lines between them; or an exponential one."""

    points: tuple[tuple[float, int], ...] = ((0.0, 0), (1.0, 0))  # probability and value, rising; empty if exponential
    mean: int = 0  # of an exponential one, else 0

    @property
    def is_constant(self) -> bool:
        return bool(self.points) and self.points[0][1] == self.points[-1][1]

    @functools.lru_cache(maxsize=1024)  # noqa: B019  (a value: equal ones share a table)
    def to_table(self) -> Ints:
        return make_quantile_table(self.points) if self.points else make_exponential_table(self.mean)

    def mapped(self, change: Callable[[int], int]) -> "Distribution":
        """The distribution of changed values; an exponential one keeps a mean above 0."""
        points = tuple((probability, change(value)) for probability, value in self.points)
        return Distribution(points, self.mean and max(change(self.mean), 1))

    @classmethod
    def constant(cls, value: int) -> "Distribution":
        return cls(((0.0, value), (1.0, value)))

    @classmethod
    def exponential(cls, mean: int) -> "Distribution":
        return cls((), mean)


ZERO = Distribution()
ALIKE = Distribution.constant(PPM)  # a factor that is always 1


@dataclass(frozen=True)
class Steps:
    """A value that holds until the next: a constant, a schedule, or a recorded series; `ConfigError` for another."""

    starts_ns: tuple[int, ...] = (0,)  # when each value begins, rising, the first at 0
    values: tuple[int, ...] = (0,)  # as many

    def __post_init__(self) -> None:
        rises = all(first < second for first, second in pairwise(self.starts_ns))
        if not self.starts_ns or self.starts_ns[0] != 0 or not rises or len(self.values) != len(self.starts_ns):
            raise ConfigError("a schedule's times must rise from 0, with a value for each")

    @classmethod
    def constant(cls, value: int) -> "Steps":
        return cls((0,), (value,))
