"""What is recommended, and how a mail tells it. Oracle: worked out by hand on four partitions."""

import json
from dataclasses import replace

import pytest

from pipeline.advice.candidate_effects import (
    describe_candidate,
    find_rekeyings,
    format_config_diff,
    predict_healed,
    predict_ratios,
)
from pipeline.advice.following import Doubts, LeaderReplay, list_new_leaders, predict_following, weigh_doubts
from pipeline.advice.recommendations import CandidateEffect, HotBroker, recommend
from pipeline.advice.slow_broker import BrokerAnswers, check_broker
from pipeline.alerting.broker_share import describe_broker_share
from pipeline.config.replay import Candidate
from pipeline.evidence.brief import format_predicted
from pipeline.model.placement import PlacedPartition, PlacementBroker
from tests.unit.alerting.examples import new_evidence

BROKERS = [PlacementBroker(broker_id=number) for number in range(3)]
HOT = HotBroker(broker_id=1, window_start_ms=0, share_ratio=1.5, target_ratio=1.1, load_follows=False)

FOLLOWS = replace(HOT, load_follows=True)
NO_LOG = {"log_share": None, "recorded_log_share": None}  # of `gold.replay_brokers`, where batches were not simulated


def partition(number, replicas, leader_id, load=100, size=1_000):
    return PlacedPartition(
        topic="orders",
        partition=number,
        replicas=replicas,
        leader_id=leader_id,
        in_sync=replicas,
        load_bytes=load,
        size_bytes=size,
    )


def effect(name, cost, ratios):
    return CandidateEffect(
        action=f"replay:{name}",
        topic="orders",
        title=name,
        cost=cost,
        basis="The replay puts",
        caveat="",
        ratios=ratios,
    )


def actions(hot, partitions, effects=()):
    return [
        (r.rank, r.action, r.predicted_ratio and round(r.predicted_ratio, 2), r.moved_bytes, r.is_enough)
        for r in recommend(hot, partitions, BROKERS, effects)
    ]


def test_an_election_is_enough_where_leaders_are_not_the_preferred_ones():
    found = recommend(HOT, [partition(0, (0, 1), 1), partition(1, (1, 2), 1), partition(2, (2, 0), 2)], BROKERS, ())
    assert [(r.action, r.predicted_ratio, r.is_enough) for r in found] == [("elect_preferred", 1.0, True)]
    assert json.loads(found[0].election_json) == {"partitions": [{"topic": "orders", "partition": 0}]}
    assert found[0].reassignment_json is None
    assert "It holds as far as producers of records without keys spread them as they did" in found[0].text
    keyed = replace(HOT, keyed=frozenset({"orders"}))
    (found,) = recommend(
        keyed, [partition(0, (0, 1), 1), partition(1, (1, 2), 1), partition(2, (2, 0), 2)], BROKERS, ()
    )
    assert "Keys keep the load of these partitions on them" in found.text


def test_a_figure_that_nothing_drew_has_the_range_of_chance():
    """Two shares of 1/3 that 200 batches make each: their difference has a standard deviation of 4.7 points."""
    counted = replace(HOT, fair_share=1 / 3, unit_count=200.0)
    partitions = [partition(0, (0, 1), 1), partition(1, (1, 2), 1), partition(2, (2, 0), 2)]
    (found,) = recommend(counted, partitions, BROKERS, ())
    ends = (found.predicted_ratio_low, found.predicted_ratio, found.predicted_ratio_high)
    assert [round(end / 3, 3) for end in ends] == [0.256, 0.333, 0.411]
    drawn = recommend(counted, partitions, BROKERS, [effect("drawn", 1, {1: (0.9, 1.0, 1.2)})])
    assert [row.predicted_ratio_high for row in drawn if row.action == "replay:drawn"] == [1.2]


