"""Charts over the windows of the period: the verdicts' strip, incidents, and lines of brokers."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pipeline.model.number_text import format_clock, format_ms, format_name, format_percent
from pipeline.model.window import DAY_MS, TimeWindow, milliseconds_of
from pipeline.report.answers import BAND, STRIPS_SHOWN, Answer, AnswerRow, Asker, Mark, Scale, pivot_columns
from pipeline.report.brokers import is_above
from pipeline.rules import format_measure

_MOST_TICKS = 4
_HEIGHT = 100
VERDICTS = {
    "fail": "a rule fails",
    "blind": "cannot be judged: incomplete or stale",
    "warn": "above a limit, only a warning",
    "not_enough_traffic": "not enough traffic to judge",
    "ok": "nothing above a limit",
}  # kinds of windows by what is worst in them, worst first


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeStrip:
    answer: Answer
    incidents: Answer
    axis: Scale
    window_ms: int
    windows: tuple[Mark, ...]
    bars: tuple[Mark, ...]
    ticks: tuple[Mark, ...]
    kinds: tuple[tuple[str, str], ...]


def draw_strip(verdicts: Answer, incidents: Answer, span: TimeWindow, window_ms: int) -> TimeStrip:
    axis = Scale(span.start_ms, span.end_ms)
    windows = tuple(_window(row, axis, window_ms) for row in verdicts.rows)
    drawn_kinds = {mark.kind for mark in windows}
    step_ms = -(-span.duration_ms // _MOST_TICKS // 60_000) * 60_000
    pattern = "%H:%M" if span.duration_ms <= DAY_MS else "%d %b %H:%M" if span.duration_ms < 3 * DAY_MS else "%d %b"
    return TimeStrip(
        answer=verdicts,
        incidents=incidents,
        axis=axis,
        window_ms=window_ms,
        windows=windows,
        bars=tuple(_incident(row, axis, span, window_ms) for row in incidents.rows),
        ticks=tuple(
            Mark(kind="tick", at=axis.at(at_ms), label=datetime.fromtimestamp(at_ms // 1000, UTC).strftime(pattern))
            for at_ms in range(span.start_ms, span.end_ms, step_ms)
        ),
        kinds=tuple((kind, text) for kind, text in VERDICTS.items() if kind in drawn_kinds),
    )


def _window(row: AnswerRow, axis: Scale, window_ms: int) -> Mark:
    start_ms = milliseconds_of(row["window_start"])
    kind = next((kind for kind in ("fail", "blind", "warn") if row[kind]), "ok" if row["ok"] else "not_enough_traffic")
    counts = ", ".join(f"{row[kind]} {kind.replace('_', ' ')}" for kind in VERDICTS if row[kind])
    at, end = axis.at(start_ms), axis.at(start_ms + window_ms)
    return Mark(kind=kind, at=at, width=round(end - at, 3), title=f"{format_clock(start_ms)}: {counts}")


def _incident(row: AnswerRow, axis: Scale, span: TimeWindow, window_ms: int) -> Mark:
    since_ms, resolved = milliseconds_of(row["since"]), row["resolved_in"]
    end_ms = span.end_ms if resolved is None else milliseconds_of(resolved) + window_ms
    at = axis.at(since_ms)
    peak = "" if row["peak_value"] is None else f", at most {format_measure(row['rule'], row['peak_value'])}"
    until = "open" if resolved is None else f"until {format_clock(end_ms)}"
    label = f"{format_name(row['subject'], 40)} · {row['rule'].replace('_', ' ')}"
    return Mark(
        kind="open" if resolved is None else "over",
        at=at,
        width=round(axis.at(end_ms) - at, 3),
        title=f"{row['incident_id']}: {label}, {format_clock(since_ms)} {until}{peak}",
        label=label,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartOverWindows:
    name: str
    expression: str  # what a broker's line shows
    title: str
    says: str
    order: str  # how the first brokers stand out
    has_limit: bool  # the fair share and the limit are lines across, brokers above it stand out
    write: Callable[[float], str]

    def draw(self, asker: Asker, shares: Answer, strip: TimeStrip) -> tuple[dict[str, Any], ...]:
        """A line per broker, broken where windows are missing, in a box of 1000 by 100; with a band every line has a strip of its own."""
        brokers = [row["broker_id"] for row in asker.ask(f"{self.name}_ranks").rows]
        if not brokers:
            return ()
        answer = asker.ask(self.name, {"columns": pivot_columns(brokers, self.expression)})
        limited = [row for row in shares.rows if row["limit_value"]][:1] if self.has_limit else []
        levels = [(row["expected_share"], "fair", "") for row in limited]
        levels += [(row["expected_share"] * row["limit_value"], "limit", "") for row in limited]
        hot = {f"broker_{row['broker_id']}" for row in shares.rows if is_above(row)} if limited else set()
        values = {name: [row[name] for row in answer.rows] for name in answer.columns[1:]}
        known = [value for line in values.values() for value in line if value is not None]
        has_strips = BAND[0] in values
        top = max([*known, *(value for value, _, _ in levels)], default=1.0) * 1.06 or 1.0
        upright = Scale(min(known) if has_strips else 0.0, top)  # strips are too low to spend half on what is below all
        grid = [(value, "grid", self.write(value)) for value in round_values(top)]
        names = [name for name in values if name not in BAND]
        kinds = {name: f"line{0 if has_strips else index}" for index, name in enumerate(sorted(names))}
        starts = [milliseconds_of(row["window_start"]) for row in answer.rows]
        says, most = self.says, f"the {STRIPS_SHOWN} of {len(brokers)} brokers that were {self.order}"
        if has_strips:
            says += (
                f" A strip for {most if len(brokers) > STRIPS_SHOWN else 'each broker'}: its newest value and its highest. Grey: from "
                f"the lowest to the highest of all brokers. Strips reach from {self.write(upright.low)} to {self.write(top)}."
            )
        drawn = {
            "answer": answer,
            "title": self.title,
            "says": says,
            "lines": [
                {
                    "name": name.replace("_", " "),
                    "kind": "hot" if name in hot else kinds[name],
                    "path": _path(zip(starts, values[name], strict=True), strip, upright),
                    "says": f"{self.write(told[-1])}, at most {self.write(max(told))}" if told else "not known",
                }
                for name in names
                for told in [[value for value in values[name] if value is not None]]
            ],
            "band": _band(answer, strip, upright) if has_strips else "",
            "levels": [(round(_HEIGHT - upright.at(value), 2), kind, text) for value, kind, text in grid + levels],
            "spans": strip.bars,
            "ticks": strip.ticks,
        }
        return (drawn,)


SHARE_LINES = ChartOverWindows(
    name="share_lines", expression="share",
    title="Shares over the windows", says="Tinted: incidents. Dashed: fair share; solid: limit.",
    order="highest above their fair shares", has_limit=True, write=format_percent,
)  # fmt: skip  # a table: short fields share a line
LATENCY_LINES = ChartOverWindows(
    name="latency_lines", expression="request_latency_avg_ms",
    title="Mean request latency over the windows", says="Tinted: incidents.", order="slowest", has_limit=False,
    write=format_ms,
)  # fmt: skip  # a table: short fields share a line


def round_values(top: float) -> list[float]:
    """A few round values below a top.

    >>> round_values(0.51), round_values(490.0)
    ([0.2, 0.4], [100.0, 200.0, 300.0, 400.0])
    """
    unit = 10.0 ** math.floor(math.log10(top))
    step = next(unit * part for part in (0.2, 0.25, 0.5, 1, 2) if top / (unit * part) < 5)
    return [step * count for count in range(1, int(top / step) + 1) if step * count < 0.97 * top]


def _band(answer: Answer, strip: TimeStrip, upright: Scale) -> str:
    low, high = BAND
    return "".join(
        f"M{10 * strip.axis.at(start_ms):.1f} {_HEIGHT - upright.at(row[high]):.2f}"
        f"H{10 * strip.axis.at(start_ms + strip.window_ms):.1f}V{_HEIGHT - upright.at(row[low]):.2f}"
        f"H{10 * strip.axis.at(start_ms):.1f}Z"
        for row in answer.rows
        if row[low] is not None
        for start_ms in [milliseconds_of(row["window_start"])]
    )


def _path(points: Iterable[tuple[int, float | None]], strip: TimeStrip, upright: Scale) -> str:
    parts, previous_ms = [], None
    for start_ms, value in points:
        if value is None:
            previous_ms = None
            continue
        is_next = previous_ms is not None and start_ms - previous_ms <= strip.window_ms
        x, y = 10 * strip.axis.at(start_ms + strip.window_ms / 2), _HEIGHT - upright.at(value)
        # a point alone is a line without length, which a round cap makes a dot
        parts.append(f"{'L' if is_next else f'M{x:.1f} {y:.2f}L'}{x:.1f} {y:.2f}")
        previous_ms = start_ms
    return "".join(parts)
