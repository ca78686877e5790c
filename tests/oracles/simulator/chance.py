"""The streams of a run, each with its count; `scenario.py` lists purposes and units."""

from pipeline.simulator.distributions import Distribution, derive_stream, draw_bits, draw_index, draw_quantile


class Stream:
    """Chance for one purpose and unit: every draw takes the next count."""

    def __init__(self, seed: int, purpose: str, unit: int) -> None:
        self._stream = derive_stream(seed, purpose, unit)
        self._count = 0

    def _take_count(self) -> int:
        self._count += 1
        return self._count - 1

    def draw(self, distribution: Distribution) -> int:
        """A value from a distribution; a single value is not drawn."""
        if distribution.is_constant:
            return distribution.points[0][1]
        return draw_quantile(self._stream, self._take_count(), distribution.to_table())

    def draw_index(self, length: int) -> int:
        """An index below a length, as Java draws it."""
        return draw_index(self._stream, self._take_count(), length)

    def draw_between(self, low: int, high: int) -> int:
        """From low to high, both included."""
        return low + (draw_bits(self._stream, self._take_count()) >> 1) % (high - low + 1)

    def draw_chance(self, parts_per_million: int) -> bool:
        """True that many times of a million."""
        return (draw_bits(self._stream, self._take_count()) >> 1) % 1_000_000 < parts_per_million