@pytest.mark.parametrize(
    ("share_ratio", "predicted", "is_said"),
    [(2.07, 2.04, False), (2.07, 1.97, False), (2.07, 1.95, True), (1.15, 1.14, False), (1.15, 1.13, True)],
)
def test_what_brings_next_to_nothing_is_not_advised(share_ratio, predicted, is_said):
    """Worth a line: a tenth of the excess."""
    hot, ratios = replace(HOT, share_ratio=share_ratio), {1: (predicted, predicted, predicted)}
    assert bool(recommend(hot, (), BROKERS, (effect("linger", 1, ratios),))) == is_said


def test_leaders_come_before_replicas_and_replicas_only_where_leaders_are_not_enough():
    leaders = [partition(0, (1, 0), 1), partition(1, (1, 2), 1), partition(2, (2, 0), 2)]
    assert actions(HOT, leaders) == [(1, "move_leaders", 1.0, 0, True)]
    alone = [partition(0, (1,), 1, size=5_000), partition(1, (1,), 1), partition(2, (2,), 2)]
    assert actions(HOT, alone) == [(1, "move_replicas", 1.0, 1_000, True)]
    (found,) = recommend(HOT, alone, BROKERS, ())
    assert json.loads(found.reassignment_json)["partitions"] == [
        {"topic": "orders", "partition": 1, "replicas": [0], "log_dirs": ["any"]}
    ]
    assert json.loads(found.rollback_json)["partitions"][0]["replicas"] == [1]


def test_what_changes_producers_comes_first_where_the_load_follows_the_broker():
    leaders = [partition(0, (1, 0), 1), partition(1, (1, 2), 1), partition(2, (2, 0), 2)]
    even = dict.fromkeys(range(3), (0.95, 1.0, 1.05))
    effects = [effect("upgrade", 2, even), effect("linger", 1, even), effect("worse", 1, {**even, 1: (1.6, 1.7, 1.8)})]
    assert [r[1] for r in actions(FOLLOWS, leaders, effects)] == [
        "replay:linger",
        "replay:upgrade",
        "check_broker",
        "move_leaders",
    ]
    assert [r[1] for r in actions(HOT, leaders, effects)] == ["move_leaders", "replay:linger", "replay:upgrade"]


def test_where_the_load_follows_the_broker_a_plan_promises_nothing_and_is_never_first():
    """As a mail once did: hand over three leaders, share then 35.7 %, enough. Carried out it was 53 to 57 %."""
    leaders = [partition(number, (1, 0, 2), 1) for number in range(3)]
    assert actions(HOT, leaders) == [(1, "move_leaders", 1.0, 0, True)]
    check, plan = recommend(FOLLOWS, leaders, BROKERS, ())
    assert (check.rank, check.action) == (1, "check_broker")
    assert (plan.rank, plan.action, plan.is_enough) == (2, "move_leaders", False)
    assert (
        plan.predicted_ratio
        is plan.predicted_ratio_low
        is plan.predicted_ratio_high
        is plan.predicted_peak_ratio
        is None
    )
    assert plan.broker_ratios == {}
    assert "is not predicted: the load follows the broker" in plan.text
    assert "would be at" not in plan.text
    assert "as they did in this window" not in plan.text
    assert plan.election_json is not None  # who wants to may


def test_topics_placed_by_keys_are_planned_and_predicted_all_the_same():
    keyed = [replace(partition(number, (1, 0), 1, load=60), topic="payments") for number in range(2)]
    leaders = [partition(0, (1, 0), 1), partition(1, (2, 1), 2), partition(2, (0, 2), 0), *keyed]
    hot = replace(FOLLOWS, keyed=frozenset({"payments"}), share_ratio=220 / 140)
    plan, *others = recommend(hot, leaders, BROKERS, ())
    assert (plan.action, plan.topic, plan.moved_partition_count) == ("move_leaders", "payments", 1)
    assert plan.predicted_ratio == pytest.approx(160 / 140)
    assert {row.topic for row in others if row.predicted_ratio is not None} == {"payments"}
    assert next(row.action for row in others if row.predicted_ratio is None) == "check_broker"


