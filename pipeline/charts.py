"""Colours of pages, and the picture of `simulate --plot`: readable when red-green blind; equal values give equal bytes."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from pipeline.simulator.scenario.scenario_file import ScenarioFile
    from pipeline.simulator.summary import Range, VariantSummary


INK = "#0f172a"
MUTED = "#64748b"
GRID = "#e2e8f0"
CARD = "#ffffff"
CALM = "#94a3b8"
ALARM = "#c2410c"
LIMIT = "#7f1d1d"
ALARM_TINT = "#ffedd5"
LINES = ("#0369a1", "#7c3aed", "#0f766e", "#a16207", "#be185d", "#4d7c0f")  # blue first

_PIXELS_PER_INCH = 200  # sharp on dense screens
_STYLE: dict[str, Any] = {
    "font.family": "DejaVu Sans",  # shipped with matplotlib, so that a picture is the same everywhere
    "figure.facecolor": CARD, "savefig.facecolor": CARD, "axes.facecolor": CARD,
    "axes.edgecolor": GRID, "axes.axisbelow": True, **{f"axes.spines.{side}": False for side in ("top", "right", "bottom")},
    "grid.color": GRID, "grid.linewidth": 0.8,
    **{f"{axis}tick.{size}.size": 0 for axis in "xy" for size in ("major", "minor")},
    **{f"{axis}tick.labelsize": 7.5 for axis in "xy"}, **{f"{axis}tick.labelcolor": MUTED for axis in "xy"},
    "legend.frameon": False, "legend.fontsize": 7.5, "legend.labelcolor": INK,
    "svg.hashsalt": "pictures",  # else names inside differ from run to run
}  # fmt: skip  # a table: short fields share a line
"""For `rc_context`, around all that draws."""
_METADATA: dict[str, dict[str, Any]] = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}  # without date and program


_WIDTH_INCH = 9.6
_ROW_INCH = 0.52
_FRAME_INCH = 1.62
_LATENCIES = (
    ("p50", "latency_p50_ms", "#94a3b8"),
    ("p95", "latency_p95_ms", "#7c3aed"),
    ("p99", "latency_p99_ms", "#be185d"),
    ("p99.9", "latency_p999_ms", "#7f1d1d"),
)
_LEAST_MS = 0.01


def render_simulation(scenario: ScenarioFile, summaries: Sequence[VariantSummary], file_format: str) -> bytes:
    """Shares and latencies: dots are medians over the seeds, lines go from 5 % to 95 %; `png` (200 dpi), `svg` or `pdf`."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    height_inch = _FRAME_INCH + _ROW_INCH * max(len(summaries), 2)
    bottom, tall = 0.5 / height_inch, 1 - _FRAME_INCH / height_inch
    style: dict[str, Any] = {"ha": "left", "va": "top"}
    count = len(summaries[0].seeds)
    seeds = f"{count} seeds: dots are medians, lines go from 5 % to 95 %" if count > 1 else "one seed"
    with rc_context(_STYLE):
        figure = Figure(figsize=(_WIDTH_INCH, height_inch), dpi=_PIXELS_PER_INCH)
        FigureCanvasAgg(figure)
        _draw_shares(figure.add_axes((0.165, bottom, 0.36, tall)), summaries)
        axes = figure.add_axes((0.595, bottom, 0.38, tall))
        axes.set_xscale("log")
        for row, summary in enumerate(summaries):
            for index, (label, name, colour) in enumerate(_LATENCIES):
                _draw_range(axes, (row + _spread(index, len(_LATENCIES)), colour), summary.run[name], 1, label)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g} ms" if value < 1000 else f"{value / 1000:g} s")
        _dress(axes, summaries, "latency of a record, from send() to its acknowledgement")
        axes.set_yticks(range(len(summaries)), [""] * len(summaries))
        figure.text(0.012, 1 - 0.12 / height_inch, scenario.name, fontsize=12, fontweight="bold", color=INK, **style)
        figure.text(0.012, 1 - 0.36 / height_inch, f"simulated, {seeds}", fontsize=8, color=MUTED, **style)
        buffer = BytesIO()
        figure.savefig(buffer, format=file_format, metadata=_METADATA[file_format])
        return buffer.getvalue()


def _draw_shares(axes: Axes, summaries: Sequence[VariantSummary]) -> None:
    brokers = summaries[0].variant.scenario.brokers
    is_coloured = len(brokers) <= len(LINES)
    colours = [LINES[index] if is_coloured else CALM for index in range(len(brokers))]
    for row, summary in enumerate(summaries):
        for share in sorted(set(summary.variant.fair_shares)):
            axes.plot([100 * share] * 2, [row - 0.5, row + 0.5], color=INK, lw=0.9, linestyle=(0, (3, 2)), zorder=2)
        highest = max(figures["bytes_share"].median or 0.0 for figures in summary.brokers)
        for index, figures in enumerate(summary.brokers):
            offset = _spread(index, len(brokers))
            name = f"broker {brokers[index].broker_id}" if is_coloured else "a broker"
            is_highest = (figures["bytes_share"].median or 0.0) == highest
            colour = ALARM if is_highest and not is_coloured else colours[index]
            _draw_range(axes, (row + offset, colour), figures["bytes_share"], 100, name)
    axes.set_xlim(left=0)
    axes.xaxis.set_major_formatter("{x:g} %")
    _dress(axes, summaries, "share of the bytes, by broker (dashed: fair share)")
    axes.set_yticks(range(len(summaries)), [summary.variant.name for summary in summaries])


def _draw_range(axes: Axes, at: tuple[float, str], figure: Range, factor: float, label: str) -> None:
    height, colour = at
    if figure.median is None or figure.low is None or figure.high is None:
        return
    low, median, high = (max(part * factor, _LEAST_MS) for part in (figure.low, figure.median, figure.high))
    axes.plot([low, high], [height, height], color=colour, linewidth=2.2, solid_capstyle="round", alpha=0.45, zorder=3)
    axes.plot([median], [height], color=colour, marker="o", markersize=4.6, linestyle="", zorder=5, label=label)


def _spread(place: int, count: int) -> float:
    """Offset of one of several marks in a row of height 1."""
    return 0.0 if count == 1 else (place / (count - 1) - 0.5) * 0.56


def _dress(axes: Axes, summaries: Sequence[VariantSummary], title: str) -> None:
    axes.set_ylim(len(summaries) - 0.5, -0.5)
    for row in range(1, len(summaries)):
        axes.axhline(row - 0.5, color=GRID, linewidth=0.8, zorder=0)
    axes.grid(visible=True, axis="x", zorder=0)
    axes.tick_params(axis="y", labelcolor=INK, labelsize=8.5)
    above: dict[str, Any] = {"xycoords": "axes fraction", "xytext": (0, 22), "textcoords": "offset points"}
    axes.annotate(title, (0, 1), **above, fontsize=8.5, color=INK)
    marks: dict[str, Any] = {}  # the first of each kind, all in a row above the axes
    for mark, name in zip(*axes.get_legend_handles_labels(), strict=True):
        marks.setdefault(name, mark)
    place: dict[str, Any] = {"loc": "lower left", "ncols": max(len(marks), 1), "bbox_to_anchor": (-0.01, 1.0)}
    look = {"borderaxespad": 0.2, "handlelength": 0.8, "handletextpad": 0.4, "columnspacing": 1.1}
    axes.legend(marks.values(), marks, **place, **look)
