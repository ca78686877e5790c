"""What is said of a session: the configuration wins and is contradicted, what the data cannot tell is said."""

from dataclasses import replace

import numpy as np
import pytest

from pipeline.calibration.caveats import Caveat
from pipeline.calibration.partitioner.baseline import identify_baseline
from pipeline.calibration.partitioner.settings import measure_compression
from pipeline.calibration.service.model import assume_service
from pipeline.model.window import MINUTE_MS
from pipeline.replay.metrics import SessionMetrics
from pipeline.replay.rows import baseline_columns, service_rows, session_row
from pipeline.replay.sessions import describe_session
from pipeline.simulator.clients.producer_settings import resolve_producer
from pipeline.tables.silver import PRODUCER_SESSIONS, SERVICE_MODELS
from tests.simulated_sessions import make_scenario, record_session

NOT_OURS = {"cluster", "window_date", "run_id"}


@pytest.fixture(scope="module")
def sticky():
    traffic, batches, _ = record_session(make_scenario("java-sticky-2.4", version="3.2.3", seconds=8), 1)
    return traffic, batches


@pytest.fixture(scope="module")
def built_in():
    scenario = make_scenario("java-builtin", version="4.1.1", pattern="steady", seconds=8)
    traffic, batches, _ = record_session(scenario, 1)
    return traffic, batches


def test_a_sticky_session(sticky):
    found = identify_baseline(*sticky, 3)
    assert (found.strategy, found.client, found.source) == ("java-sticky-2.4", "kafka-clients", "inferred")
    assert found.version_range == "3.0.1 to 3.2, or 3.3 to 3.9 with partitioner.class set, or enable.idempotence set"
    assert found.settings["linger.ms"].source == "default"
    assert found.confidence > 0.9
    assert found.runner_up


def test_the_version_follows_from_linger(built_in):
    found = identify_baseline(*built_in, 3)
    assert (found.strategy, found.version_range) == ("java-builtin", "4.0 or later, or linger.ms set")
    assert found.settings["linger.ms"].value == "5"
    assert found.runner_up == "java-builtin-uniform"
    assert resolve_producer(found.client, found.version, found.config).settings.linger_ns == 5_000_000


def test_the_configuration_wins_and_is_contradicted(sticky):
    found = identify_baseline(*sticky, 3, configured="java-builtin")
    assert (found.strategy, found.version, found.source) == ("java-builtin", "3.9.1", "configured")
    assert found.confidence == 1.0
    assert [said.kind for said in found.assumptions] == [Caveat.OTHER_STRATEGY]
    assert found.assumptions[0].text.startswith("configured is java-builtin, but the data say: partitions change")


def test_a_configuration_that_fits_is_not_contradicted(sticky):
    found = identify_baseline(*sticky, 3, configured="java-sticky-2.4")
    assert (found.strategy, found.version, found.source) == ("java-sticky-2.4", "3.2.3", "configured")
    assert found.assumptions == ()


@pytest.mark.parametrize(
    ("strategy", "client", "version_range"),
    [("librdkafka-murmur2_random", "librdkafka", "1.6 or later"), ("java-builtin-uniform", "kafka-clients", "4.1.1")],
)
def test_a_configured_strategy_brings_its_usual_client(sticky, strategy, client, version_range):
    found = identify_baseline(*sticky, 3, configured=strategy)
    assert (found.client, found.version_range, found.source) == (client, version_range, "configured")
    assert f"configured is {strategy}" in found.assumptions[0].text


def test_one_partition_tells_nothing(sticky):
    found = identify_baseline(*sticky, 1)
    assert (found.strategy, found.source, found.confidence) == (None, "none", 0.0)
    assert "one partition" in found.reason


def test_no_records_tell_nothing(sticky):
    traffic, batches = sticky
    none = traffic.choose(np.zeros(len(traffic), bool))
    found = identify_baseline(none, batches.select(np.zeros(len(batches), bool)), 3)
    assert (found.strategy, found.source) == (None, "none")
    assert measure_compression(none, batches) is None


def test_keys_alone_leave_the_partitioner_open(sticky):
    traffic, batches = sticky
    keyed = replace(traffic, key_index=traffic.partition)
    found = identify_baseline(keyed, batches, 3, key_family="java-compatible")
    assert (found.strategy, found.confidence, found.runner_up) == ("java-builtin", 0.5, "java-sticky-2.4")
    assert "their places are known" in " ".join(said.text for said in found.assumptions)


def test_keys_with_partitions_of_their_own_by_no_known_hash(sticky):
    traffic, batches = sticky
    found = identify_baseline(replace(traffic, key_index=traffic.partition), batches, 3, key_family="none-known")
    assert (found.strategy, found.source) == (None, "none")
    assert "by no hash that is known" in found.reason


def test_a_partitioner_that_ignores_keys(sticky):
    traffic, batches = sticky
    keys = np.arange(len(traffic), dtype=np.int32) % 50
    found = identify_baseline(replace(traffic, key_index=keys), batches, 3, key_family="none-known")
    assert found.strategy == "java-uniform-sticky"


def test_pooled_producers_and_append_times_are_told(sticky):
    traffic, batches = sticky
    pooled = replace(traffic, producer_id=-1, producer_epoch=-1, timestamp_types=("LogAppendTime",))
    found = identify_baseline(pooled, batches, 3)
    assert found.version_range == "2.4 to 3.1, or enable.idempotence set"
    text = " ".join(said.text for said in found.assumptions)
    assert "taken for one" in text
    assert "LogAppendTime" in text


def test_compression_is_measured(sticky):
    traffic, batches = sticky
    stored = batches.size_bytes - (batches.size_bytes - 61) // 2
    found = measure_compression(traffic, replace(batches, size_bytes=stored, codec="lz4"))
    assert found is not None
    assert found.ratio_ppm == pytest.approx(500_000, rel=0.01)
    assert identify_baseline(traffic, replace(batches, codec="lz4"), 3).settings["compression.type"].value == "lz4"


def test_rows_hold_the_tables_columns(sticky):
    session = describe_session(0, MINUTE_MS, *sticky, identify_baseline(*sticky, 3))
    assert session.bytes_by_slot.sum() == sum(session.bytes_by_broker.values())
    row = session_row(session)
    assert row.keys() == set(PRODUCER_SESSIONS.column_names) - NOT_OURS
    assert baseline_columns(identify_baseline(*sticky, 3)).items() <= row.items()
    assert row["setting_sources"]["linger.ms"].startswith("default, 0 to ")
    assert row["traffic_pattern"] == "burst"
    (service,) = service_rows({(0, 1, 0, "", ""): SessionMetrics({2: assume_service(2)})})
    assert service.keys() == set(SERVICE_MODELS.column_names) - NOT_OURS
    assert service["delay_high_ms"] is None
    assert not service["is_identifiable"]
