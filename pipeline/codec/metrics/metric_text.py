"""What texts with metrics in formats of their own give: samples with instants, and lines that were not understood."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pipeline.codec.metrics.metric_names import Series


class BadLine(NamedTuple):
    """A line that was not used, or was used although something is odd (number from 1)."""

    number: int
    text: str
    reason: str
    severity: str = "refused"


class TimedSample(NamedTuple):
    """One value at one instant; NaN where the client had nothing recorded."""

    observed_at_ms: int
    series: Series
    value: float


class MetricText(NamedTuple):
    """A text's samples, in its order, and the lines that were not understood."""

    samples: tuple[TimedSample, ...]
    bad_lines: tuple[BadLine, ...]
