"""What a change of producers, partitions or keys would do to brokers' shares, and what it costs. Oracle: worked out by hand."""

import pytest

from pipeline.advice.candidate_effects import (
    describe_candidate,
    find_rekeyings,
    format_config_diff,
    predict_healed,
    predict_ratios,
)
from pipeline.advice.following import Doubts, weigh_doubts
from pipeline.advice.recommendations import recommend
from pipeline.config.replay import Candidate
from tests.placements import load_of
from tests.unit.advice.examples import BROKERS, HOT

NO_LOG = {"log_share": None, "recorded_log_share": None}  # of `gold.replay_brokers`, where batches were not simulated
SHARES = [load_of(broker, size, 600) for broker, size in enumerate((100, 400, 100))]


def test_the_replay_without_slow_brokers_is_added_up_over_topics_and_is_wider_where_it_is_doubted():
    placed = [
        NO_LOG
        | {"topic": topic, "broker_id": b, "share": 1 / 3, "share_low": 0.3, "share_high": 0.4, "recorded_share": was}
        for topic in ("orders", "events")
        for b, was in enumerate((0.1, 0.8, 0.1))
    ]
    sizes = {"orders": 300, "events": 150, "audit": 1200}
    trust = dict.fromkeys(("orders", "events"), "trusted")
    found = predict_healed(SHARES, placed, weigh_doubts(trust, trust, {}, sizes), topic_bytes=sizes)
    assert found[1] == pytest.approx(((400 - 225) / 200, (400 - 210) / 200, (400 - 180) / 200))
    assert found[0][1] == pytest.approx((100 + 105) / 200)
    doubted, tested = {**trust, "events": "not trustworthy: too wide"}, {"events": 20.0}
    wider = predict_healed(SHARES, placed, weigh_doubts(trust, doubted, tested, sizes), topic_bytes=sizes)
    assert wider[1] == pytest.approx(((400 - 225 - 30) / 200, (400 - 210) / 200, (400 - 180 + 30) / 200))
    assert predict_healed(SHARES, [], Doubts({}), topic_bytes=sizes) == {}


DOUBTED = {"orders": "trusted", "events": "not trustworthy: too wide"}


@pytest.mark.parametrize(
    ("tested", "sizes", "reason"),
    [
        ({"events": 20.0}, {"orders": 300, "events": 101}, "not trustworthy: too wide"),
        ({"events": None}, {"orders": 300, "events": 10}, "not trustworthy: too wide"),
        ({}, {"orders": 300, "events": 10}, "not trustworthy: too wide"),
    ],
)
def test_nothing_is_predicted_where_a_doubted_replay_is_large_or_was_never_tested(tested, sizes, reason):
    assert weigh_doubts(DOUBTED, DOUBTED, tested, sizes) == Doubts({}, f"the replay of events is {reason}")
    assert weigh_doubts(["audit"], DOUBTED, tested, sizes).reason == "the replay of audit is not there"


OLD = {"baseline": "java-sticky-2.4"}
STAYS = "Unset `partitioner.class` where it is set: it would stay."


CANDIDATES = {
    "a line": ({"config": {"linger.ms": 5}}, OLD, ("set `linger.ms=5` on producers of orders", 1, "")),
    "the same partitioner, named": (
        {"partitioner": "java-sticky-2.4", "config": {"linger.ms": 5}},
        OLD,
        ("set `linger.ms=5` on producers of orders", 1, ""),
    ),
    "an upgrade": (
        {"partitioner": "java-builtin"},
        OLD,
        ("upgrade producers of orders to Kafka client 3.3+", 2, STAYS),
    ),
    "more partitions": (
        {"partitions": "x2"},
        {**OLD, "partition_count": 24, "keys_moved_ratio": 0.5},
        ("give orders 24 partitions", 5, "50% of its keys would go to other partitions: their order is at risk once."),
    ),
    "a client": ({"client": "4.1.1"}, OLD, ("upgrade producers of orders to client 4.1.1", 2, STAYS)),
    "the client in use": ({"client": "3.2.3"}, OLD, None),
    "an older client": ({"client": "3.2.3"}, {"baseline": "java-builtin"}, None),
    "another family's client": ({"client": "librdkafka 2.16.0"}, OLD, None),
    "a replay that is not trusted": (
        {"config": {"linger.ms": 5}},
        {**OLD, "trust": "not trustworthy: too few batches"},
        (
            "set `linger.ms=5` on producers of orders",
            1,
            "Take it with care: the replay of this topic is not trustworthy: too few batches.",
        ),
    ),
    "a downgrade": ({"partitioner": "java-sticky-2.4"}, {"baseline": "java-builtin"}, None),
    "another family": ({"partitioner": "sarama-hash"}, OLD, None),
    "what is in use": ({"partitioner": "java-sticky-2.4"}, OLD, None),
    "as many partitions or fewer, which Kafka refuses": (
        {"partitions": "12"},
        {**OLD, "partition_count": 12, "baseline_partition_count": 12},
        None,
    ),
    "partitions with what the title would not say": (
        {"partitions": "x2", "config": {"linger.ms": 5}},
        {**OLD, "partition_count": 24, "baseline_partition_count": 12},
        None,
    ),
    "partitions with another client's partitioner": (
        {"partitions": "x2", "partitioner": "sarama-hash"},
        {**OLD, "partition_count": 24, "baseline_partition_count": 12},
        None,
    ),
    "an upgrade with a partitioner that the title would not say": (
        {"client": "4.1.1", "partitioner": "java-round-robin-3.9.2"},
        OLD,
        None,
    ),
    "other commits": ({"config": {"transactional.id": "a"}, "commit_every": "100 ms"}, OLD, None),
    "other brokers": ({"brokers": {1: {"delay_ms": 0}}}, OLD, None),
    "brokers alike": ({"brokers_alike": True}, OLD, None),
}


