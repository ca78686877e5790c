"""Bytes between zones of recordings on brokers 4.4.0. Oracle: the proxy's counts, and the segments of leaders and followers."""

import json
from pathlib import Path

import pytest

from tests.lab.archive import unpack
from tests.lab.rack_aware.between import count_by_others, measure_capture

ARCHIVES = Path(__file__).parents[2] / "data/zone_draws/00"


@pytest.mark.parametrize(("name", "source"), [("zones-00-0-after", "configured"), ("zones-00-1-before", "configured")])
def test_bytes_between_zones_equal_what_others_counted(name, source, tmp_path):
    capture = unpack(ARCHIVES / f"{name}.tar.zst", tmp_path / "capture")
    found, sources = measure_capture(capture, tmp_path / "tables")
    assert found == count_by_others(json.loads((capture / "manifest.json").read_text()))
    assert sources.keys() == {source}
    assert sum(sources.values()) > 1_000_000
