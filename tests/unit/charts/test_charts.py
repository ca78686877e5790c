"""Pictures. Oracle: the pixels, read back; lengths and heights must be those of the shares."""

import subprocess
import sys
from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from pipeline.charts import ALARM, CALM, MOST_BARS, render_broker_shares, shown_brokers
from tests.placements import load_of


def load(broker_id, share, *, expected_share=1 / 3):
    ratio = None if share is None else share / expected_share
    return load_of(broker_id, 0, 0, expected_share=expected_share, share=share, share_ratio=ratio)


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
    shown = shown_brokers(loads, {3})
    assert [one.broker_id for one in shown] == [3, *range(29, 40)]


def test_the_same_values_give_the_same_bytes():
    loads = [load(1, 0.3), load(2, 0.35), load(3, 0.35)]
    assert render_broker_shares(loads, failing={1}, limit_ratio=1.2) == render_broker_shares(
        list(reversed(loads)), failing={1}, limit_ratio=1.2
    )


def test_matplotlib_is_paid_for_by_pictures_alone_and_pyplot_never():
    said = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys, pipeline.alerting.message as m, pipeline.charts as s\n"
            "print('matplotlib' in sys.modules)\n"
            "s.render_broker_shares([], failing=(), limit_ratio=1.2)\n"
            "print('matplotlib.pyplot' in sys.modules)",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout.split() == ["False", "False"]