@pytest.mark.parametrize(("settings", "comparison", "expected"), CANDIDATES.values(), ids=CANDIDATES)
def test_candidates_in_words(settings, comparison, expected):
    assert describe_candidate(Candidate(name="x", **settings), "orders", comparison) == expected


IGNORES = {"partitioner": "java-builtin-ignore-keys"}
AWARE = {"config": {"partitioner.rack.aware": "true"}}
NO_ORDER = (
    "Records of one key are then in no order, and in all partitions. It takes a Java client 3.3+ without "
    "`partitioner.class`."
)
UNSET = "upgrade producers of orders to Kafka client 3.3+ without `partitioner.class`"
IGNORED = "let producers of orders ignore keys (`partitioner.ignore.keys=true`)"
CLIENTS = {
    "librdkafka has no such setting": (IGNORES, {"baseline": "librdkafka-consistent_random"}, None),
    "nor has Sarama": (IGNORES, {"baseline": "sarama-hash"}, None),
    "nor a client that nobody knows": (IGNORES, {"baseline": "as recorded"}, None),
    "Java has": (IGNORES, {"baseline": "java-builtin"}, (IGNORED, 7, NO_ORDER)),
    "Java before 3.3 has none": (
        IGNORES,
        OLD,
        ("upgrade producers of orders to Kafka client 3.3+ and set `partitioner.ignore.keys=true`", 7, NO_ORDER),
    ),
    "a doubt is said of that, too": (
        IGNORES,
        {"baseline": "java-builtin", "trust": "not trustworthy: x"},
        (IGNORED, 7, f"Take it with care: the replay of this topic is not trustworthy: x. {NO_ORDER}"),
    ),
    "a class that was set stays over an upgrade": (
        {"partitioner": "java-builtin"},
        {"baseline": "java-round-robin-2.4"},
        (UNSET, 2, ""),
    ),
    "as it does over one to a client": (
        {"client": "4.1.1"},
        {"baseline": "java-round-robin-2.4"},
        ("upgrade producers of orders to client 4.1.1 without `partitioner.class`", 2, ""),
    ),
    "a new client needs no upgrade": (
        {"partitioner": "java-builtin"},
        {"baseline": "java-round-robin-3.9.2"},
        ("unset `partitioner.class` on producers of orders", 3, ""),
    ),
    "rack-aware producers do not start without a rack, and are of 4.4": (
        AWARE,
        {"baseline": "java-builtin", "partitioner": "java-builtin-rack-aware"},
        (
            "upgrade producers of orders to Kafka client 4.4+ and set `client.rack=<the producer's rack>`, "
            "`partitioner.rack.aware=true`",
            2,
            STAYS,
        ),
    ),
    "Java's settings for another family": (
        {"config": {"partitioner.availability.timeout.ms": 5}},
        {"baseline": "librdkafka-consistent_random", "partitioner": "java-builtin"},
        None,
    ),
    "a setting that both have": (
        {"config": {"linger.ms": 5}},
        {"baseline": "librdkafka-consistent_random"},
        ("set `linger.ms=5` on producers of orders", 1, ""),
    ),
    "and one of other names": ({"config": {"linger.ms": 5}}, {"baseline": "sarama-hash"}, None),
}


