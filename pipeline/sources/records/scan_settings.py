"""Settings of every task of a scan: windows, what is stored about keys, and strategies asked about keys.

What a user's function raises costs the key its answer; neither its text nor the key is repeated: the one may hold the other.
"""

from __future__ import annotations

import os
import secrets
import stat
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.codec.records.arrival_layout import NO_WINDOW
from pipeline.codec.records.key_ids import SECRET_BYTES, KeySecret
from pipeline.config.sections import COUNTS_ONLY, PSEUDONYMOUS, KeySettings
from pipeline.environment import environment_secret
from pipeline.errors import ConfigError
from pipeline.model.log import TopicPartition
from pipeline.model.window import TimeWindow
from pipeline.partitioners.registry import find_strategy, is_custom, list_families
from pipeline.partitioners.strategy import Strategy, choose_partition
from pipeline.sources.records.segment_scan import RecordLog, ScannedSegment

if TYPE_CHECKING:
    from pipeline.runs import RunContext


NO_ANSWER = -1
_ASKED_TWICE = 256  # keys of a segment about which a user's function is asked a second time


@dataclass(frozen=True, slots=True, order=True)
class Question:
    topic: str
    strategy: str  # name, `module:name` for the user's own
    version: str  # fingerprint of the user's module; "" for built-in strategies
    partition_count: int


class Answers(NamedTuple):
    partitions: NDArray[np.int64]  # by key the partition, or `NO_ANSWER`
    failures: tuple[str, ...]  # what went wrong, in words that name no key


def choose_questions(
    run: RunContext, reads: Sequence[RecordLog], partitions: Iterable[TopicPartition]
) -> tuple[Question, ...]:
    """Strategies asked of topics, by partition count: the user's own, without key ids one of each family; `ConfigError`: one does not load."""
    keys = run.config.keys
    names = list(keys.strategies)
    if keys.mode == COUNTS_ONLY:
        names += [family.strategies[0] for family in list_families()]
    if not names:
        return ()
    own = dict.fromkeys((read.topic for read in reads), 0)
    for one in (*reads, *partitions):
        if one.topic in own:
            own[one.topic] = max(own[one.topic], one.partition + 1)
    versions = {name: load_strategy(name)[1] for name in names}
    candidates = run.config.candidates
    return tuple(
        Question(topic, name, versions[name], count)
        for topic, own_count in sorted(own.items())
        for name in names
        for count in sorted(
            {own_count, *keys.partition_counts, *(c.partition_count(own_count) for c in candidates if c.fits(topic))}
        )
    )


@cache
def load_strategy(name: str) -> tuple[Strategy, str]:
    strategy = find_strategy(name)
    return strategy, strategy.source.rpartition(" ")[2] if is_custom(name) else ""


def ask(question: Question, keys: pa.Array) -> Answers:
    """Asks one strategy about distinct keys, large binary without nulls; `ConfigError` if it is not the driver's."""
    strategy, version = load_strategy(question.strategy)
    if version != question.version:
        raise ConfigError(f"strategy {question.strategy} is version {version} here, {question.version} on the driver")
    if strategy.function is not None:
        return _ask_function(strategy, keys, question.partition_count)
    from pipeline.partitioners.assignment import assign_partitions  # noqa: PLC0415 - imports Numba

    partitions = assign_partitions(strategy, keys, question.partition_count).astype(np.int64)
    return Answers(np.maximum(partitions, NO_ANSWER), ())


def _ask_function(strategy: Strategy, keys: pa.Array, partition_count: int) -> Answers:
    partitions = np.full(len(keys), NO_ANSWER, np.int64)
    raised: Counter[str] = Counter()
    for index, key in enumerate(keys.to_pylist()):
        try:
            answer = choose_partition(strategy, key, partition_count)
            again = choose_partition(strategy, key, partition_count) if index < _ASKED_TWICE else answer
        except Exception as error:  # noqa: BLE001 - a user's function may raise whatever it likes
            raised[type(error).__name__] += 1
            continue
        if again != answer:
            failure = f"returned {answer}, then {again} for one key; expected a function of the key"
            return Answers(np.full(len(keys), NO_ANSWER, np.int64), (f"{failure}: no answer is stored",))
        partitions[index] = NO_ANSWER if answer is None else answer
    expected = f"expected a partition, 0 to {partition_count - 1}: these keys go without an answer"
    failures = (f"raised {name} for {count} of {len(keys)} keys; {expected}" for name, count in sorted(raised.items()))
    return Answers(partitions, tuple(failures))


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
                raise ConfigError(f"other users may read the secret for key ids: chmod 600 {path}")
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
