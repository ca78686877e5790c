"""What every task of a scan needs to know: which windows, and what is stored about keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pipeline.codec.records.arrival_layout import NO_WINDOW
from pipeline.environment import environment_secret
from pipeline.sources.records.key_secret import ensure_secret, read_secret

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pipeline.codec.records.key_ids import KeySecret
    from pipeline.config.keys import KeySettings
    from pipeline.model.window import TimeWindow
    from pipeline.sources.records.key_questions import Question
    from pipeline.sources.records.segment_scan import ScannedSegment

PSEUDONYMOUS, COUNTS_ONLY = "pseudonymous", "counts_only"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanSettings:
    """Settings of a scan; picklable, with the secret in them, which `repr` does not show.

    Attributes:
        as_of_ms: The run's now: timestamps far beyond it are out of line.
        span: Windows wanted.
        window_ms: Their length.
        slices: Of a sampled source the times that are read; empty where the whole span is.
        secret: Behind the ids of keys; None where no ids are stored.
        clear_topics: Topics whose keys are stored in clear.
        max_distinct_keys: Keys held at once per segment and window; 0: keys are not counted.
        questions: Asked about every key of the topics they name.
        reads_arrivals: Records are packed as arrivals.
    """

    as_of_ms: int
    span: TimeWindow
    window_ms: int
    slices: tuple[TimeWindow, ...] = ()
    secret: KeySecret | None = None
    clear_topics: frozenset[str] = frozenset()
    max_distinct_keys: int = 0
    questions: tuple[Question, ...] = ()
    reads_arrivals: bool = False

    def is_wanted(self, event_time_ms: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Tells which instants lie in the span, or in one of its slices."""
        pieces = self.slices or (self.span,)
        inside = [(event_time_ms >= piece.start_ms) & (event_time_ms < piece.end_ms) for piece in pieces]
        wanted: NDArray[np.bool_] = np.any(inside, axis=0)
        return wanted

    def choose_windows(self, scanned: ScannedSegment) -> NDArray[np.int64]:
        """Start of the window of each batch whose records count, else `NO_WINDOW`; control batches have no records."""
        event_time_ms = scanned.times.event_time_ms
        counts = scanned.is_committed & ~scanned.headers.is_control & (event_time_ms >= 0)
        counts &= (event_time_ms >= self.span.start_ms) & (event_time_ms < self.span.end_ms)
        return np.where(counts, event_time_ms - event_time_ms % self.window_ms, NO_WINDOW)


def take_secret(keys: KeySettings) -> KeySecret | None:
    """Reads the secret behind key ids, on the driver; makes it at the first start. None where no ids are stored.

    Raises:
        ConfigError: The secret cannot be made or read.
    """
    if keys.mode != PSEUDONYMOUS:
        return None
    if keys.secret_variable is None:
        ensure_secret(keys.secret)
    return read_secret(keys.secret, environment_secret(keys.secret_variable))
