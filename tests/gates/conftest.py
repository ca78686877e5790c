"""Four minutes of three topics of the capture, one broker slow: ingested, replayed and judged once for all tests of gates."""

import dataclasses
import json
import shutil

import pytest

from pipeline.jobs import ingest
from pipeline.storage.rows import load_rows
from tests.engines import sail
from tests.gates.rows import declared
from tests.gates.warehouse import count_breaking, fill_warehouse, list_batches, rewrite
from tests.spark.capture_runs import ALL_SOURCES, SCRAPES, Capture, plan

TOPICS = ("orders", "payments", "clicks")
FIRST, END = 4, 8  # minutes of the capture
STRATEGY = "tests.spark.key_strategies:by_number"
ZONES = {"brokers": {0: "a", 1: "b", 2: "c"}, "price_per_gb": 0.02}


@pytest.fixture(scope="session")
def healthy(capture_folder, tmp_path_factory):
    """A run without a defect."""
    clock = json.loads((capture_folder / "manifest.json").read_text())["clock"]
    capture = Capture(capture_folder, clock["start_ms"], clock["end_ms"], clock["recorded_until_ms"])
    folder = tmp_path_factory.mktemp("healthy")
    part = capture.part(folder / "capture", topics=TOPICS, scrapes=SCRAPES)
    keys = {"strategies": [STRATEGY], "partition_counts": [7]}
    config = part.write_config(folder, topics=TOPICS, sources=ALL_SOURCES, zones=ZONES, keys=keys)
    context = plan(config, part.span(FIRST, END))
    fill_warehouse(context)
    add_matrices(context, part, folder / "counted", keys)
    return context


def add_matrices(run, part, folder, keys):
    """A warehouse has single keys or sums over them: puts the sums of a run that keeps only counts beside the keys of another."""
    counting = {"topics": TOPICS, "sources": ALL_SOURCES, "keys": keys | {"mode": "counts_only"}}
    counted = plan(part.write_config(folder, **counting), part.span(FIRST, END))
    ingest.run(sail(), counted)
    rewrite(
        run, "silver.key_matrices", lambda _: load_rows(counted.warehouse, declared("silver.key_matrices")).to_pylist()
    )


@pytest.fixture(scope="session")
def counts_before(healthy):
    """What breaks checks of the healthy run: back-tests that missed while the broker was slow."""
    counts = count_breaking(healthy, list_batches(healthy))
    assert {suite for suite, _ in counts} == {"back_tests_gate"}
    return counts


@pytest.fixture
def run(healthy, tmp_path):
    """The same run with tables of its own."""
    shutil.copytree(healthy.warehouse, tmp_path / "warehouse")
    return dataclasses.replace(healthy, config=healthy.config.model_copy(update={"warehouse": tmp_path / "warehouse"}))


@pytest.fixture
def find_new(counts_before):
    """What fails in suites over a run's tables, and breaks more rows than in the healthy run."""

    def find(run, suites):
        found = count_breaking(run, suites)
        return {check for check, count in found.items() if count > counts_before.get(check, 0)}

    return find
