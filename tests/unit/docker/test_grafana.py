"""The dashboard. Oracle: Grafana's own types as a JSON schema, and the list of metrics."""

import json
import re
from pathlib import Path

import jsonschema
import pytest

from pipeline.report.metrics import FAMILIES, PREFIX

DASHBOARD = json.loads((Path(__file__).parents[3] / "docker/grafana/partition-health.json").read_text())
SCHEMA = json.loads(Path(__file__).with_name("grafana-schema.json").read_text())["properties"]


def test_the_dashboard_is_one_by_grafanas_types():
    jsonschema.validate(DASHBOARD, SCHEMA["dashboard"])


@pytest.mark.parametrize("panel", DASHBOARD["panels"], ids=lambda panel: panel["title"])
def test_a_panel_has_options_that_its_kind_knows(panel):
    jsonschema.validate(panel["options"], SCHEMA[panel["type"]])
    if panel["type"] == "timeseries":
        jsonschema.validate(panel["fieldConfig"]["defaults"]["custom"], SCHEMA["timeseriesField"])


def test_panels_lie_on_the_grid_and_not_on_each_other():
    cells = [
        (x, y)
        for panel in DASHBOARD["panels"]
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(cells) == len(set(cells))
    assert {x for x, _ in cells} <= set(range(24))
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])


def test_every_metric_it_asks_for_exists():
    known = {PREFIX + name for family in FAMILIES for name in family.metrics}
    assert set(re.findall(rf"{PREFIX}\w+", json.dumps(DASHBOARD))) <= known
