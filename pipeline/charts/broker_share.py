"""Bars of broker shares in one window, with fair share and limit."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from pipeline.charts.palette import ALARM, CALM, INK, LIMIT, STYLE, make_figure, save_figure
from pipeline.model.verdict import BrokerLoad

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_BARS = 12
_WIDTH_INCH = 5.6
_BAR_INCH = 0.3
_FRAME_INCH = 0.6


def shown_brokers(loads: Sequence[BrokerLoad], failing: Collection[int]) -> tuple[BrokerLoad, ...]:
    """The brokers worth a line where not all fit, by id: the failing, then those furthest above their fair share."""
    ranked = sorted(loads, key=lambda load: (load.broker_id not in failing, -(load.share_ratio or 0.0), load.broker_id))
    return tuple(sorted(ranked[:MOST_BARS], key=lambda load: load.broker_id))


def render_broker_shares(loads: Sequence[BrokerLoad], *, failing: Collection[int], limit_ratio: float) -> bytes:
    """PNG, 1120 pixels wide (560 shown): a bar per broker, of more than 12 the failing and the highest."""
    from matplotlib import rc_context

    bars = shown_brokers(loads, failing)
    height_inch = _FRAME_INCH + _BAR_INCH * max(len(bars), 2)
    with rc_context(STYLE | {"axes.spines.bottom": False}):
        figure = make_figure(_WIDTH_INCH, height_inch)
        axes = figure.add_axes((0.15, 0.32 / height_inch, 0.74, 1 - _FRAME_INCH / height_inch))
        _draw_bars(axes, bars, failing, limit_ratio)
        reach = max([100 * max(load.share or 0.0, load.expected_share * limit_ratio) for load in bars], default=100.0)
        axes.set_xlim(0, reach * 1.02 or 1)
        axes.set_ylim(max(len(bars), 1) - 0.45, -0.55)
        axes.set_yticks(range(len(bars)), [f"broker {load.broker_id}" for load in bars])
        axes.tick_params(axis="y", labelcolor=INK, labelsize=8.5)
        axes.xaxis.set_major_formatter("{x:g} %")
        axes.grid(visible=True, axis="x", zorder=0)
        return save_figure(figure)


def _draw_bars(axes: Axes, bars: Sequence[BrokerLoad], failing: Collection[int], limit_ratio: float) -> None:
    """Each bar with a piece of each line: capacities may differ, and the limit with them."""
    beside: dict[str, Any] = {"xycoords": axes.get_yaxis_transform(), "xytext": (34, 0), "textcoords": "offset points"}
    beside |= {"ha": "right", "va": "center", "fontsize": 8.5}
    for index, load in enumerate(bars):
        colour, ink, weight = (ALARM, ALARM, "bold") if load.broker_id in failing else (CALM, INK, "normal")
        percent = 100 * (load.share or 0.0)
        axes.barh(index, percent, height=0.68, color=colour, linewidth=0, zorder=2)
        axes.annotate(f"{percent:.1f} %", (1, index), **beside, fontweight=weight, color=ink)
        fair, limit = 100 * load.expected_share, 100 * load.expected_share * limit_ratio
        axes.plot([fair, fair], [index - 0.5, index + 0.5], color=INK, linewidth=1.1, linestyle=(0, (3, 2)), zorder=3)
        axes.plot([limit, limit], [index - 0.5, index + 0.5], color=LIMIT, linewidth=1.3, zorder=3)
    if bars:
        fair = 100 * bars[0].expected_share
        sides = ("right", "left") if fair * (limit_ratio - 1) < 18 else ("center", "center")
        style: dict[str, Any] = {"fontsize": 7.5, "va": "bottom", "clip_on": False}
        axes.text(fair, -0.58, "fair share", color=INK, ha=sides[0], **style)
        axes.text(fair * limit_ratio, -0.58, f"limit {limit_ratio:.2f}x", color=LIMIT, ha=sides[1], **style)
