"""Settings of every task of a scan: windows, and what is stored about keys."""

import os
import secrets
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pipeline.codec.records.arrival_layout import NO_WINDOW
from pipeline.codec.records.key_ids import SECRET_BYTES, KeySecret
from pipeline.config.sections import PSEUDONYMOUS, KeySettings
from pipeline.environment import environment_secret
from pipeline.errors import ConfigError
from pipeline.model.window import TimeWindow
from pipeline.sources.records.key_questions import Question
from pipeline.sources.records.segment_scan import ScannedSegment

_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def ensure_secret(path: Path) -> None:
    """Makes the file where it is missing, readable by its owner alone; two that start at once end with one secret."""
    try:
        if path.exists():
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        opened, draft = tempfile.mkstemp(prefix=f"{path.name}.", suffix=".draft", dir=path.parent)  # of mode 600
        try:
            with os.fdopen(opened, "w") as file:
                file.write(secrets.token_hex(SECRET_BYTES) + "\n")
            os.link(draft, path)  # fails where another was first
        except FileExistsError:
            pass
        finally:
            Path(draft).unlink()
    except OSError as error:
        advice = "set keys.secret to a file that can be written, or keys.secret_variable"
        cause = f"the secret for key ids cannot be made at {path}: {error.strerror or error}"
        raise ConfigError(f"{cause}; {advice}") from error


def read_secret(path: Path, text: str | None = None) -> KeySecret:
    """Reads the secret from its file, or from hex digits in its place; `ConfigError`: none, or one others may read."""
    where = "the variable of keys.secret_variable" if text is not None else str(path)
    try:
        if text is None:
            if stat.S_IMODE(path.stat().st_mode) & _OTHERS:
                raise ConfigError(f"{path} may be read by others; the secret for key ids wants mode 600")
            text = path.read_text(encoding="ascii")
        return KeySecret(bytes.fromhex(text.strip()))
    except OSError as error:
        raise ConfigError(f"the secret for key ids cannot be read at {path}: {error.strerror or error}") from error
    except ValueError:
        # its message could hold what was found
        raise ConfigError(f"{where} holds no secret; expected {2 * SECRET_BYTES} hex digits") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanSettings:
    """Settings of a scan; picklable, with the secret in them, which `repr` does not show."""

    as_of_ms: int  # the run's now: timestamps far beyond it are out of line
    span: TimeWindow
    window_ms: int
    slices: tuple[TimeWindow, ...] = ()  # of a sampled source the times that are read; empty where the whole span is
    secret: KeySecret | None = None  # behind the ids of keys; None where no ids are stored
    clear_topics: frozenset[str] = frozenset()
    max_distinct_keys: int = 0  # keys held at once per segment and window; 0: keys are not counted
    questions: tuple[Question, ...] = ()
    reads_arrivals: bool = False
    compacted_topics: frozenset[str] = frozenset()  # of others no offset is missing from a log

    def is_wanted(self, event_time_ms: NDArray[np.int64]) -> NDArray[np.bool_]:
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
    """The secret behind key ids, made at the first start; None where no ids are stored; `ConfigError` if it cannot be had."""
    if keys.mode != PSEUDONYMOUS:
        return None
    if keys.secret_variable is None:
        ensure_secret(keys.secret)
    return read_secret(keys.secret, environment_secret(keys.secret_variable))
