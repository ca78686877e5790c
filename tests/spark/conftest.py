"""One Spark session for all tests that need one."""

from __future__ import annotations

import pytest

from pipeline.config import Spark
from pipeline.storage.session import create_session, stop_session


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    """`local[2]`, UTC, Delta; about 7 s once per run of the suite."""
    session = create_session(
        Spark(master="local[2]", driver_memory="1g"),
        app_name="tests",
        extra_conf={
            "spark.sql.shuffle.partitions": "2",
            "spark.default.parallelism": "2",
            "spark.databricks.delta.snapshotPartitions": "1",
            "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("spark-warehouse")),
        },
    )
    yield session
    stop_session(session)
