"""What is recommended, and how a mail tells it. Oracle: worked out by hand on four partitions."""

import json
from dataclasses import replace

import pytest

from pipeline.advice.following import LeaderReplay, list_new_leaders, predict_following
from pipeline.advice.recommendations import recommend
from pipeline.alerting.incident_mail import describe_broker_share
from pipeline.evidence.brief import format_predicted
from pipeline.model.placement import PlacementBroker
from tests.unit.advice.examples import ALONE, BROKERS, FOLLOWS, HOT, MISPLACED, MOVABLE, effect, partition
from tests.unit.alerting.examples import new_evidence


def actions(hot, partitions, effects=()):
    return [
        (r.rank, r.action, r.predicted_ratio and round(r.predicted_ratio, 2), r.moved_bytes, r.is_enough)
        for r in recommend(hot, partitions, BROKERS, effects)
    ]


def test_an_election_is_enough_where_leaders_are_not_the_preferred_ones():
    found = recommend(HOT, MISPLACED, BROKERS, ())
    assert [(r.action, r.predicted_ratio, r.is_enough) for r in found] == [("elect_preferred", 1.0, True)]
    assert json.loads(found[0].election_json) == {"partitions": [{"topic": "orders", "partition": 0}]}
    assert found[0].reassignment_json is None
    assert "It holds as far as producers of records without keys spread them as they did" in found[0].text
    keyed = replace(HOT, keyed=frozenset({"orders"}))
    (found,) = recommend(keyed, MISPLACED, BROKERS, ())
    assert "Keys keep the load of these partitions on them" in found.text


def test_a_figure_that_nothing_drew_has_the_range_of_chance():
    """Two shares of 1/3 that 200 batches make each: their difference has a standard deviation of 4.7 points."""
    counted = replace(HOT, fair_share=1 / 3, unit_count=200.0)
    (found,) = recommend(counted, MISPLACED, BROKERS, ())
    ends = (found.predicted_ratio_low, found.predicted_ratio, found.predicted_ratio_high)
    assert [round(end / 3, 3) for end in ends] == [0.256, 0.333, 0.411]
    drawn = recommend(counted, MISPLACED, BROKERS, [effect("drawn", 1, {1: (0.9, 1.0, 1.2)})])
    assert [row.predicted_ratio_high for row in drawn if row.action == "replay:drawn"] == [1.2]


@pytest.mark.parametrize(
    ("fair_share", "is_known"),
    # a third broker stood all of the window; a quarter of it, and is back; or left at its end
    [(1 / 3, True), (4 / 9, False), (1 / 2, False)],
)
def test_no_share_is_predicted_of_brokers_that_the_window_had_only_a_part_of(fair_share, is_known):
    """A mail said 44.4 % of what would be a half: ratios to fair shares of after it, times the window's own one."""
    hot = replace(HOT, fair_share=fair_share, share_ratio=2 / 3 / fair_share)
    linger = effect("linger", 1, dict.fromkeys(range(3), (1.0, 1.0, 1.0)))
    found = {row.action: row for row in recommend(hot, MISPLACED, BROKERS, [linger])}
    plan = found["elect_preferred"]
    assert (plan.predicted_ratio is not None, bool(plan.broker_ratios), plan.is_enough) == (is_known,) * 3
    assert ("not predicted: a broker came or went" in plan.text, "would be at" in plan.text) == (not is_known, is_known)
    assert plan.election_json is not None
    followed = replace(hot, load_follows=True, replayed=FOLLOWED)
    replayed = {row.action: row for row in recommend(followed, LEADERS, BROKERS, [])}["move_leaders"]
    assert (replayed.predicted_ratio is not None, "was replayed" in replayed.text) == (is_known, is_known)
    assert (found["replay:linger"].predicted_ratio, plan.rank) == (1.0, 1 if is_known else 2)


@pytest.mark.parametrize(
    ("share_ratio", "predicted", "is_said"),
    [(2.07, 2.04, False), (2.07, 1.97, False), (2.07, 1.95, True), (1.15, 1.14, False), (1.15, 1.13, True)],
)
def test_what_brings_next_to_nothing_is_not_advised(share_ratio, predicted, is_said):
    """Worth a line: a tenth of the excess."""
    hot, ratios = replace(HOT, share_ratio=share_ratio), {1: (predicted, predicted, predicted)}
    assert bool(recommend(hot, (), BROKERS, (effect("linger", 1, ratios),))) == is_said


