"""The rule of sight: a source that did not arrive, or arrived late, is told; nothing is healthy by silence.

The sources of the records (`log_directories`, `live_cluster`, `dump_log`) bear every share: where one of them misses a broker or a
partition the window's shares are `incomplete`, where it brought nothing or is older than the freshness limit they are
`stale`. Metrics bear no share: such a source is blind only where it was expected and brought nothing at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pipeline.model.verdict import Verdict
from pipeline.model.window import format_instant

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

RULE = "source_arrival"
RECORD_SOURCES = frozenset({"log_directories", "live_cluster", "dump_log"})
CALM_BELOW = 1e-9
"""A source that lacks nothing has the value 0."""

HeldKind = Literal["incomplete", "stale"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceArrival:
    """What a source brought into a window: a row of `bronze.window_status`.

    Attributes:
        window_start_ms: Start of the window, UTC milliseconds.
        source: Source kind.
        expected_count: Items expected; None where nobody can tell.
        arrived_count: Items that arrived.
        missing: What did not, in words.
        newest_ms: Newest instant the source had data for; None for none.
        as_of_ms: The run's now.
        source_expired: Rows of an earlier run were kept: the source has less by now, which says nothing of the window.
    """

    window_start_ms: int
    source: str
    expected_count: int | None
    arrived_count: int
    missing: str | None
    newest_ms: int | None
    as_of_ms: int
    source_expired: bool = False


@dataclass(frozen=True, slots=True)
class Hold:
    """Why the shares of a window are not judged."""

    kind: HeldKind
    reason: str


def judge_sources(arrivals: Sequence[SourceArrival], *, max_age_ms: int) -> tuple[Verdict, ...]:
    """Judges every source in every window: `ok`, or `fail` where the pipeline is blind.

    Args:
        arrivals: In any order.
        max_age_ms: How old the newest data may be at the run's now.

    Returns:
        Verdicts by window and source; the value is the part that is missing, 0..1.
    """
    verdicts = []
    for arrival in sorted(arrivals, key=lambda a: (a.window_start_ms, a.source)):
        hold = look_at(arrival, max_age_ms=max_age_ms)
        expected = arrival.expected_count
        if hold is not None and hold.kind == "stale":
            value = 1.0
        else:
            value = 0.0 if not expected else max(0.0, 1 - arrival.arrived_count / expected)
        verdicts.append(
            Verdict(
                window_start_ms=arrival.window_start_ms,
                rule=RULE,
                subject=arrival.source,
                value=value if hold is not None else 0.0,
                limit_value=0.0,
                chance_value=None,
                is_above=hold is not None,
                above_count=int(hold is not None),
                verdict="ok" if hold is None else "fail",
                reason="everything expected arrived" if hold is None else hold.reason,
            )
        )
    return tuple(verdicts)


def look_at(arrival: SourceArrival, *, max_age_ms: int) -> Hold | None:
    """What is wrong with an arrival; None where it serves.

    Args:
        arrival: What came.
        max_age_ms: How old the newest data may be at the run's now.
    """
    name, expected = arrival.source, arrival.expected_count
    if arrival.source not in RECORD_SOURCES:
        is_silent = bool(expected) and not arrival.arrived_count
        return Hold("stale", f"{name} brought nothing: {expected:,} were expected") if is_silent else None
    said = f": {arrival.missing}" if arrival.missing else ""
    if not arrival.arrived_count:
        return Hold("stale", f"{name} brought nothing{said}")
    if expected is not None and arrival.arrived_count < expected:
        return Hold("incomplete", f"{name} brought {arrival.arrived_count:,} of {expected:,}{said}")
    newest_ms = arrival.newest_ms
    if arrival.source_expired or (newest_ms is not None and arrival.as_of_ms - newest_ms <= max_age_ms):
        return None
    newest = "no time at all" if newest_ms is None else format_instant(newest_ms)
    return Hold("stale", f"{name} is late: its newest data is of {newest}")


def find_holds(arrivals: Sequence[SourceArrival], *, max_age_ms: int) -> dict[int, Hold]:
    """Windows whose shares must not be judged, by start.

    Args:
        arrivals: In any order.
        max_age_ms: How old the newest data may be at the run's now.
    """
    holds: dict[int, Hold] = {}
    for arrival in arrivals:
        hold = look_at(arrival, max_age_ms=max_age_ms) if arrival.source in RECORD_SOURCES else None
        if hold is not None and (arrival.window_start_ms not in holds or hold.kind == "stale"):
            holds[arrival.window_start_ms] = hold
    return holds


def hold_back(
    holds: Mapping[int, Hold],
    shares: Mapping[int, Mapping[int, float | None]],
    *,
    rule: str,
    limit_value: float,
) -> tuple[Verdict, ...]:
    """Verdicts of windows that are not judged: one per broker known, else one about the cluster.

    Args:
        holds: Why, by window.
        shares: Share ratio by window and broker, as far as they could be measured.
        rule: Rule that would have judged.
        limit_value: Its limit.
    """
    return tuple(
        Verdict(
            window_start_ms=start_ms,
            rule=rule,
            subject=subject,
            value=value,
            limit_value=limit_value,
            chance_value=None,
            is_above=False,
            above_count=0,
            verdict=hold.kind,
            reason=f"not judged: {hold.reason}",
        )
        for start_ms, hold in sorted(holds.items())
        for subject, value in (
            sorted((f"broker {broker_id}", ratio) for broker_id, ratio in shares.get(start_ms, {}).items())
            or [("cluster", None)]
        )
    )