LEADERS = [partition(number, (1, 0, 2), 1) for number in range(3)]
FOLLOWED = LeaderReplay({"orders": {0: (0.25, 0.33, 0.4), 1: (0.3, 0.34, 0.38), 2: (0.25, 0.33, 0.4)}})
STAYS = LeaderReplay({"orders": {0: (0.2, 0.23, 0.3), 1: (0.5, 0.54, 0.58), 2: (0.2, 0.23, 0.3)}})


@pytest.mark.parametrize(
    ("replayed", "order", "said"),
    [
        (
            FOLLOWED,
            ["move_leaders", "check_broker"],
            "was replayed with these leaders, because the load follows the broker",
        ),
        (
            STAYS,
            ["check_broker", "move_leaders"],
            "It does not help: replayed with these leaders the load follows broker 1",
        ),
        (
            LeaderReplay({}, "the replay of orders is not there"),
            ["check_broker", "move_leaders"],
            "(the replay of orders is",
        ),
    ],
)
def test_where_the_load_follows_a_plan_is_what_the_replay_with_its_leaders_says(replayed, order, said):
    """One that helps may be first, with its range; one that does not is last and says why."""
    found = recommend(replace(FOLLOWS, share_ratio=1.6, replayed=replayed), LEADERS, BROKERS, ())
    assert [row.action for row in found] == order
    plan = next(row for row in found if row.action == "move_leaders")
    assert said in plan.text
    ends = replayed.shares.get("orders", {}).get(1)
    predicted = (plan.predicted_ratio_low, plan.predicted_ratio, plan.predicted_ratio_high)
    assert predicted == ((None,) * 3 if ends is None else pytest.approx(tuple(3 * end for end in ends)))
    assert (plan.is_enough, plan.is_replayed) == (replayed is FOLLOWED, ends is not None)


@pytest.mark.parametrize(
    ("replayed", "share", "is_first"),
    [
        (FOLLOWED, 0.34, True),
        (STAYS, 0.54, False),
        (LeaderReplay({}, "the replay of orders is not there"), 1 / 3, True),
        (None, 1 / 3, True),
    ],
)
def test_where_leaders_are_the_cause_a_plan_of_topics_without_keys_is_replayed_too(replayed, share, is_first):
    """Carried out, such a plan had left its broker 6 to 8 points above what partitions that keep their load promised."""
    easier = effect("linger", 1, dict.fromkeys(range(3), (1.1, 1.2, 1.3)))
    found = recommend(replace(HOT, share_ratio=3.0, replayed=replayed), LEADERS, BROKERS, [easier])
    assert (found[0].action == "move_leaders") is is_first
    plan = next(row for row in found if row.action == "move_leaders")
    assert plan.predicted_ratio == pytest.approx(3 * share)
    is_known = replayed is not None and not replayed.reason
    assert plan.is_replayed is is_known
    assert ("as they did in this window" in plan.text) is not is_known
    assert ("It does not help" in plan.text) is False


def test_topics_that_were_not_replayed_stay_on_their_partitions_in_a_plan_that_was():
    keyed = [replace(one, topic="payments", partition=3, load_bytes=60) for one in LEADERS[:1]]
    ratios = predict_following(
        [*LEADERS, *keyed], [*BROKERS[:2], PlacementBroker(broker_id=2, capacity=2.0)], STAYS.shares
    )
    fair = 360 / 4
    assert ratios[1] == pytest.approx(tuple((60 + 300 * end) / fair for end in (0.5, 0.54, 0.58)))
    assert ratios[2] == pytest.approx(tuple(300 * end / (2 * fair) for end in (0.2, 0.23, 0.3)))


def test_only_partitions_of_topics_without_keys_that_get_another_leader_are_replayed():
    after = [replace(LEADERS[0], leader_id=0), LEADERS[1], replace(LEADERS[2], topic="payments", leader_id=2)]
    before = [*LEADERS[:2], replace(LEADERS[2], topic="payments")]
    assert list_new_leaders(before, after, {"payments"}) == {("orders", 0): 0}