def test_what_makes_another_broker_hotter_than_the_hottest_is_not_advised():
    """An election that took broker 1 from 1.23 to 0.46 and broker 0 from 1.31 to 2.08 was the first advice."""
    loads = ((0, (0, 1), 1, 100), (1, (0, 1), 0, 170), (2, (2,), 2, 60), (3, (1,), 1, 60))
    placed = [partition(number, replicas, leader, load=load) for number, replicas, leader, load in loads]
    elsewhere = effect("linger", 1, {0: (2.4,) * 3, 1: (0.3,) * 3, 2: (0.3,) * 3})
    found = recommend(replace(HOT, share_ratio=160 / 130), placed, BROKERS, [elsewhere])
    assert [(row.action, round(row.predicted_peak_ratio, 2)) for row in found] == [("move_replicas", 1.31)]
    hotter = replace(HOT, share_ratio=160 / 130, peak_ratio=2.4)  # then it is no worse
    assert {row.action for row in recommend(hotter, placed, BROKERS, [elsewhere])} >= {"replay:linger"}


def test_what_rests_on_a_replay_that_is_not_trusted_comes_after_what_is_known():
    """A setting was the first advice, `enough to resolve it`, by a replay whose back-test was 15 points off."""
    ratios = dict.fromkeys(range(3), (1.0, 1.0, 1.0))
    sure, doubted = effect("linger", 1, ratios), replace(effect("batch", 1, ratios), is_trusted=False)
    found = recommend(HOT, ALONE, BROKERS, [doubted])
    assert [row.action for row in found] == ["move_replicas", "replay:batch"]
    assert recommend(HOT, ALONE, BROKERS, [sure])[0].action == "replay:linger"
    follows = recommend(FOLLOWS, ALONE, BROKERS, [doubted, sure])
    assert [row.action for row in follows][:3] == ["replay:linger", "check_broker", "replay:batch"]


def test_leaders_come_before_replicas_and_replicas_only_where_leaders_are_not_enough():
    assert actions(HOT, MOVABLE) == [(1, "move_leaders", 1.0, 0, True)]
    assert actions(HOT, ALONE) == [(1, "move_replicas", 1.0, 1_000, True)]
    (found,) = recommend(HOT, ALONE, BROKERS, ())
    assert json.loads(found.reassignment_json)["partitions"] == [
        {"topic": "orders", "partition": 1, "replicas": [0], "log_dirs": ["any"]}
    ]
    assert json.loads(found.rollback_json)["partitions"][0]["replicas"] == [1]


def test_what_changes_producers_comes_first_where_the_load_follows_the_broker():
    even = dict.fromkeys(range(3), (0.95, 1.0, 1.05))
    effects = [effect("upgrade", 2, even), effect("linger", 1, even), effect("worse", 1, {**even, 1: (1.6, 1.7, 1.8)})]
    of_producers = ["replay:linger", "replay:upgrade"]
    assert [r[1] for r in actions(FOLLOWS, MOVABLE, effects)] == [*of_producers, "check_broker", "move_leaders"]
    assert [r[1] for r in actions(HOT, MOVABLE, effects)] == ["move_leaders", *of_producers]


def test_where_the_load_follows_the_broker_a_plan_promises_nothing_and_is_never_first():
    """As a mail once did: hand over three leaders, share then 35.7 %, enough. Carried out it was 53 to 57 %."""
    leaders = [partition(number, (1, 0, 2), 1) for number in range(3)]
    assert actions(HOT, leaders) == [(1, "move_leaders", 1.0, 0, True)]
    check, plan = recommend(FOLLOWS, leaders, BROKERS, ())
    assert (check.rank, check.action) == (1, "check_broker")
    assert (plan.rank, plan.action, plan.is_enough) == (2, "move_leaders", False)
    predicted = (plan.predicted_ratio, plan.predicted_ratio_low, plan.predicted_ratio_high, plan.predicted_peak_ratio)
    assert predicted == (None,) * 4
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
AWAY = LeaderReplay({}, "the replay of orders is not there")
HELPS = "was replayed with these leaders, because the load follows the broker"


ORDER = ["check_broker", "move_leaders"]


