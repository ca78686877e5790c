"""Rules distinguished on sessions of the simulator, whose strategy is known, and on a few records made by hand."""

import numpy as np
import pytest

from pipeline.calibration.caveats import Caveat
from pipeline.calibration.partitioner.baseline import identify_baseline
from pipeline.calibration.partitioner.keyless_bins import collect_bins
from pipeline.calibration.partitioner.switch_rules import SwitchRule, weigh_rules
from pipeline.calibration.session_traffic import NO_KEY, SessionBatches, SessionTraffic
from tests.simulated_sessions import make_scenario, record_session

JAVA, LIBRDKAFKA = "kafka-clients", "librdkafka"
LEADERS = (0, 1, 2, 0)
KNOWN = [
    ("java-sticky-2.4", JAVA, "3.2.3", SwitchRule.BATCH),
    ("java-builtin", JAVA, "3.9.1", SwitchRule.BYTES),
    ("java-builtin-uniform", JAVA, "3.9.1", SwitchRule.BYTES),
    ("java-round-robin-3.9.2", JAVA, "4.1.1", SwitchRule.ROUND_ROBIN),
    ("java-round-robin-2.4", JAVA, "3.9.1", SwitchRule.ROUND_ROBIN_HALF),
    ("librdkafka-consistent_random", LIBRDKAFKA, "2.10.0", SwitchRule.TIME),
    ("librdkafka-consistent_random-1.5", LIBRDKAFKA, "1.5.3", SwitchRule.RANDOM),
]


def make_session(rows: list[tuple[int, int]], batches: list[tuple[int, int, int, int]]):
    """Records (millisecond, partition) and batches (first and last millisecond, partition, records), all of 100 bytes."""
    at_ms, partition = np.array(rows, np.int32).T
    first, last, where, count = np.array(batches, np.int64).T
    traffic = SessionTraffic(
        topic="t", topic_id="", producer_id=1, producer_epoch=0, start_ms=0, elapsed_ms=at_ms,
        body_bytes=np.full(len(rows), 98, np.int32), partition=partition,
        key_index=np.full(len(rows), NO_KEY, np.int32), keys=np.zeros(0, np.int64),
    )  # fmt: skip  # fields of a value, several a line
    return traffic, SessionBatches(where, where, first, last, count, 61 + 100 * count)


@pytest.mark.parametrize("known", KNOWN, ids=lambda known: known[0])
@pytest.mark.parametrize(("pattern", "linger"), [("perf-test", "20"), ("steady", "5")])
def test_the_simulated_strategy_is_found(known, pattern, linger):
    strategy, client, version, rule = known
    scenario = make_scenario(
        strategy, client=client, version=version, config={"linger.ms": linger}, pattern=pattern, seconds=6,
        leaders=LEADERS, delays_ms={1: 20.0},
    )  # fmt: skip  # fields of a value, several a line
    traffic, batches, _ = record_session(scenario, 3)
    cells, least_bytes = collect_bins(traffic, batches), int(batches.size_bytes.max())
    found = weigh_rules(cells, len(LEADERS), least_bytes=least_bytes).rank()
    assert next(iter(found)) is rule
    assert found[rule] >= 0.5
    assert sum(found.values()) <= 1 + 1e-9


def test_bytes_and_time_limits_are_found():
    traffic, batches, _ = record_session(make_scenario("java-builtin", config={"batch.size": "32768"}, seconds=12), 1)
    assert weigh_rules(collect_bins(traffic, batches), 3).limit_bytes == 32_768
    scenario = make_scenario(
        "librdkafka-consistent_random", client=LIBRDKAFKA, version="2.10.0", config={"linger.ms": "20"}, seconds=12
    )
    traffic, batches, _ = record_session(scenario, 1)
    assert weigh_rules(collect_bins(traffic, batches), 3).limit_ms == 40


def test_cells_of_one_millisecond_are_put_so_that_partitions_change_least():
    rows = [(1, 0), (1, 2), (2, 0), (2, 1), (2, 2), (3, 1)]
    traffic, batches = make_session(rows, [(at, at, partition, 1) for at, partition in rows])
    cells = collect_bins(traffic, batches)
    assert cells.at_ms.tolist() == [1, 1, 2, 2, 2, 3]
    assert cells.partition.tolist() == [2, 0, 0, 2, 1, 1]
    assert cells.opened_count.tolist() == [1] * 6
    assert cells.body_bytes.tolist() == [100] * 6


