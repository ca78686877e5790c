"""Questions of a run to a source, what the source brought, and what `doctor` found."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Self

from pipeline.config.storage import NO_STORAGE, Storage
from pipeline.model.cluster import EarlierState
from pipeline.model.number_text import join_names
from pipeline.model.window import TimeWindow, Windows

NAMED = 5  # so many missing items are named, the others counted
_NAMED_LENGTH = 40  # characters that are shown of a group's name


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterQuestion:
    name: str
    topics: tuple[str, ...] = ()  # empty: all
    windows: Windows
    as_of_ms: int  # the run's now
    earlier: Sequence[EarlierState] = ()  # what other runs saw
    newest: TimeWindow | None = None  # the window that the present state belongs to, if any
    storage: Storage = NO_STORAGE


@dataclass(frozen=True, slots=True)
class SourceAvailability:
    expected_count: int | None  # items expected; None where that cannot be known
    arrived_count: int
    missing: str = ""  # what did not, in words; empty where nothing is missing
    newest_ms: int | None = None  # newest instant the source has data for, in any window; None for none

    def without(self, lacks: Sequence[str], count: int) -> Self:
        """The same with more that is missing, in words, of which so many items were expected, too."""
        if not lacks:
            return self
        more = [f"{len(lacks) - NAMED} more"] if len(lacks) > NAMED else []
        missing = "; ".join([*filter(None, [self.missing]), *lacks[:NAMED], *more])
        expected = self.arrived_count if self.expected_count is None else self.expected_count
        return replace(self, expected_count=expected + count, missing=missing)


def name_some(what: str, names: Sequence[str]) -> str:
    """Names what is missing; empty where nothing is."""
    return f"{what} {join_names(names, NAMED)}" if names else ""


def name_groups(group_ids: Iterable[str]) -> str:
    shown = sorted({group_id[:_NAMED_LENGTH] for group_id in group_ids})
    return name_some("names too long, partitions that no topic has, or more rows than a run holds: of", shown)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing looked at, what was found, and what to do; no advice where it serves."""

    name: str
    is_ok: bool = True
    found: str
    advice: str = ""
