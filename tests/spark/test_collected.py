"""Collected on three hosts, the capture gives the tables that its disks give. Oracle: the run on the disks themselves."""

from __future__ import annotations

import pytest
import yaml

from pipeline.config_file import load_config
from pipeline.engine import InProcess
from pipeline.jobs import ingest
from pipeline.sources.collected.collector import Order, Pace, collect
from pipeline.sources.collected.stored_folder import StoredFolder
from tests.spark.capture_runs import CLUSTER, compare, list_rows, plan, stored

TOPICS = ("audit", "codec-zstd", "regions")
HOSTS = ("0", "1", "2")
UNIT_BYTES = 128 << 10  # small stretches, so that there are many
DAY_MS = 86_400_000


@pytest.fixture(scope="module")
def part(capture, tmp_path_factory):
    return capture.part(tmp_path_factory.mktemp("hosts") / "capture", topics=TOPICS)


def with_source(config, name, source):
    """The same configuration with another source, and tables of its own."""
    document = yaml.safe_load((config.warehouse.parent / "partition-health.yaml").read_text())
    document["clusters"][CLUSTER]["sources"] = [source]
    document["warehouse"] = name
    file = config.warehouse.parent / f"{name}.yaml"
    file.write_text(yaml.safe_dump(document))
    return load_config(file)


def test_collected_hosts_give_the_tables_of_their_disks(spark, part, tmp_path):
    config = part.write_config(tmp_path, topics=TOPICS)
    brokers, landing = part.folder / "brokers", tmp_path / "landing"
    pace = Pace(bytes_per_s=10**12, clock=lambda: 0.0, pause=lambda _: None)
    for host in HOSTS:
        order = Order(
            paths=[brokers / host],
            config=config,
            cluster=CLUSTER,
            host=host,
            keep_ms=DAY_MS,
            as_of_ms=part.recorded_until_ms,
            run_id=host,
            unit_bytes=UNIT_BYTES,
            commit_bytes=8 * UNIT_BYTES,
        )
        assert collect(order, StoredFolder(str(landing)), pace).read_bytes
    disks = {"kind": "log_directories", "paths": [str(brokers / host) for host in HOSTS]}
    found = {}
    for name, source in (("disks", disks), ("collected", {"kind": "collected", "path": str(landing)})):
        run = plan(with_source(config, name, source), part.span())
        ingest.run(spark if name == "collected" else InProcess(), run)
        found[name] = list_rows(run.warehouse, ("bronze.window_status.source", "bronze.quarantine.source"))
    assert compare(found["disks"], found["collected"]) == {}
    assert sum(found["collected"]["silver.record_batches"][1].values()) > 1_000

    for file in (landing / "1/parts").iterdir():
        file.unlink()
    run = plan(with_source(config, "without-1", {"kind": "collected", "path": str(landing)}), part.span(2, 3))
    ingest.run(InProcess(), run)
    status = stored(run.warehouse, "bronze.window_status", "source", "expected_count", "arrived_count")
    assert status == [{"source": "collected", "expected_count": 3, "arrived_count": 2}]
    (row,) = stored(run.warehouse, "bronze.quarantine", "path", "reason")
    assert row["path"] == "landing/1"
    assert row["reason"].startswith("the host is left out: gone")