def test_records_with_keys_are_no_cells():
    traffic, batches = make_session([(1, 0), (2, 1)], [(1, 1, 0, 1), (2, 2, 1, 1)])
    traffic.key_index[0] = 0
    assert collect_bins(traffic, batches).partition.tolist() == [1]


def test_no_record_gives_no_event():
    traffic, batches = make_session([(1, 0)], [(1, 1, 0, 1)])
    nothing = traffic.choose(np.zeros(1, bool))
    evidence = weigh_rules(collect_bins(nothing, batches), 3)
    assert evidence.event_count == 0
    assert max(evidence.rank().values()) <= 0.7


def test_a_batch_each_and_random_are_hardly_told_apart_where_all_lies_in_ties():
    scenario = make_scenario(
        "librdkafka-consistent_random-1.5", client=LIBRDKAFKA, version="1.5.3", config={"linger.ms": "0"}, seconds=6
    )
    traffic, batches, _ = record_session(scenario, 2)
    evidence = weigh_rules(collect_bins(traffic, batches), 3)
    found = evidence.rank()
    assert evidence.tied_ratio > 0.5
    assert {*list(found)[:2]} == {SwitchRule.BATCH, SwitchRule.RANDOM}
    assert max(found.values()) == 0.5


@pytest.mark.parametrize(
    ("strategy", "client", "version", "clients"),
    [
        ("librdkafka-consistent_random-1.5", LIBRDKAFKA, "1.5.3", "aiokafka, kafka-go, kafka-python, sarama"),
        ("java-round-robin-3.9.2", JAVA, "4.1.1", "franz-go, kafka-go, kafkajs, platformatic/kafka, sarama"),
        ("java-builtin", JAVA, "3.9.1", ""),
    ],
)
def test_clients_that_place_records_alike_are_named(strategy, client, version, clients):
    scenario = make_scenario(strategy, client=client, version=version, config={"linger.ms": "5"}, leaders=LEADERS)
    traffic, batches, _ = record_session(scenario, 3)
    found = identify_baseline(traffic, batches, len(LEADERS))
    said = [one.text for one in found.assumptions if one.kind is Caveat.CLIENTS_ALIKE]
    assert (found.strategy, found.client) == (strategy, client)
    assert said == ([f"a log does not name its client: {clients} place such records alike"] if clients else [])


def test_batches_dealt_out_evenly_are_not_taken_for_draws():
    """kafka-go: 4 partitions, a record each in turn, batches of 3 with the time they are sent, in whatever order."""
    chance = np.random.default_rng(1)
    order = [
        (10 * turn + place, partition) for turn in range(100) for place, partition in enumerate(chance.permutation(4))
    ]
    traffic, batches = make_session(
        [(at, partition) for at, partition in order for _ in range(3)],
        [(at, at, partition, 3) for at, partition in order],
    )
    found = identify_baseline(traffic, batches, 4)
    assert (found.strategy, found.confidence) == (None, 0.0)
    assert "placed before they are batched" in found.reason


@pytest.mark.parametrize(("stays", "strategy"), [(0.0, "java-sticky-2.4"), (0.1, None)])
def test_every_batch_elsewhere_is_not_most_batches_elsewhere(stays, strategy):
    """Least backup may choose the same partition again, KIP-480 never does."""
    chance = np.random.default_rng(2)
    drawn = [0]
    for _ in range(600):
        others = [partition for partition in range(6) if partition != drawn[-1]]
        drawn.append(drawn[-1] if chance.random() < stays else int(chance.choice(others)))
    rows = [*zip(np.cumsum(chance.integers(8, 20, len(drawn))).tolist(), drawn, strict=True)]
    traffic, batches = make_session(
        [(at + more, partition) for at, partition in rows for more in (0, 4)],
        [(at, at + 4, partition, 2) for at, partition in rows],
    )
    found = identify_baseline(traffic, batches, 6)
    assert found.strategy == strategy
    assert ("no rule that is known here does it" in found.reason) is (strategy is None)


def test_without_producer_ids_a_batch_each_is_believed_little():
    scenario = make_scenario("java-sticky-2.4", version="2.8.1", config={"linger.ms": "20"}, leaders=LEADERS, seconds=6)
    for producer_id, most in ((1, 0.95), (-1, 0.475)):
        traffic, batches, _ = record_session(scenario, 3, producer_id=producer_id)
        found = identify_baseline(traffic, batches, len(LEADERS))
        assert (found.strategy, found.confidence) == ("java-sticky-2.4", pytest.approx(most))
