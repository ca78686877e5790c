"""Lines of broker shares over windows: how a broker came to carry too much, and how it went."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pipeline.charts.palette import (
    ALARM,
    ALARM_TINT,
    CALM,
    INK,
    LIMIT,
    LINES,
    MUTED,
    STYLE,
    add_legend,
    make_figure,
    save_figure,
)
from pipeline.model.verdict import BrokerLoad
from pipeline.model.window import DAY_MS, TimeWindow

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_WIDTH_INCH, _HEIGHT_INCH = 5.6, 2.3
_MOST_TICKS = 7
_MOST_MARKERS = 48
_Line = list[tuple[float, float]]


def render_shares_over_windows(
    loads: Sequence[BrokerLoad],
    *,
    window_ms: int,
    failing: Collection[int],
    limit_ratio: float,
    failing_spans: Sequence[TimeWindow] = (),
) -> bytes:
    """Draws each broker's share, window by window, each point in the middle of its window.

    A window without traffic leaves a gap in every line. Fair share and limit are drawn for the failing broker, else for
    the first: capacities may differ. `failing_spans`, such as incidents, are tinted.

    Returns:
        PNG at 200 pixels an inch, half of them shown; the same bytes for the same values.
    """
    from matplotlib import rc_context

    lines = _lines(loads, window_ms)
    colours = _colours(lines, failing)
    names = _names(lines, colours)
    with rc_context(STYLE | {"axes.spines.left": False}):
        figure = make_figure(_WIDTH_INCH, _HEIGHT_INCH)
        axes = figure.add_axes(
            (0.5 / _WIDTH_INCH, 0.36 / _HEIGHT_INCH, 1 - 0.68 / _WIDTH_INCH, 1 - 0.64 / _HEIGHT_INCH)
        )
        for span in failing_spans:
            axes.axvspan(span.start_ms, span.end_ms, color=ALARM_TINT, linewidth=0, zorder=0)
        for broker_id in sorted(lines, key=lambda broker_id: (broker_id not in failing, broker_id)):
            is_failing = broker_id in failing
            _draw_line(axes, lines[broker_id], colours[broker_id], is_failing=is_failing, name=names[broker_id])
        _draw_levels(axes, loads, failing, limit_ratio)
        _dress(axes, loads, window_ms, limit_ratio)
        above = {"bbox_to_anchor": (-0.01, 0.99), "borderaxespad": 0}
        add_legend(axes, **above, handlelength=1.4, handletextpad=0.45, columnspacing=1.2)
        return save_figure(figure)


def _lines(loads: Iterable[BrokerLoad], window_ms: int) -> dict[int, _Line]:
    """Points (middle of the window, per cent) by broker id; NaN where a window is missing or without traffic."""
    known = {(load.broker_id, load.window_start_ms): load.share for load in loads}
    starts = sorted({start_ms for _, start_ms in known})
    lines: defaultdict[int, _Line] = defaultdict(list)
    for broker_id in sorted({broker_id for broker_id, _ in known}):
        previous_ms = None
        for start_ms in starts:
            if previous_ms is not None and start_ms - previous_ms > window_ms:
                lines[broker_id].append((previous_ms + window_ms, float("nan")))
            share = known.get((broker_id, start_ms))
            lines[broker_id].append((start_ms + window_ms / 2, float("nan") if share is None else 100 * share))
            previous_ms = start_ms
    return dict(lines)


def _colours(lines: Mapping[int, _Line], failing: Collection[int]) -> dict[int, str]:
    calm = [broker_id for broker_id in lines if broker_id not in failing]
    distinct = len(calm) <= len(LINES)
    colours = {broker_id: LINES[place] if distinct else CALM for place, broker_id in enumerate(calm)}
    return colours | {broker_id: ALARM for broker_id in lines if broker_id in failing}


def _draw_line(axes: Axes, line: _Line, colour: str, *, is_failing: bool, name: str) -> None:
    axes.plot(
        [at_ms for at_ms, _ in line],
        [percent for _, percent in line],
        color=colour,
        linewidth=2.2 if is_failing else 0.8 if colour == CALM else 1.3,
        marker="o" if len(line) <= _MOST_MARKERS and colour != CALM else "",
        markersize=3.4 if is_failing else 2.4,
        solid_joinstyle="round",
        zorder=4 if is_failing else 3,
        label=name,
    )


def _draw_levels(axes: Axes, loads: Sequence[BrokerLoad], failing: Collection[int], limit_ratio: float) -> None:
    if not loads:
        return
    fair = 100 * min(loads, key=lambda load: (load.broker_id not in failing, load.broker_id)).expected_share
    axes.axhline(fair, color=INK, linewidth=1, linestyle=(0, (3, 2)), zorder=2, label="fair share")
    axes.axhline(fair * limit_ratio, color=LIMIT, linewidth=1, zorder=2, label=f"limit {limit_ratio:.2f}x")


def _names(lines: Mapping[int, _Line], colours: Mapping[int, str]) -> dict[int, str]:
    """Labels of the legend by line; grey lines share an entry, an underscore hides one."""
    grey = [broker_id for broker_id in lines if colours[broker_id] == CALM]
    names = {broker_id: f"broker {broker_id}" for broker_id in lines}
    names |= dict.fromkeys(grey, "_")
    return names | ({grey[0]: f"{len(grey)} others"} if grey else {})


def _dress(axes: Axes, loads: Sequence[BrokerLoad], window_ms: int, limit_ratio: float) -> None:
    starts = sorted({load.window_start_ms for load in loads}) or [0]
    highest = max((100 * max(load.share or 0.0, load.expected_share * limit_ratio) for load in loads), default=100.0)
    axes.set_ylim(0, highest * 1.08 or 1)
    axes.set_xlim(starts[0], starts[-1] + window_ms)
    step = -(-((starts[-1] - starts[0]) // window_ms + 1) // _MOST_TICKS)
    ticks = range(starts[0], starts[-1] + window_ms, step * window_ms)
    pattern = "%H:%M" if starts[-1] - starts[0] < DAY_MS else "%d %b\n%H:%M"
    axes.set_xticks(list(ticks), [datetime.fromtimestamp(tick_ms // 1000, UTC).strftime(pattern) for tick_ms in ticks])
    below: dict[str, Any] = {"xycoords": "axes fraction", "xytext": (-6, -11), "textcoords": "offset points"}
    axes.annotate("UTC", (1, 0), **below, fontsize=7.5, color=MUTED)
    axes.yaxis.set_major_formatter("{x:g} %")
    axes.grid(visible=True, axis="y")
