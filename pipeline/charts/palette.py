"""Style of all pictures: readable on light cards, in print and when red-green blind; equal values give equal bytes."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INK = "#0f172a"
MUTED = "#64748b"
GRID = "#e2e8f0"
CARD = "#ffffff"
CALM = "#94a3b8"
ALARM = "#c2410c"
LIMIT = "#7f1d1d"
ALARM_TINT = "#ffedd5"
LINES = ("#0369a1", "#7c3aed", "#0f766e", "#a16207", "#be185d", "#4d7c0f")
"""For lines that are distinguished; blue first."""

FONT = "DejaVu Sans"  # shipped with matplotlib, so that a picture is the same everywhere

PIXELS_PER_INCH = 200  # twice what a mail shows: sharp on dense screens

STYLE: dict[str, Any] = {
    "font.family": FONT, "figure.facecolor": CARD, "savefig.facecolor": CARD, "axes.facecolor": CARD,
    "axes.edgecolor": GRID, "axes.axisbelow": True, "axes.spines.top": False, "axes.spines.right": False,
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
}
"""Without date and program."""


def make_figure(width_inch: float, height_inch: float) -> Figure:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width_inch, height_inch), dpi=PIXELS_PER_INCH)
    FigureCanvasAgg(figure)
    return figure


def save_figure(figure: Figure, file_format: str = "png") -> bytes:
    """The bytes of a picture: `png`, `svg` or `pdf`."""
    buffer = BytesIO()
    figure.savefig(buffer, format=file_format, metadata=_METADATA[file_format])
    return buffer.getvalue()
