"""The cluster that the modules of this folder share."""

import pytest

from tests.integration.live.runs import wait_for_checkpoints
from tests.lab.artifacts import BROKER_VERSION, OLDER_BROKER_VERSION
from tests.lab.cluster import start_cluster
from tests.lab.live_traffic import coming_minutes, create_topics, produce


@pytest.fixture(scope="package", params=[BROKER_VERSION, OLDER_BROKER_VERSION])
def cluster(request, tmp_path_factory):
    """Three brokers with traffic stamped with the minutes to come; disks know the high watermarks."""
    settings = {"log.retention.check.interval.ms": "500"}
    folder = tmp_path_factory.mktemp("live")
    with start_cluster(folder, 3, version=request.param, settings=settings, is_brief=True) as running:
        create_topics(running)
        running.start_ms = coming_minutes()
        produce(running.bootstrap, running.start_ms)
        wait_for_checkpoints(running)
        yield running
