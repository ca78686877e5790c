"""The memory of a run while a scenario is laid out in it; `layout` says where everything lies."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pipeline.simulator.engine import layout as at
from pipeline.simulator.engine.latency_histogram import BUCKET_COUNT
from pipeline.simulator.engine.random_stream import derive_stream

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from pipeline.simulator.engine.feed import Feed
    from pipeline.simulator.scenario.distribution import Distribution, Steps

_FIRST_WORDS = 1 << 16


class RunMemory:
    """Words that grow.

    Args:
        seed: The run's.
        fed_record_count: Recorded arrivals of a thread that lie in it at a time.
    """

    def __init__(self, seed: int, fed_record_count: int) -> None:
        self.fed_record_count = fed_record_count
        self.feeds: list[Feed] = []
        self.words: NDArray[np.int64] = np.zeros(_FIRST_WORDS, np.int64)
        self.length = 0
        self._seed = seed
        self._places: dict[Distribution | Steps, int] = {}

    def take(self, word_count: int) -> int:
        """Lays out so many zeros, and returns the index of the first."""
        first = self.length
        self.length += word_count
        if self.length > len(self.words):
            self.extend(max(2 * len(self.words), self.length))
        return first

    def extend(self, word_count: int) -> None:
        """Makes it at least so many words long."""
        if word_count > len(self.words):
            words = np.zeros(word_count, np.int64)
            words[: len(self.words)] = self.words
            self.words = words

    def put(self, values: Iterable[int] | NDArray[np.int64]) -> int:
        """Lays out values, and returns the index of the first."""
        array = np.asarray(values if isinstance(values, np.ndarray) else list(values), np.int64)
        first = self.take(len(array))
        self.words[first : self.length] = array
        return first

    def fill(self, first: int, values: dict[int, int]) -> None:
        """Sets fields of an object."""
        for field, value in values.items():
            self.words[first + field] = value

    def put_distribution(self, distribution: Distribution) -> int:
        """Lays out a distribution once, and returns its index."""
        if distribution not in self._places:
            is_constant = distribution.is_constant
            value = distribution.points[0][1] if is_constant else self.put(distribution.to_table())
            self._places[distribution] = self.put([is_constant, value])
        return self._places[distribution]

    def put_steps(self, steps: Steps) -> int:
        """Lays out steps once, and returns their index."""
        if steps not in self._places:
            self._places[steps] = self.put([len(steps.values), *steps.starts_ns, *steps.values])
        return self._places[steps]

    def key_stream(self, word: int, purpose: str, unit: int) -> None:
        """Gives a stream, two words, its key."""
        key = derive_stream(self._seed, purpose, unit)
        self.words[word + at.STREAM_KEY] = np.array(key, np.uint64).view(np.int64)
        self.words[word + at.STREAM_COUNT] = 0

    def put_histograms(self, count: int) -> tuple[int, int]:
        """Lays out so many histograms, and returns the index of their counts and of their extremes."""
        counts = self.take(count * BUCKET_COUNT)
        return counts, self.put([0, 0, -1] * count)
