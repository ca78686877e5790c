"""Collected on three hosts, the capture gives the tables that its disks give. Oracle: the run on the disks themselves."""

import pytest
import yaml

from expectations.gates import check_ingested
from pipeline.config_file import load_config
from pipeline.jobs import ingest
from pipeline.jobs.replay import pending_windows
from pipeline.sources.collected.collector import CollectRequest, RateLimit, collect
from pipeline.sources.collected.manifest import read_manifest, write_manifest
from pipeline.sources.collected.stored_folder import StoredFolder
from pipeline.storage.window_status import windows_in_doubt
from tests.engines import sail
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


def collect_all(part, config, landing, **sizes):
    """What each host's collector writes."""
    rate_limit = RateLimit(bytes_per_s=10**12, clock=lambda: 0.0, pause=lambda _: None)
    of = {"config": config, "cluster": CLUSTER, "keep_ms": DAY_MS, "as_of_ms": part.recorded_until_ms, **sizes}
    for host in HOSTS:
        request = CollectRequest(paths=[part.folder / "brokers" / host], host=host, run_id=host, **of)
        assert collect(request, StoredFolder(str(landing)), rate_limit).read_bytes


def test_collected_hosts_give_the_tables_of_their_disks(spark, part, tmp_path):
    config = part.write_config(tmp_path, topics=TOPICS)
    brokers, landing = part.folder / "brokers", tmp_path / "landing"
    collect_all(part, config, landing, unit_bytes=UNIT_BYTES, commit_bytes=8 * UNIT_BYTES)
    disks = {"kind": "log_directories", "paths": [str(brokers / host) for host in HOSTS]}
    found = {}
    for name, source in (("disks", disks), ("collected", {"kind": "collected", "path": str(landing)})):
        run = plan(with_source(config, name, source), part.span())
        ingest.run(spark if name == "collected" else sail(), run)
        found[name] = list_rows(run.warehouse, ("bronze.window_status.source", "bronze.quarantine.source"))
    assert compare(found["disks"], found["collected"]) == {}
    assert sum(found["collected"]["silver.record_batches"][1].values()) > 1_000
    for file in (landing / "1/parts").iterdir():
        file.unlink()
    run = plan(with_source(config, "without-1", {"kind": "collected", "path": str(landing)}), part.span(2, 3))
    ingest.run(sail(), run)
    status = stored(run.warehouse, "bronze.window_status", "source", "expected_count", "arrived_count")
    assert status == [{"source": "collected", "expected_count": 3, "arrived_count": 2}]
    (row,) = stored(run.warehouse, "bronze.quarantine", "path", "reason")
    assert row["path"] == "landing/1"
    assert row["reason"].startswith("the host is left out, parts are gone")


def collect_ledger(capture, tmp_path):
    """Three hosts' collections of a topic; the part of the capture, the landing folder and the configuration."""
    part = capture.part(tmp_path / "capture", topics=("ledger",))
    landing = tmp_path / "landing"
    config = part.write_config(tmp_path, sources=("collected",), landing=str(landing))
    collect_all(part, config, landing)
    return part, landing, config


def test_a_host_that_says_it_read_all_partitions_takes_nothing_from_others(capture, tmp_path):
    """Of 1,200 records 390 were left, and the windows trusted, where what a host said decided which copy counts."""
    part, landing, config = collect_ledger(capture, tmp_path)
    states = [read_manifest(StoredFolder(f"{landing}/{host}")).state for host in HOSTS]
    assert all(one.newest_ms >= one.known_since_ms > 0 for one in states)  # where its metadata log ends
    claimed = [
        one.model_copy(update={"next_offset": 2**62})
        for host in HOSTS
        for one in read_manifest(StoredFolder(f"{landing}/{host}")).progress
    ]
    folder = StoredFolder(f"{landing}/2")
    write_manifest(folder, read_manifest(folder).model_copy(update={"progress": tuple(claimed)}))
    run = plan(config, part.span(1, 3))
    ingest.run(sail(), run)
    traffic = stored(run.warehouse, "silver.partition_traffic", "partition", "record_count")
    assert sum(row["record_count"] for row in traffic) == 1_200
    assert {row["partition"] for row in traffic} == {0, 1, 2}
    status = stored(run.warehouse, "bronze.window_status", "expected_count", "arrived_count", "missing")
    assert {(row["expected_count"], row["arrived_count"]) for row in status} == {(4, 3)}
    assert all("2 says it read ledger-2 up to offset 4611686018427387904" in row["missing"] for row in status)
    quarantine = stored(run.warehouse, "bronze.quarantine", "path", "reason")
    reasons = [row["reason"] for row in quarantine if row["path"] == "landing/2"]
    assert reasons == ["left out, partitions that the metadata does not place on this host: ledger-0, ledger-1"]


@pytest.mark.parametrize("kind", ["summaries", "batches", "keys", "arrivals"])
def test_a_window_whose_parts_are_lost_stops_no_gate_and_is_not_replayed(capture, tmp_path, kind):
    """One table then lacks what another has."""
    part, landing, config = collect_ledger(capture, tmp_path)
    (rotten,) = (landing / "2/parts").glob(f"*-{kind}.parquet")
    rotten.write_bytes(bytes(rotten.stat().st_size))
    run = plan(config, part.span(1, 3))
    ingest.run(sail(), run)
    check_ingested(sail(), run)
    assert windows_in_doubt(run.warehouse, CLUSTER, run.windows) == {*run.windows}
    assert pending_windows(run) == ()
    status = stored(run.warehouse, "bronze.window_status", "missing")
    assert all(str(rotten) in row["missing"] for row in status)
