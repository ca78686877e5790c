"""Availability of sources: what did not arrive, or arrived late, is reported; silence never counts as healthy.

Every share rests on the sources of the records (`is_record_source`): where one of them misses a broker or a partition, the
window's shares are `incomplete`; where it brought nothing or is older than the freshness limit, they are `stale`. No share
rests on metrics: such a source fails only where it was expected and brought nothing at all.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from pipeline.config.section import is_record_source
from pipeline.model.verdict import Verdict, VerdictKind
from pipeline.model.window import format_instant
from pipeline.rules import BROKER_SHARE, SOURCE_ARRIVAL

CALM_BELOW = 1e-9  # a source that lacks nothing has the value 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceStatus:
    """Status of a source in a window; fields are columns of `bronze.window_status`, instants in UTC milliseconds."""

    window_start_ms: int
    source: str
    expected_count: int | None  # None where it is unknown
    arrived_count: int
    missing: str | None
    newest_ms: int | None  # None where the source had no data
    as_of_ms: int
    source_expired: bool = False  # rows of an earlier run were kept: the source has less by now
    problem_count: int = 0  # of the source, such as requests that were refused


@dataclass(frozen=True, slots=True)
class SkippedWindow:
    kind: Literal["incomplete", "stale"]
    reason: str


@dataclass(frozen=True, slots=True)
class SourceBeginning:
    asked_ms: int
    brought_ms: int | None  # None: nothing yet


def judge_sources(
    statuses: Iterable[SourceStatus],
    *,
    max_age_ms: int,
    beginnings: Mapping[str, SourceBeginning] | None = None,
    patience_ms: int = 0,
) -> tuple[Verdict, ...]:
    """Verdicts by window and source: `ok`, or `fail` where it is not available; the value is the part that is missing, 0..1.

    `warn`: a source of records gave all that shares rest on, and something else is missing; or metrics are younger than
    the window: they answered and brought nothing so far, and did later, or were first asked `patience_ms` before it at
    most; not one that refuses the run. `max_age_ms`: how old the newest data may be. `beginnings`: by source, where
    known.
    """
    verdicts = []
    for status in sorted(statuses, key=lambda status: (status.window_start_ms, status.source)):
        lack = find_lack(status, max_age_ms=max_age_ms)
        expected, missing = status.expected_count, 0.0
        if lack is not None:
            missing = 1.0 if lack.kind == "stale" else max(0.0, 1 - status.arrived_count / (expected or 1))
        kind: VerdictKind = "ok" if lack is None else "fail"
        text = "everything expected arrived" if lack is None else lack.reason
        if lack is None and status.missing and is_record_source(status.source):
            kind, text = "warn", f"{status.source}: {status.missing}"
        if lack is not None and _is_younger(status, (beginnings or {}).get(status.source), patience_ms):
            kind, lack = "warn", None
            text = f"{status.source} answers and has brought nothing up to this window: it is younger"
        verdicts.append(
            Verdict(
                window_start_ms=status.window_start_ms,
                rule=SOURCE_ARRIVAL,
                subject=status.source,
                value=missing,
                limit_value=0.0,
                is_above=lack is not None,
                above_count=int(lack is not None),
                verdict=kind,
                reason=text,
            )
        )
    return tuple(verdicts)


def is_silent(status: SourceStatus) -> bool:
    return not is_record_source(status.source) and bool(status.expected_count) and not status.arrived_count


def _is_younger(status: SourceStatus, beginning: SourceBeginning | None, patience_ms: int) -> bool:
    if beginning is None or not is_silent(status) or status.problem_count:
        return False
    if beginning.brought_ms is None:
        return status.window_start_ms - beginning.asked_ms < patience_ms
    return status.window_start_ms < beginning.brought_ms


def find_lack(status: SourceStatus, *, max_age_ms: int) -> SkippedWindow | None:
    name, expected = status.source, status.expected_count
    if not is_record_source(status.source):
        return (
            SkippedWindow("stale", f"{name} brought nothing: {expected:,} were expected") if is_silent(status) else None
        )
    text = f": {status.missing}" if status.missing else ""
    if not status.arrived_count:
        return SkippedWindow("stale", f"{name} brought nothing{text}")
    if expected is not None and status.arrived_count < expected:
        return SkippedWindow("incomplete", f"{name} brought {status.arrived_count:,} of {expected:,}{text}")
    newest_ms = status.newest_ms
    if status.source_expired or (newest_ms is not None and status.as_of_ms - newest_ms <= max_age_ms):
        return None
    newest = "no time at all" if newest_ms is None else format_instant(newest_ms)
    return SkippedWindow("stale", f"{name} is late: its newest data is of {newest}")


def find_skipped(statuses: Iterable[SourceStatus], *, max_age_ms: int) -> dict[int, SkippedWindow]:
    skipped: dict[int, SkippedWindow] = {}
    for status in statuses:
        lack = find_lack(status, max_age_ms=max_age_ms) if is_record_source(status.source) else None
        if lack is not None and (status.window_start_ms not in skipped or lack.kind == "stale"):
            skipped[status.window_start_ms] = lack
    return skipped


def judge_skipped(
    skipped: Mapping[int, SkippedWindow], shares: Mapping[int, Mapping[int, float | None]], *, limit_value: float
) -> tuple[Verdict, ...]:
    """Verdicts on broker shares of windows that are not judged: one per broker with a share, else one about the cluster."""
    return tuple(
        Verdict(
            window_start_ms=start_ms,
            rule=BROKER_SHARE,
            subject=subject,
            value=value,
            limit_value=limit_value,
            verdict=skip.kind,
            reason=f"not judged: {skip.reason}",
        )
        for start_ms, skip in sorted(skipped.items())
        for subject, value in (
            sorted((f"broker {broker_id}", ratio) for broker_id, ratio in shares.get(start_ms, {}).items())
            or [("cluster", None)]
        )
    )
