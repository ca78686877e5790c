"""A real broker for whoever asks, started once per session, about 6 s when the jars are here."""

import pytest

from tests.lab.cluster import start_cluster

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
