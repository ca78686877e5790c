"""Rack-aware producers are named by where their records lie. Oracle: the simulator, whose producers' racks are known."""

from dataclasses import replace

import numpy as np
import pytest

from pipeline.calibration.partitioner.baseline import find_client_rack, identify_baseline
from pipeline.calibration.partitioner.clients import Bounds, SwitchRule, choose_client
from pipeline.calibration.partitioner.settings import Setting
from pipeline.calibration.session_traffic import NO_KEY
from pipeline.simulator.clients.producer_settings import resolve_producer
from tests.simulated_sessions import make_scenario, record_session

LEADERS = (0, 1, 2) * 4
RACKS = "abc"
LED = {partition: RACKS[leader] for partition, leader in enumerate(LEADERS)}
AWARE = "java-builtin-rack-aware"


def record(strategy=AWARE, leaders=LEADERS, **others):
    version = "3.2.3" if strategy == "java-sticky-2.4" else "4.4.0"
    others = {"config": {"client.rack": "b"} if strategy == AWARE else {}, "pattern": "steady", "seconds": 8} | others
    scenario = make_scenario(strategy, version=version, leaders=leaders, racks=RACKS, **others)
    traffic, batches, _ = record_session(scenario, 1)
    return traffic, batches


@pytest.fixture(scope="module")
def aware():
    return record()


@pytest.mark.parametrize("pattern", ["steady", "perf-test"])
def test_a_rack_aware_producer_is_named_with_its_rack(pattern):
    found = identify_baseline(*record(pattern=pattern), len(LEADERS), racks=LED)
    assert (found.strategy, found.version, found.version_range) == (AWARE, "4.4.0", "4.4 or later")
    assert {name: found.settings[name].value for name in ("partitioner.rack.aware", "client.rack", "linger.ms")} == {
        "partitioner.rack.aware": "true",
        "client.rack": "b",
        "linger.ms": "5",
    }
    assert found.reason.endswith("all its partitions are led in rack b, 4 of 12")
    assert 0.3 < found.confidence <= 0.5  # adaptive or not is not to be seen
    resolved = resolve_producer(found.client, found.version, found.config)
    assert (resolved.strategy, resolved.settings.client_rack) == (AWARE, "b")


@pytest.mark.parametrize(
    ("strategy", "others"),
    [
        ("java-builtin", {}),
        ("java-sticky-2.4", {"pattern": "perf-test"}),
        (AWARE, {"config": {"client.rack": "elsewhere"}}),
    ],
)
def test_who_writes_to_all_racks_is_named_as_before(strategy, others):
    traffic, batches = record(strategy, **others)
    found = identify_baseline(traffic, batches, len(LEADERS), racks=LED)
    assert found == identify_baseline(traffic, batches, len(LEADERS))
    assert found.strategy == ("java-builtin" if strategy == AWARE else strategy)


def test_a_round_robin_that_keeps_to_one_rack_is_no_rack_awareness():
    """With KAFKA-9965 every second partition gets nothing; where two racks lead in turn these are a rack's."""
    leaders = (0, 1) * 2
    scenario = make_scenario(
        "java-round-robin-2.4", leaders=leaders, racks="ab", config={"linger.ms": "5"}, pattern="steady", seconds=8
    )
    traffic, batches, _ = record_session(scenario, 1)
    racks = {partition: RACKS[leader] for partition, leader in enumerate(leaders)}
    assert find_client_rack(traffic, batches, racks) != ""
    found = identify_baseline(traffic, batches, len(leaders), racks=racks)
    assert found.strategy == "java-round-robin-2.4"
    assert found == identify_baseline(traffic, batches, len(leaders))


def test_racks_that_say_nothing_leave_a_session_as_it_is(aware):
    without = identify_baseline(*aware, len(LEADERS))
    for racks in ({}, dict.fromkeys(LED, ""), dict.fromkeys(LED, "b"), LED | {1: "x"}):
        assert identify_baseline(*aware, len(LEADERS), racks=racks) == without


def test_a_few_batches_are_no_evidence(aware):
    traffic, batches = aware
    first = batches.base_ms < np.sort(batches.base_ms)[8]
    assert find_client_rack(traffic, batches.select(first), LED) == ""
    assert find_client_rack(traffic, batches, LED) == "b"


def test_a_rack_that_leads_one_partition_needs_bytes():
    leaders = (0, 1, 2)
    led = dict(enumerate(RACKS))
    traffic, batches = record(leaders=leaders)
    found = identify_baseline(traffic, batches, 3, racks=led)
    assert (found.strategy, found.settings["client.rack"].value, found.confidence) == (AWARE, "b", 0.5)
    assert find_client_rack(traffic.choose(slice(0, 100)), batches.select(slice(0, 20)), led) == ""
    keyed = replace(traffic, key_index=np.zeros(len(traffic), np.int32), keys=np.zeros(1, np.int64))
    assert find_client_rack(keyed, batches, led) == ""


@pytest.mark.parametrize(
    ("family", "is_named"), [("java-compatible", True), ("librdkafka-consistent", False), (None, False)]
)
@pytest.mark.parametrize("rack", RACKS)
def test_keys_of_java_s_hash_leave_a_rack_that_leads_one_partition(rack, family, is_named):
    """Every third record has a key and lies anywhere. A key that is missing, hashed as an empty one, goes to partition 0."""
    traffic, batches = record(leaders=(0, 1, 2), config={"client.rack": rack})
    numbers = np.arange(len(traffic))
    has_key = numbers % 3 == 0
    mixed = replace(
        traffic,
        key_index=np.where(has_key, 0, NO_KEY).astype(np.int32),
        keys=np.zeros(1, np.int64),
        partition=np.where(has_key, numbers % 9 // 3, traffic.partition).astype(traffic.partition.dtype),
    )
    found = identify_baseline(mixed, batches, 3, racks=dict(enumerate(RACKS)), key_family=family)
    assert (found.strategy == AWARE) == (is_named and rack != "a")


def test_a_configured_rack_aware_producer_has_a_rack_or_any(aware):
    found = identify_baseline(*aware, len(LEADERS), racks=LED, configured=AWARE)
    assert (found.version_range, found.settings["client.rack"].value) == ("4.4 or later", "b")
    found = identify_baseline(*aware, len(LEADERS), configured=AWARE)
    assert found.settings["client.rack"] == Setting("*", "unknown")


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (0, 8, "3.3 or later"),
        (0, 2, "3.3 to 3.9, or linger.ms set"),
        (3, 8, "4.0 or later, or linger.ms set"),
        (30, 40, "3.3 or later"),
    ],
)
def test_no_version_is_left_out_that_the_evidence_allows(low, high, words):
    found = choose_client(SwitchRule.BYTES, None, Bounds(None, low, high, ""), is_idempotent=True, ignores_keys=False)
    assert (found.strategy, found.version_range) == ("java-builtin", words)