SLOW = BrokerAnswers(latency_avg_ms=535.0, ratio_to_peers=41.0, since_ms=1_795_251_600_000)


def test_a_slow_broker_is_to_be_looked_at_first():
    leaders = [partition(0, (1, 0), 1), partition(1, (1, 2), 1), partition(2, (2, 0), 2)]
    even = dict.fromkeys(range(3), (0.95, 1.0, 1.05))
    found = recommend(replace(FOLLOWS, answers=SLOW), leaders, BROKERS, [effect("linger", 1, even)])
    assert [row.action for row in found] == ["check_broker", "replay:linger", "move_leaders"]
    assert found[0].title == "broker 1 is slow: look at its disk, network, neighbours"
    assert found[0].predicted_ratio is None
    assert not found[0].is_enough
    assert (
        recommend(replace(HOT, answers=SLOW), leaders, BROKERS, ())[0].action == "move_leaders"
    )  # it explains nothing


HEALED = {0: (0.9, 0.98, 1.03), 1: (0.97, 1.04, 1.1), 2: (0.9, 0.98, 1.03)}


def test_what_a_slow_broker_would_carry_once_it_is_mended_is_predicted_by_replay():
    check = check_broker(1, 0, 1.5, SLOW, healed=HEALED, target_ratio=1.1)
    assert (check.predicted_ratio_low, check.predicted_ratio, check.predicted_ratio_high) == HEALED[1]
    assert (check.predicted_peak_ratio, check.is_enough) == (1.04, True)
    assert check.broker_ratios == {0: 0.98, 1: 1.04, 2: 0.98}
    assert check.text.endswith("Were it as fast as the others, the replay puts the highest broker at 1.04x.")
    assert not check_broker(1, 0, 1.5, SLOW, healed=HEALED, target_ratio=1.0).is_enough
    assert check_broker(1, 0, 1.5, None, healed=HEALED).predicted_ratio is None  # nobody knows that it is slow


def test_the_replay_without_slow_brokers_is_added_up_over_topics_and_is_wider_where_it_is_doubted():
    shares = [
        {"broker_id": b, "size_bytes": size, "expected_share": 1 / 3, "share_ratio": size / 200}
        for b, size in enumerate((100, 400, 100))
    ]
    placed = [
        NO_LOG
        | {"topic": topic, "broker_id": b, "share": 1 / 3, "share_low": 0.3, "share_high": 0.4, "recorded_share": was}
        for topic in ("orders", "events")
        for b, was in enumerate((0.1, 0.8, 0.1))
    ]
    sizes = {"orders": 300, "events": 150, "audit": 1200}
    trust = dict.fromkeys(("orders", "events"), "trusted")
    found = predict_healed(shares, placed, weigh_doubts(trust, trust, {}, sizes), topic_bytes=sizes)
    assert found[1] == pytest.approx(((400 - 225) / 200, (400 - 210) / 200, (400 - 180) / 200))
    assert found[0][1] == pytest.approx((100 + 105) / 200)
    doubted, tested = {**trust, "events": "not trustworthy: too wide"}, {"events": {"share_error_points": 20.0}}
    wider = predict_healed(shares, placed, weigh_doubts(trust, doubted, tested, sizes), topic_bytes=sizes)
    assert wider[1] == pytest.approx(((400 - 225 - 30) / 200, (400 - 210) / 200, (400 - 180 + 30) / 200))
    assert predict_healed(shares, [], Doubts({}), topic_bytes=sizes) == {}


DOUBTED = {"orders": "trusted", "events": "not trustworthy: too wide"}


@pytest.mark.parametrize(
    ("tested", "sizes", "reason"),
    [
        ({"events": {"share_error_points": 20.0}}, {"orders": 300, "events": 101}, "not trustworthy: too wide"),
        ({"events": {"share_error_points": None}}, {"orders": 300, "events": 10}, "not trustworthy: too wide"),
        ({}, {"orders": 300, "events": 10}, "not trustworthy: too wide"),
    ],
)
def test_nothing_is_predicted_where_a_doubted_replay_is_large_or_was_never_tested(tested, sizes, reason):
    assert weigh_doubts(DOUBTED, DOUBTED, tested, sizes) == Doubts({}, f"the replay of events is {reason}")
    assert weigh_doubts(["audit"], DOUBTED, tested, sizes).reason == "the replay of audit is not there"


