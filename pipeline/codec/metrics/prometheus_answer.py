"""Answers of a Prometheus server's HTTP API.

Of an answer's series only the places in its bytes are held, and each is decoded by itself: whatever a server sends, an
answer takes at most eight times its size in memory, and usually little more than its size.
"""

from typing import Generic, TypeVar

import msgspec
import numpy as np
from msgspec import Raw
from numpy.typing import NDArray

_Data = TypeVar("_Data")
MOST_LABEL_BYTES = 1 << 17  # of a series, escaped
MOST_POINT_BYTES = 128  # of each point that was asked for: honest ones have 45
_MOST_WARNING_BYTES = 1 << 18


class AnsweredSeries(msgspec.Struct, frozen=True, gc=False):
    """A series as it stands in an answer: labels, and points of a range or the one point of an instant."""

    metric: Raw
    values: Raw = Raw()
    value: Raw = Raw()

    def labels(self) -> dict[str, str] | None:  # None if they are longer than any are
        return None if len(memoryview(self.metric)) > MOST_LABEL_BYTES else _LABELS.decode(self.metric)

    def points(self, most: int) -> NDArray[np.float64] | None:  # instant and value of each; None if there are more
        if len(memoryview(self.values)) > MOST_POINT_BYTES * most:
            return None
        points = _POINTS.decode(self.values)
        read = np.array([(at_s, float(value)) for at_s, value in points], np.float64).reshape(-1, 2)
        return read if len(read) <= most else None

    def point(self) -> tuple[float, float]:  # instant and value of an instant's series
        at_s, value = _POINT.decode(self.value)
        return at_s, float(value)


class AnsweredQuery(msgspec.Struct, frozen=True):
    result: list[AnsweredSeries]
    kind: str = msgspec.field(name="resultType")  # `matrix` or `vector`


class PrometheusAnswer(msgspec.Struct, Generic[_Data], frozen=True):
    data: _Data
    warnings: Raw = Raw(b"[]")

    def list_warnings(self) -> list[str]:  # of endless ones that there are such
        size = len(memoryview(self.warnings))
        return [f"{size:,} bytes of warnings"] if size > _MOST_WARNING_BYTES else _WARNINGS.decode(self.warnings) or []


_LABELS = msgspec.json.Decoder(dict[str, str])
_POINTS = msgspec.json.Decoder(list[tuple[float, float | str]])
_POINT = msgspec.json.Decoder(tuple[float, float | str])
_WARNINGS = msgspec.json.Decoder(list[str] | None)