@pytest.mark.parametrize(("settings", "comparison", "expected"), CLIENTS.values(), ids=CLIENTS)
def test_advice_is_what_the_producers_client_can_do(settings, comparison, expected):
    """`partitioner.ignore.keys` was the advice for librdkafka, which does not start with a setting that it does not know."""
    assert describe_candidate(Candidate(name="x", **settings), "orders", comparison) == expected


@pytest.mark.parametrize("settings", [IGNORES, {"partitions": "x2"}])
def test_a_topic_whose_use_rests_on_where_its_keys_are_keeps_them_there(settings):
    """Old records of a compacted topic stay on their partitions, and Kafka Streams refuses another count."""
    candidate, compared = Candidate(name="x", **settings), {"baseline": "java-builtin"}
    assert describe_candidate(candidate, "orders", compared) is not None
    assert describe_candidate(candidate, "orders", compared, has_fixed_count=True) is None


@pytest.mark.parametrize("kind", ["share", "log_share"])
def test_a_topics_new_shares_change_what_brokers_carry_in_all(kind):
    """Brokers' bytes are those in the log: parts of the records' bytes count only where no batch was simulated."""
    placed = [
        NO_LOG
        | {"broker_id": b, "share": 0.9, "recorded_share": 0.2}
        | {kind: 1 / 3, f"{kind}_low": 0.3, f"{kind}_high": 0.4, f"recorded_{kind}": recorded}
        for b, recorded in enumerate((0.1, 0.8, 0.1))
    ]
    ratios = predict_ratios(SHARES, placed, topic_bytes=300)
    assert ratios[1] == pytest.approx(((400 - 150) / 200, (400 - 140) / 200, (400 - 120) / 200))
    assert ratios[0][1] == pytest.approx((100 + 70) / 200)


def test_heavy_keys_are_to_be_split_and_the_present_ones_set_a_floor():
    """Broker 1 leads orders-0: of its 400 bytes 150 are a heavy key's above an even spread, which the others lack."""
    loads = [("orders", "", broker, heavy) for broker, heavy in ((1, 150.0), (0, -75.0), (2, -75.0))]
    loads += [("clicks", "", 1, None)]
    topics = [("orders", "", 1, 0.4, 2.4), ("quiet", "", 1, 0.4, 2.4), ("clicks", "", None, 0.4, 2.4)]
    (found,) = find_rekeyings(SHARES, loads, topics)
    assert [found.ratios[b] for b in range(3)] == [pytest.approx((v, v, v)) for v in (0.875, 1.25, 0.875)]
    (action,) = recommend(HOT, [], BROKERS, [found])
    assert (action.action, action.title, action.is_enough) == ("rekey", "re-key orders: split its heaviest key", False)
    assert "spread evenly put the highest broker at 1.25x" in action.text
    assert "below 2.40x the mean: one key holds 40 %" in action.text
    assert "The figure holds if the new keys spread evenly." in action.text


def test_settings_come_as_a_diff():
    line = Candidate(name="x", partitioner="java-builtin-uniform", config={"linger.ms": 5})
    assert format_config_diff(line, "orders", "set it").splitlines() == [
        "# set it",
        "--- producer.properties (orders)",
        "+++ producer.properties (orders)",
        "@@ -0,0 +1,2 @@",
        "+linger.ms=5",
        "+partitioner.adaptive.partitioning.enable=false",
    ]
    assert format_config_diff(Candidate(name="x", client="4.1.1"), "orders", "upgrade") is None


def test_racks_are_turned_off_and_on_by_their_setting():
    aware = "java-builtin-rack-aware"
    off, on = Candidate(name="off", partitioner="java-builtin"), Candidate(name="on", partitioner=aware)
    uniform = Candidate(name="off", partitioner="java-builtin-uniform")
    assert describe_candidate(off, "orders", {"baseline": aware}) == (
        "set `partitioner.rack.aware=false` on producers of orders", 1, "",
    )  # fmt: skip  # as the table above
    title, *_ = describe_candidate(uniform, "orders", {"baseline": aware})
    settings = "`partitioner.adaptive.partitioning.enable=false`, `partitioner.rack.aware=false`"
    assert title == f"set {settings} on producers of orders"
    diffs = [format_config_diff(one, "orders", "x", before) for one, before in ((off, aware), (on, "java-builtin"))]
    assert [diff.splitlines()[4:] for diff in diffs] == [
        ["+partitioner.rack.aware=false"],
        ["+client.rack=<the producer's rack>", "+partitioner.rack.aware=true"],
    ]
    assert format_config_diff(off, "orders", "x", "java-builtin") is None
