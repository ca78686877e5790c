"""Pictures. Oracle: the pixels, read back; lengths and heights must be those of the shares."""

import subprocess
import sys
from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from pipeline.charts.broker_share import MOST_BARS, render_broker_shares, shown_brokers
from pipeline.charts.palette import ALARM, ALARM_TINT, CALM, LINES
from pipeline.charts.share_over_windows import render_shares_over_windows
from pipeline.model.verdict import BrokerLoad
from pipeline.model.window import TimeWindow

T0_MS = 1_795_251_600_000
MINUTE_MS = 60_000


def load(broker_id, share, *, window=0, expected_share=1 / 3):
    return BrokerLoad(
        window_start_ms=T0_MS + window * MINUTE_MS,
        broker_id=broker_id,
        size_bytes=0,
        record_count=0,
        share=share,
        expected_share=expected_share,
        share_ratio=None if share is None else share / expected_share,
        effective_unit_count=None,
    )


def pixels(png, colour):
    """Where a colour is: a (height, width) mask."""
    rgb = np.asarray(Image.open(BytesIO(png)).convert("RGB"), dtype=int)
    wanted = [int(colour[place : place + 2], 16) for place in (1, 3, 5)]
    return (np.abs(rgb - wanted).sum(axis=2)) <= 6


def bar_lengths(png, colour):
    """Widths of the bars of one colour: the runs in the rows where it fills most."""
    lengths = pixels(png, colour).sum(axis=1)
    return lengths[lengths > 60]


def test_bars_are_as_long_as_the_shares():
    png = render_broker_shares([load(1, 0.6), load(2, 0.3), load(3, 0.1)], failing={1}, limit_ratio=1.2)

    failing, calm = bar_lengths(png, ALARM).max(), bar_lengths(png, CALM)
    assert calm.max() / failing == pytest.approx(0.5, abs=0.03)
    assert calm.min() / failing == pytest.approx(1 / 6, abs=0.03)
    assert Image.open(BytesIO(png)).size == (1120, 300)


def test_without_a_failing_broker_nothing_is_highlighted():
    png = render_broker_shares([load(1, 0.34), load(2, 0.33), load(3, 0.33)], failing=set(), limit_ratio=1.2)

    assert len(bar_lengths(png, ALARM)) == 0


@pytest.mark.parametrize(
    "loads",
    [[], [load(1, None)], [load(1, 1.0, expected_share=1.0)], [load(number, 0.002) for number in range(500)]],
    ids=["none", "no traffic", "one", "500"],
)
def test_odd_numbers_of_brokers_give_a_picture_of_bounded_size(loads):
    width, height = Image.open(BytesIO(render_broker_shares(loads, failing={1}, limit_ratio=1.2))).size

    assert width == 1120
    assert height <= 200 * (0.6 + 0.3 * MOST_BARS) + 1


def test_the_failing_broker_and_the_highest_are_shown():
    loads = [load(number, 0.01 + number / 1000, expected_share=0.02) for number in range(40)]

    shown = shown_brokers(loads, {3}, most=4)

    assert [one.broker_id for one in shown] == [3, 37, 38, 39]


def windows(shares):
    """Three brokers; the first has these shares, the others half of the rest each."""
    return [
        load(broker_id, share if broker_id == 1 else None if share is None else (1 - share) / 2, window=window)
        for window, share in enumerate(shares)
        for broker_id in (1, 2, 3)
    ]


def test_lines_are_as_high_as_the_shares():
    png = render_shares_over_windows(windows([0.2, 0.2, 0.6, 0.6]), window_ms=MINUTE_MS, failing={1}, limit_ratio=1.2)
    rows, columns = np.nonzero(pixels(png, ALARM)[60:])
    other_rows, other_columns = np.nonzero(pixels(png, LINES[1])[60:])
    left, right = columns < 300, columns > 850

    low, high = np.median(rows[left]), np.median(rows[right])
    middle = np.median(other_rows[other_columns < 300])
    assert low > middle > high
    assert (low - middle) / (low - high) == pytest.approx(0.5, abs=0.04)


def test_spans_are_tinted_where_they_are():
    png = render_shares_over_windows(
        windows([0.3, 0.3, 0.6, 0.6]),
        window_ms=MINUTE_MS,
        failing={1},
        limit_ratio=1.2,
        failing_spans=[TimeWindow(T0_MS + 2 * MINUTE_MS, T0_MS + 4 * MINUTE_MS)],
    )
    _, columns = np.nonzero(pixels(png, ALARM_TINT))

    assert columns.min() == pytest.approx((100 + 1084) / 2, abs=4)
    assert columns.max() == pytest.approx(1084, abs=4)


def test_a_window_without_traffic_leaves_a_gap():
    def coloured(shares):
        mask = pixels(
            render_shares_over_windows(windows(shares), window_ms=MINUTE_MS, failing={1}, limit_ratio=1.2), ALARM
        )
        return mask[60:].any(axis=0)[110:1070].mean()

    assert coloured([0.5, 0.5, 0.5, 0.5, 0.5]) > 0.75
    assert coloured([0.5, 0.5, None, 0.5, 0.5]) < 0.55


@pytest.mark.parametrize(
    "loads",
    [[], [load(1, 0.5)], [load(broker, 0.05, window=window) for broker in range(20) for window in range(60)]],
    ids=["none", "one point", "20 brokers, 60 windows"],
)
def test_odd_histories_give_a_picture(loads):
    png = render_shares_over_windows(loads, window_ms=MINUTE_MS, failing={1}, limit_ratio=1.2)

    assert Image.open(BytesIO(png)).size == (1120, 460)


def test_the_same_values_give_the_same_bytes():
    loads = windows([0.3, 0.6])

    assert render_broker_shares(loads[:3], failing={1}, limit_ratio=1.2) == render_broker_shares(
        list(reversed(loads[:3])), failing={1}, limit_ratio=1.2
    )
    assert render_shares_over_windows(
        loads, window_ms=MINUTE_MS, failing={1}, limit_ratio=1.2
    ) == render_shares_over_windows(list(reversed(loads)), window_ms=MINUTE_MS, failing={1}, limit_ratio=1.2)


def test_matplotlib_is_paid_for_by_pictures_alone_and_pyplot_never():
    said = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys, pipeline.alerting.message as m, pipeline.charts.share_over_windows as s\n"
            "print('matplotlib' in sys.modules)\n"
            "s.render_shares_over_windows([], window_ms=1, failing=(), limit_ratio=1.2)\n"
            "print('matplotlib.pyplot' in sys.modules)",
        ],
        capture_output=True,
        text=True,
        check=True,
    )

    assert said.stdout.split() == ["False", "False"]
