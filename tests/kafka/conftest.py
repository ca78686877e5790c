"""A real broker for whoever asks, started once per session, about 6 s when the jars are here; the capture as Kafka dumps it."""

import functools
import re

import pytest

from tests.lab.cluster import run_tool, start_cluster

DEEP_TOPICS = ("audit", "clicks", "codec-gzip", "codec-lz4", "codec-snappy", "codec-zstd", "devices", "ledger")

SNAPSHOTS = {
    "metadata.log.max.snapshot.interval.ms": "400",
    "metadata.log.max.record.bytes.between.snapshots": "1",
    "log.segment.delete.delay.ms": "3600000",
}


@pytest.fixture(scope="session")
def kafka_cluster(tmp_path_factory):
    """A one-broker KRaft cluster that snapshots its metadata often and keeps the files of deleted topics."""
    with start_cluster(tmp_path_factory.mktemp("kafka"), settings=SNAPSHOTS, is_brief=True) as cluster:
        yield cluster


def dump(files, *options) -> dict[str, str]:
    """What kafka-dump-log prints, by file."""
    text = run_tool("kafka-dump-log", *options, "--files", ",".join(map(str, files)))
    parts = re.split(r"^(?:Dumping (.*)|(/.*) is empty\.)$", text, flags=re.MULTILINE)
    return {
        name or empty: body.strip() for name, empty, body in zip(parts[1::3], parts[2::3], parts[3::3], strict=True)
    }


@pytest.fixture(scope="session")
def dumped_batches(capture_folder):
    """Gives the dump of all segments of a node, by file: batches without their records."""
    return functools.cache(lambda node: dump(sorted((capture_folder / node).rglob("*.log"))))


@pytest.fixture(scope="session")
def dumped_records(capture_folder):
    """The dump of the records of `DEEP_TOPICS`, by file."""
    logs = [log for topic in DEEP_TOPICS for log in sorted(capture_folder.glob(f"brokers/*/{topic}-*/*.log"))]
    return dump(logs, "--print-data-log")