SHOWN = {
    "clients alone": ({}, ["535 ms for broker 1, 13 ms for the others (41.0x)", "is not scraped (`RequestMetrics`)"]),
    "a disk": (
        {
            "stages_ms": {"total": 500.0, "local": 480.0, "remote": 15.0, "requestqueue": 1.0},
            "peer_stages_ms": {"local": 3.0},
        },
        ["a request spends 480 ms appending to its log (3.0 ms)", "points to its disk"],
    ),
    "followers": (
        {"stages_ms": {"total": 510.0, "remote": 500.0, "local": 5.0}},
        ["points to followers or the network"],
    ),
    "the way there": ({"stages_ms": {"total": 3.0, "local": 2.0}}, ["Clients wait longer than the broker needs"]),
    "busy threads": (
        {"idle_ratios": {"request handlers": 0.05, "network threads": 0.9}},
        ["Its request handlers are idle 5.0 % of the time."],
    ),
    "what else": (
        {"changes": ("leaders of 3 partitions changed",)},
        ["When it began: leaders of 3 partitions changed."],
    ),
    "nothing else": ({}, ["slow since 2026-11-21 09:00 UTC.", "leaders and brokers were as before"]),
    "longer than is known": ({"is_since_first": True}, ["since 2026-11-21 09:00 UTC or longer."]),
}


@pytest.mark.parametrize(("known", "said"), SHOWN.values(), ids=SHOWN)
def test_what_the_metrics_show_of_a_slow_broker(known, said):
    text = check_broker(1, 0, 1.9, replace(SLOW, **known)).text
    for words in said:
        assert words in text


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        (None, "is not known: scrape their metrics"),
        (BrokerAnswers(latency_avg_ms=14.0, ratio_to_peers=1.1), "not slow"),
    ],
)
def test_a_broker_that_is_not_known_to_be_slow_is_not_called_slow(answers, words):
    found = check_broker(1, 0, 1.9, answers)
    assert "slow:" not in found.title
    assert words in found.text


def test_a_mail_promises_nothing_where_nothing_is_known():
    leaders = [partition(0, (1, 0), 1), partition(1, (1, 2), 1), partition(2, (2, 0), 2)]
    found = recommend(FOLLOWS, leaders, BROKERS, ())
    assert [action.predicted_ratio for action in found] == [None, None]
    content = describe_broker_share(new_evidence(recommendations=found))
    assert dict(content.brief.facts)["Predicted"] == "no figure: it depends on what you find"


OLD = {"baseline": "java-sticky-2.4"}
CANDIDATES = {
    "a line": ({"config": {"linger.ms": 5}}, OLD, ("set `linger.ms=5` on producers of orders", 1, "")),
    "the same partitioner, named": (
        {"partitioner": "java-sticky-2.4", "config": {"linger.ms": 5}},
        OLD,
        ("set `linger.ms=5` on producers of orders", 1, ""),
    ),
    "an upgrade": ({"partitioner": "java-builtin"}, OLD, ("upgrade producers of orders to Kafka client 3.3+", 2, "")),
    "more partitions": (
        {"partitions": "x2"},
        {**OLD, "partition_count": 24, "keys_moved_ratio": 0.5},
        ("give orders 24 partitions", 5, "50% of its keys would go to other partitions: their order is at risk once."),
    ),
    "a client": ({"client": "4.1.1"}, OLD, ("upgrade producers of orders to client 4.1.1", 2, "")),
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
    "other brokers": ({"brokers": {1: {"delay_ms": 0}}}, OLD, None),
    "brokers alike": ({"brokers_alike": True}, OLD, None),
}


