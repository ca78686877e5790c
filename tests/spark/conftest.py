"""The committed capture ingested once for the lane."""

import json

import pytest

from tests.engines import on_sail
from tests.lab.facts import read_capture
from tests.spark.capture_runs import ALL_SOURCES, SCRAPES, Capture, plan, run_all

CLEAR_TOPIC = "regions"
STRATEGY = "tests.spark.key_strategies:by_number"


@pytest.fixture(scope="session")
def manifest(capture_folder):
    return json.loads((capture_folder / "manifest.json").read_text())


@pytest.fixture(scope="session")
def capture(capture_folder, manifest):
    clock = manifest["clock"]
    return Capture(capture_folder, clock["start_ms"], clock["end_ms"], clock["recorded_until_ms"])


@pytest.fixture(scope="session")
def facts(capture_folder):
    """Counts by a reader of headers that shares no code with the pipeline."""
    return read_capture(capture_folder)


@pytest.fixture(scope="session")
def ingested(capture, manifest, tmp_path_factory):
    """All topics of the capture, all windows in one run, a few of the scrapes."""
    folder = tmp_path_factory.mktemp("ingested")
    part = capture.part(folder / "capture", topics=manifest["topics"], scrapes=SCRAPES)
    keys = {"clear_topics": {"demo": [CLEAR_TOPIC]}, "strategies": [STRATEGY], "partition_counts": [7]}
    config = part.write_config(folder, sources=ALL_SOURCES, keys=keys)
    with on_sail() as spark:
        return run_all(spark, plan(config, capture.span()))
