"""One window of traffic, watched in two ways, and the tables made of it."""

import logging
from collections import defaultdict

import pytest

from pipeline.config_file import load_config
from pipeline.jobs import ingest
from pipeline.model.window import TimeWindow
from pipeline.runs import plan_runs
from tests.config_files import write_configuration
from tests.engines import on_sail
from tests.integration.metrics.sources import (
    BCRYPT,
    BY_FILES,
    BY_SERVER,
    SECRET,
    VARIABLE,
    WRONG,
    file_sources,
    server_sources,
)
from tests.lab.facts import read_partition
from tests.lab.measured_clients import PERF_CLIENTS, RDKAFKA_TOPIC, WINDOW_MS, watch_producers
from tests.lab.prometheus import find_prometheus
from tests.spark.capture_runs import stored


@pytest.fixture(scope="package")
def watched(tmp_path_factory):
    if find_prometheus() is None:
        pytest.skip("no prometheus on this machine: install the package prometheus")
    users = {"basic_auth_users": {"pipeline": BCRYPT}}
    with watch_producers(tmp_path_factory.mktemp("watched"), users, ("pipeline", SECRET)) as found:
        yield found


@pytest.fixture(scope="package")
def config(watched, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    clusters = {
        BY_FILES: {"sources": file_sources(watched)},
        BY_SERVER: {
            "sources": server_sources(watched),
            "producers": {f"{next(iter(PERF_CLIENTS))}-producer": {"linger.ms": 0}},
        },
        WRONG: {"sources": [server_sources(watched, "TEST_WRONG_PASSWORD")[0], *file_sources(watched)[1:2]]},
    }
    return write_configuration(folder, clusters, window=f"PT{WINDOW_MS // 1000}S")


@pytest.fixture(scope="package")
def logged(watched, config):
    """All three clusters ingested, with the password and a wrong one in the environment: everything that was logged."""
    records = []
    handler = logging.Handler(logging.DEBUG)
    handler.emit = lambda record: records.append(record.getMessage())
    root = logging.getLogger()
    with pytest.MonkeyPatch.context() as patch, on_sail() as spark:
        patch.setenv(VARIABLE, SECRET)
        patch.setenv("TEST_WRONG_PASSWORD", f"not-{SECRET}")
        level = root.level
        root.setLevel(logging.DEBUG)  # loggers remember what they asked before; this makes them ask anew
        root.addHandler(handler)
        span = TimeWindow(watched.start_ms, watched.end_ms)
        for run in plan_runs(load_config(config), span, run_id="test", now_ms=watched.end_ms + 10_000):
            records += ingest.run(spark, run).notes
        root.removeHandler(handler)
        root.setLevel(level)
    return records


@pytest.fixture(scope="package")
def tables(logged, config):
    """Rows of a table, of one cluster."""

    def rows(name, cluster):
        return [row for row in stored(config.parent / "warehouse", name) if row["cluster"] == cluster]

    return rows


@pytest.fixture(scope="package")
def log_bytes(watched):
    """Bytes appended since the window's start, by topic and leader."""
    held = defaultdict(dict)
    for topic in (*PERF_CLIENTS, RDKAFKA_TOPIC):
        for broker in watched.cluster.brokers:
            facts = read_partition(broker.log_directory / f"{topic}-{broker.node_id}", watched.start_ms)
            held[topic][broker.node_id] = facts.bytes_since_start
    return held
