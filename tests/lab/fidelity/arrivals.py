"""Series of records made from a seed: what `PlayArrivals.java` sends and the simulator takes as recorded traffic."""

from dataclasses import dataclass

import numpy as np

KEY_COUNT = 500
ZIPF_EXPONENT = 1.1
ARRIVAL = np.dtype([("due_ns", ">i8"), ("value_bytes", ">i4"), ("key", ">i4")])


@dataclass(frozen=True)
class Series:
    """A rule for a series.

    Attributes:
        pattern: ``poisson``; ``steady``; ``bursts`` of ``burst_records``, evenly apart; ``mixed``: half of the records in
            such bursts, half by chance; ``on-off``: by chance, for a second of every two; ``daily``: by chance, at a rate
            that falls to a fifth and rises again.
        rate_per_s: On average.
        seconds: How long.
        keyed_percent: So many of a hundred records have one of 500 keys, by Zipf's law.
        mean_bytes: Of the values, between 100 and ten times the mean, by the law of ``sizes``; or all alike.
        varied_bytes: They are not alike.
        sizes: ``exponential``, ``lognormal``, or ``two-humped``: of ten values nine of half the mean, one of 5.5 times it.
        burst_step_us: Between the records of a burst; 0 is as fast as the client goes.
    """

    pattern: str
    rate_per_s: int
    seconds: int
    burst_records: int = 1
    keyed_percent: int = 0
    mean_bytes: int = 512
    varied_bytes: bool = False
    seed: int = 1
    sizes: str = "exponential"
    burst_step_us: float = 0.0

    def make(self) -> np.ndarray:
        """The records, as the player reads them."""
        chance = np.random.default_rng(self.seed)
        count = self.rate_per_s * self.seconds
        records = np.zeros(count, ARRIVAL)
        records["due_ns"] = self._due_ns(chance, count)
        records["value_bytes"] = self._draw_sizes(chance, count) if self.varied_bytes else self.mean_bytes
        weights = np.arange(1, KEY_COUNT + 1) ** -ZIPF_EXPONENT
        keys = chance.choice(KEY_COUNT, count, p=weights / weights.sum())
        records["key"] = np.where(chance.integers(0, 100, count) < self.keyed_percent, keys, -1)
        return records

    def _draw_sizes(self, chance: np.random.Generator, count: int) -> np.ndarray:
        if self.sizes == "lognormal":
            sizes = chance.lognormal(np.log(self.mean_bytes) - 0.5, 1.0, count)
        elif self.sizes == "two-humped":
            sizes = self.mean_bytes * np.where(chance.random(count) < 0.9, 0.5, 5.5)
        else:
            sizes = chance.exponential(self.mean_bytes, count)
        return np.clip(sizes, 100, 10 * self.mean_bytes)

    def _due_ns(self, chance: np.random.Generator, count: int) -> np.ndarray:
        mean_ns, length_ns = 1e9 / self.rate_per_s, self.seconds * 1e9
        if self.pattern == "poisson":
            return np.cumsum(chance.exponential(mean_ns, count)).astype(np.int64)
        if self.pattern == "on-off":
            active_ns = np.sort(chance.random(count)) * length_ns / 2
            return (active_ns + active_ns // 1e9 * 1e9).astype(np.int64)
        if self.pattern == "daily":
            times = np.linspace(0, 1, 1001)
            rate = 0.6 + 0.4 * np.cos(2 * np.pi * times)
            passed = np.append(0, np.cumsum((rate[1:] + rate[:-1]) / 2))
            return (np.interp(np.sort(chance.random(count)), passed / passed[-1], times) * length_ns).astype(np.int64)
        number = np.arange(count)
        if self.pattern == "steady":
            return (number * mean_ns).astype(np.int64)
        if self.pattern == "mixed":
            half = count // 2
            by_chance = chance.random(count - half) * length_ns
            return np.sort(np.append(self._burst_ns(number[:half], 2 * mean_ns), by_chance)).astype(np.int64)
        if self.pattern != "bursts":
            raise ValueError(f"pattern {self.pattern}: expected poisson, steady, bursts, mixed, on-off or daily")
        return self._burst_ns(number, mean_ns).astype(np.int64)

    def _burst_ns(self, number: np.ndarray, mean_ns: float) -> np.ndarray:
        within = number % self.burst_records
        return (number - within) * mean_ns + within * self.burst_step_us * 1e3


def key_bytes(key: int) -> bytes:
    """The key with that number, as the player writes it."""
    return b"key-%05d" % key