@pytest.mark.parametrize(("settings", "comparison", "expected"), CANDIDATES.values(), ids=CANDIDATES)
def test_candidates_in_words(settings, comparison, expected):
    assert describe_candidate(Candidate(name="x", **settings), "orders", comparison) == expected


@pytest.mark.parametrize("kind", ["share", "log_share"])
def test_a_topics_new_shares_change_what_brokers_carry_in_all(kind):
    """Brokers' bytes are those in the log: parts of the records' bytes count only where no batch was simulated."""
    shares = [{"broker_id": b, "size_bytes": size, "expected_share": 1 / 3} for b, size in enumerate((100, 400, 100))]
    placed = [
        NO_LOG
        | {"broker_id": b, "share": 0.9, "recorded_share": 0.2}
        | {kind: 1 / 3, f"{kind}_low": 0.3, f"{kind}_high": 0.4, f"recorded_{kind}": recorded}
        for b, recorded in enumerate((0.1, 0.8, 0.1))
    ]
    ratios = predict_ratios(shares, placed, topic_bytes=300)
    assert ratios[1] == pytest.approx(((400 - 150) / 200, (400 - 140) / 200, (400 - 120) / 200))
    assert ratios[0][1] == pytest.approx((100 + 70) / 200)


def test_heavy_keys_are_to_be_split_and_the_present_ones_set_a_floor():
    """Broker 1 leads orders-0: of its 400 bytes 150 are a heavy key's above an even spread, which the others lack."""
    shares = [{"broker_id": b, "size_bytes": size, "expected_share": 1 / 3} for b, size in enumerate((100, 400, 100))]
    loads = [
        {"topic": "orders", "topic_id": "", "leader_id": broker, "heavy_keys_bytes": heavy}
        for broker, heavy in ((1, 150.0), (0, -75.0), (2, -75.0))
    ]
    loads.append({"topic": "clicks", "topic_id": "", "leader_id": 1, "heavy_keys_bytes": None})
    told = {"topic_id": "", "heavy_key_count": 1, "top_key_ratio": 0.4, "best_peak_to_mean": 2.4}
    topics = [
        {**told, "topic": "orders"},
        {**told, "topic": "quiet"},
        {**told, "topic": "clicks", "heavy_key_count": None},
    ]
    (found,) = find_rekeyings(shares, loads, topics)
    assert [found.ratios[b] for b in range(3)] == [pytest.approx((v, v, v)) for v in (0.875, 1.25, 0.875)]
    (action,) = recommend(HOT, [], BROKERS, [found])
    assert (action.action, action.title, action.is_enough) == ("rekey", "re-key orders: split its heaviest key", False)
    assert "spread evenly put the highest broker at 1.25x" in action.text
    assert "below 2.40x the mean: one key holds 40 %" in action.text
    assert "The figure holds if the new keys spread evenly." in action.text


def test_a_mail_tells_rank_prediction_cost_and_brings_the_files():
    alone = [partition(0, (1,), 1, size=5_000), partition(1, (1,), 1), partition(2, (2,), 2)]
    effects = [effect("linger", 1, {0: (0.9, 1.1, 1.2), 1: (1.15, 1.2, 1.31), 2: (0.7, 0.7, 0.7)})]
    found = recommend(HOT, alone, BROKERS, effects)
    assert [(action.rank, action.title, format_predicted(action, 1 / 3), action.moved_bytes) for action in found] == [
        (1, "move replicas of 1 partition", "33.3 %", 1_000),
        (2, "linger", "40.0 % [38.3, 43.7]", 0),
    ]
    assert [action.is_enough for action in found] == [True, False]
    content = describe_broker_share(new_evidence(recommendations=found))
    (how,) = (section for section in content.sections if section.title.startswith("How to "))
    assert "--execute" in how.code
    assert [file.name for file in content.attachments] == ["reassignment.json", "election.json", "rollback.json"]
    bare = describe_broker_share(new_evidence())
    assert not bare.attachments
    assert not [section for section in bare.sections if section.code]


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
