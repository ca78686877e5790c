"""Series of records made from a seed: what `PlayArrivals.java` sends and the simulator takes as recorded traffic."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

KEY_COUNT = 500
ZIPF_EXPONENT = 1.1
ARRIVAL = np.dtype([("due_ns", ">i8"), ("value_bytes", ">i4"), ("key", ">i4")])


@dataclass(frozen=True)
class Series:
    """A rule for a series.

    Attributes:
        pattern: ``poisson``; ``steady``; ``bursts`` of ``burst_records`` at once, evenly apart.
        rate_per_s: On average.
        seconds: How long.
        keyed_percent: So many of a hundred records have one of 500 keys, by Zipf's law.
        mean_bytes: Of the values, between 100 and ten times the mean, by an exponential law; or all alike.
    """

    pattern: str
    rate_per_s: int
    seconds: int
    burst_records: int = 1
    keyed_percent: int = 0
    mean_bytes: int = 512
    varied_bytes: bool = False
    seed: int = 1

    def make(self) -> np.ndarray:
        """The records, as the player reads them."""
        chance = np.random.default_rng(self.seed)
        count = self.rate_per_s * self.seconds
        records = np.zeros(count, ARRIVAL)
        records["due_ns"] = self._due_ns(chance, count)
        sizes = np.full(count, self.mean_bytes)
        if self.varied_bytes:
            sizes = np.clip(chance.exponential(self.mean_bytes, count), 100, 10 * self.mean_bytes)
        records["value_bytes"] = sizes
        weights = np.arange(1, KEY_COUNT + 1) ** -ZIPF_EXPONENT
        keys = chance.choice(KEY_COUNT, count, p=weights / weights.sum())
        records["key"] = np.where(chance.integers(0, 100, count) < self.keyed_percent, keys, -1)
        return records

    def _due_ns(self, chance: np.random.Generator, count: int) -> np.ndarray:
        mean_ns = 1e9 / self.rate_per_s
        if self.pattern == "poisson":
            return np.cumsum(chance.exponential(mean_ns, count)).astype(np.int64)
        number = np.arange(count)
        if self.pattern == "bursts":
            number -= number % self.burst_records
        elif self.pattern != "steady":
            raise ValueError(f"pattern {self.pattern}: expected poisson, steady or bursts")
        return (number * mean_ns).astype(np.int64)


def key_bytes(key: int) -> bytes:
    """The key with that number, as the player writes it."""
    return b"key-%05d" % key
