"""The picture of a simulation. Oracle: its pixels; dots lie where shares and latencies say."""

import subprocess
import sys
from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from pipeline.charts import LINES, render_simulation
from pipeline.simulator.scenario.scenario_file import parse_scenario
from pipeline.simulator.summary import Range, VariantSummary

SCENARIO = """\
cluster: {brokers: 2}
topics: [{name: foo, partitions: 2}]
producers:
  - name: app
    version: 3.9.1
    traffic: {arrivals: {kind: constant, records_per_s: 1}, records: 1, value_bytes: 1}
variants:
  - {name: a}
  - {name: b}
"""


def point(value):
    return Range(value, value, value)


def draw(shares=((0.75, 0.25), (0.5, 0.5)), latency_ms=10.0, file_format="png"):
    scenario = parse_scenario(SCENARIO, "s.yaml")
    run = {f"latency_{name}_ms": point(latency_ms) for name in ("p50", "p95", "p99", "p999")}
    summaries = [
        VariantSummary(variant, (1, 2), run, tuple({"bytes_share": point(share)} for share in of), (), ())
        for variant, of in zip(scenario.variants, shares, strict=True)
    ]
    return render_simulation(scenario, summaries, file_format)


def dots(png, colour, *, left):
    """Middles of the dots of a colour in one half, from the top: across and down, in pixels."""
    rgb = np.asarray(Image.open(BytesIO(png)).convert("RGB"), dtype=int)
    wanted = [int(colour[place : place + 2], 16) for place in (1, 3, 5)]
    mask = np.abs(rgb - wanted).sum(axis=2) <= 6
    half = rgb.shape[1] * 11 // 20
    mask[:, half:] &= not left
    mask[:, :half] &= left
    mask[:230] = False  # the legend
    rows = np.flatnonzero(mask.any(axis=1))
    groups = np.split(rows, np.flatnonzero(np.diff(rows) > 3) + 1)
    return [(np.flatnonzero(mask[group].any(axis=0)).mean(), group.mean()) for group in groups if len(group) > 6]


def test_dots_lie_where_the_shares_say():
    png = draw()
    first, second = dots(png, LINES[0], left=True), dots(png, LINES[1], left=True)
    (x75, _), (x50, _) = first[0], first[-1]
    (x25, _), (other50, _) = second[0], second[-1]
    assert x50 == pytest.approx(other50, abs=2)
    assert x75 - x50 == pytest.approx(x50 - x25, abs=6)
    assert x75 > x50 > x25


def test_equal_values_give_equal_bytes_and_others_do_not():
    assert draw() == draw()
    assert draw() != draw(latency_ms=20.0)
    assert draw(file_format="svg") == draw(file_format="svg")


@pytest.mark.parametrize(("file_format", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_formats(file_format, start):
    assert draw(file_format=file_format).startswith(start)


def test_matplotlib_is_paid_for_by_pictures_alone_and_pyplot_never():
    code = """
import sys
import pipeline.alerting.message, pipeline.charts
print("matplotlib" in sys.modules)
from tests.unit.charts.test_simulation import draw
draw()
print("matplotlib.pyplot" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
