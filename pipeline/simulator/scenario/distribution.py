"""Values that change by chance, and values that change by the clock; both as whole numbers."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import ConfigError
from pipeline.simulator.engine.random_stream import make_exponential_table, make_quantile_table

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
    def to_table(self) -> NDArray[np.int64]:
        """Its quantile table; raises InputError unless the points rise from probability 0 to 1."""
        return make_quantile_table(self.points) if self.points else make_exponential_table(self.mean)

    def mapped(self, change: Callable[[int], int]) -> Distribution:
        """The distribution of changed values; an exponential one keeps a mean above 0.

        >>> Distribution(((0.0, 10), (1.0, 30))).mapped(lambda value: value // 2).points
        ((0.0, 5), (1.0, 15))
        """
        points = tuple((probability, change(value)) for probability, value in self.points)
        return Distribution(points, self.mean and max(change(self.mean), 1))

    @classmethod
    def constant(cls, value: int) -> Distribution:
        return cls(((0.0, value), (1.0, value)))

    @classmethod
    def exponential(cls, mean: int) -> Distribution:
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
    def constant(cls, value: int) -> Steps:
        return cls((0,), (value,))