@pytest.mark.parametrize(
    ("replayed", "order", "said"),
    [
        (FOLLOWED, ["move_leaders", "check_broker"], HELPS),
        (STAYS, ORDER, "It does not help: replayed with these leaders the load follows broker 1"),
        (AWAY, ORDER, "(the replay of orders is"),
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
    how = [
        section.text[0]
        for section in describe_broker_share(new_evidence(recommendations=found)).sections
        if section.title.startswith("How to ")
    ]
    assert how == ([] if replayed is STAYS else [plan.text])  # nobody is handed what does not help


@pytest.mark.parametrize(
    ("replayed", "share", "is_first"),
    [(FOLLOWED, 0.34, True), (STAYS, 0.54, False), (AWAY, 1 / 3, True), (None, 1 / 3, True)],
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
    brokers = [*BROKERS[:2], PlacementBroker(broker_id=2, capacity=2.0)]
    ratios = predict_following([*LEADERS, *keyed], brokers, STAYS.shares)
    fair = 360 / 4
    assert ratios[1] == pytest.approx(tuple((60 + 300 * end) / fair for end in (0.5, 0.54, 0.58)))
    assert ratios[2] == pytest.approx(tuple(300 * end / (2 * fair) for end in (0.2, 0.23, 0.3)))


def test_only_partitions_of_topics_without_keys_that_get_another_leader_are_replayed():
    after = [replace(LEADERS[0], leader_id=0), LEADERS[1], replace(LEADERS[2], topic="payments", leader_id=2)]
    before = [*LEADERS[:2], replace(LEADERS[2], topic="payments")]
    assert list_new_leaders(before, after, {"payments"}) == {("orders", 0): 0}


def test_a_mail_promises_nothing_where_nothing_is_known():
    found = recommend(FOLLOWS, MOVABLE, BROKERS, ())
    assert [action.predicted_ratio for action in found] == [None, None]
    content = describe_broker_share(new_evidence(recommendations=found))
    assert dict(content.brief.facts)["Predicted"] == "no figure: it depends on what you find"


def test_the_first_screen_says_of_which_figures_the_replay_is_not_trusted():
    """`share then 33.3 %, enough to resolve it` was all of it, with the doubt in the attached report."""
    even = dict.fromkeys(range(3), (1.0, 1.0, 1.0))
    doubted = [replace(effect(name, 1, even), caveat="Take it with care: x.", is_trusted=False) for name in ("a", "b")]
    found = recommend(HOT, [], BROKERS, doubted)
    facts = dict(describe_broker_share(new_evidence(recommendations=found)).brief.facts)
    assert facts["Predicted"] == "share then 33.3 %, enough to resolve it, by a replay that is not trusted"
    assert facts["Or"] == "b (then 33.3 %, enough; its replay is not trusted)"
    sure = recommend(HOT, [], BROKERS, [effect("a", 1, even), effect("b", 1, even)])
    assert "trusted" not in str(describe_broker_share(new_evidence(recommendations=sure)).brief)


def test_a_mail_tells_rank_prediction_cost_and_brings_the_files():
    effects = [effect("linger", 1, {0: (0.9, 1.1, 1.2), 1: (1.15, 1.2, 1.31), 2: (0.7, 0.7, 0.7)})]
    found = recommend(HOT, ALONE, BROKERS, effects)
    assert [(action.rank, action.title, action.moved_bytes) for action in found] == [
        (1, "move replicas of 1 partition", 1_000),
        (2, "linger", 0),
    ]
    ends = [(one.predicted_ratio_low, one.predicted_ratio, one.predicted_ratio_high) for one in found]
    assert [format_predicted(1 / 3, *each) for each in ends] == ["33.3 %", "40.0 % [38.3, 43.7]"]
    assert [action.is_enough for action in found] == [True, False]
    content = describe_broker_share(new_evidence(recommendations=found))
    (how,) = (section for section in content.sections if section.title.startswith("How to "))
    assert "--execute" in how.code
    assert "`--throttle BYTES_PER_SECOND` beside `--execute` limits the copying" in how.text[1]
    assert [file.name for file in content.attachments] == ["reassignment.json", "election.json", "rollback.json"]
    bare = describe_broker_share(new_evidence())
    assert not bare.attachments
    assert not [section for section in bare.sections if section.code]
