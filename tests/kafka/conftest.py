"""A real broker for whoever asks; started once per session, about 6 s when the jars are here."""

from __future__ import annotations

import pytest

from tests.lab.cluster import start_cluster


@pytest.fixture(scope="session")
def kafka_cluster(tmp_path_factory):
    """A running one-broker KRaft cluster (`tests.lab.cluster.Cluster`)."""
    with start_cluster(tmp_path_factory.mktemp("kafka")) as cluster:
        yield cluster
