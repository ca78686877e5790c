"""What became of advice: three brokers, `orders` on broker 1, minute windows; every share is worked out beside its row."""

from dataclasses import replace

import pytest

from pipeline.advice.carried_out import CarriedOut, PromiseWindow, measure_progress
from pipeline.advice.promises import WatchedAdvice, choose_watched, judge_promise, name_promise
from pipeline.codec.tools.reassignment_text import format_election, format_reassignment
from pipeline.config.replay import Candidate
from pipeline.model.promise import PromiseScore, score_actions
from tests.placements import load_of
from tests.unit.alerting.examples import MINUTE_MS, T0_MS, new_recommendation

LINGER = Candidate(name="linger", config={"linger.ms": "5"})
CANDIDATES = {"linger": LINGER}
FAIR = 1 / 3
ADVICE = new_recommendation(share_ratio=1.8, predicted_ratio=1.05, predicted_ratio_low=1.02, predicted_ratio_high=1.11)
PLAN = replace(
    new_recommendation(share_ratio=1.8, predicted_ratio=1.2, predicted_ratio_low=1.2, predicted_ratio_high=1.2),
    action="move_leaders",
    topic="",
    reassignment_json=format_reassignment([("orders", 0, (2, 1))]),
    election_json=format_election([("orders", 0)]),
)


def session(producer_id, *, linger="0", source="inferred, 0 to 3", epoch=0, count=100, **more):
    return {
        "producer_id": producer_id, "producer_epoch": epoch, "record_count": count, "strategy": "java-builtin", "confidence": 1.0, "runner_up": "java-builtin-uniform",
        "settings": [("linger.ms", linger)], "setting_sources": [("linger.ms", source)], **more,
    }  # fmt: skip  # fields of a value, several a line


def window(minute, loads, *, leaders=(1, 2, 3), others=(0, 0, 0), keyed=(), chance_ratio=1.0, **more):
    """`orders` has a partition for each load; `others` are bytes of other topics on brokers 1 to 3."""
    places = [("orders", number) for number in range(len(loads))]
    led = dict(zip(places, leaders, strict=True))
    carried = {
        b: others[b - 1] + sum(size for place, size in zip(places, loads, strict=True) if led[place] == b)
        for b in (1, 2, 3)
    }
    start_ms, total = T0_MS + minute * MINUTE_MS, sum(carried.values())
    of = {"start_ms": start_ms, "chance_ratio": chance_ratio}
    return PromiseWindow(
        start_ms=start_ms,
        shares={b: load_of(b, size, total, **of) for b, size in carried.items()},
        loads=dict(zip(places, loads, strict=True)),
        leaders=led,
        replicas={place: (leader, leader % 3 + 1) for place, leader in led.items()},
        keyed=frozenset(keyed),
        **more,
    )


THEN = window(0, (600, 200, 200), sessions={"orders": [session(7)]})
"""Broker 1 carries 600 of 1,000: 1.80x. With `linger.ms=5` it would carry 350 (1.05x)."""


def watch(now, *, advice=ADVICE, then=THEN, progress=1.0, first=1):
    first_ms = None if first is None else T0_MS + first * MINUTE_MS
    return WatchedAdvice(
        advice=advice, then=then, now=now, progress=CarriedOut(progress, "nothing shows it"), first_ms=first_ms
    )


def judge(now, *together, **watched):
    one = watch(now, **watched)
    return judge_promise(one, (one, *together), CANDIDATES)


OUTCOMES = {
    "as predicted": (window(2, (350, 350, 300)), {}, "kept", 1.05),
    "within the range and 1.5 points": (window(2, (384, 316, 300)), {}, "kept", 1.05),
    "higher": (window(2, (450, 300, 250)), {}, "broken", 1.05),
    # 10 points off, in a range that says next to nothing
    "higher, in a wide range": (
        window(2, (450, 300, 250)),
        {"advice": replace(ADVICE, predicted_ratio_low=0.6, predicted_ratio_high=1.6)},
        "broken",
        1.05,
    ),
    "lower": (window(2, (300, 350, 350)), {}, "broken", 1.05),
    "as if nothing had been done": (window(2, (600, 200, 200)), {}, "broken", 1.05),
    # three times the volume, spread as predicted
    "more traffic": (window(2, (1_050, 1_050, 900)), {}, "kept", 1.05),
    # 1,000 bytes of another topic on broker 1: 1,350 of 2,000
    "another topic came": (window(2, (350, 350, 300), others=(1_000, 0, 0)), {}, "kept", 2.025),
    # and on broker 2: 350 of 2,000 against 600 without
    "another topic came elsewhere": (window(2, (350, 350, 300), others=(0, 1_000, 0)), {}, "kept", 0.525),
    "higher, but within chance": (window(2, (390, 310, 300), chance_ratio=1.2), {}, "unknown", 1.05),
    "not done": (window(2, (600, 200, 200)), {"progress": 0.0, "first": None}, "not_carried_out", None),
    "done in part": (window(2, (500, 300, 200)), {"progress": 0.5, "first": None}, "unknown", None),
    "nothing shows it": (window(2, (350, 350, 300)), {"progress": None, "first": None}, "unknown", None),
    "done within the window": (window(1, (500, 300, 200)), {"first": None}, "unknown", None),
    "done and undone": (window(3, (600, 200, 200)), {"progress": 0.0}, "unknown", None),
    "leaders moved too": (window(2, (350, 350, 300), leaders=(1, 3, 2)), {}, "unknown", None),
    "no traffic": (window(2, (0, 0, 0), others=(1, 1, 1)), {}, "unknown", None),
    "too little to distinguish": (
        window(2, (600, 200, 200)),
        {"advice": replace(ADVICE, predicted_ratio=1.77, predicted_ratio_low=1.77, predicted_ratio_high=1.77)},
        "unknown",
        1.77,
    ),
}


def test_a_promise_bears_what_the_replay_predicted_and_what_the_window_shows():
    """Every number another one, so that none stands in another's place."""
    compared = {("linger", "orders"): {"trust": "trusted", "records_per_batch": 31.0, "latency_p99_ms": 37.0}}
    tested = {"orders": {"observed_records_per_batch": 41.0, "observed_latency_avg_ms": 43.0, "share_ratio": 47.0}}
    promise = judge(
        window(2, (350, 350, 300), back_tests=tested),
        advice=replace(ADVICE, action="replay:linger", topic="orders"),
        then=replace(THEN, compared=compared),
    )
    assert (promise.trust, promise.predicted_records_per_batch, promise.predicted_latency_p99_ms) == ("trusted", 31, 37)
    assert (promise.actual_records_per_batch, promise.actual_latency_avg_ms) == (41, 43)
    assert (promise.share_ratio, promise.actual_ratio) == (1.8, pytest.approx(1.05))


@pytest.mark.parametrize(("now", "watched", "outcome", "corrected"), OUTCOMES.values(), ids=OUTCOMES)
def test_what_a_window_says_of_a_promise(now, watched, outcome, corrected):
    promise = judge(now, **watched)
    assert (promise.outcome, promise.corrected_ratio) == (outcome, corrected and pytest.approx(corrected))
    assert promise.reason


# The plan hands orders-0 from broker 1 to broker 2; broker 1 keeps orders-1. Then 600 of 1,000 were on broker 1.
BEFORE = window(0, (400, 200, 400), leaders=(1, 1, 3))
PLANS = {
    "the load follows the partition": (window(2, (400, 200, 400), leaders=(2, 1, 3)), "kept", 0.6, 1.8),
    # 200 of 800: volumes by topic are the traffic's own
    "less traffic": (window(2, (320, 160, 320), leaders=(2, 1, 3)), "kept", 0.6, 1.8),
    "the load follows the broker": (window(2, (200, 400, 400), leaders=(2, 1, 3)), "broken", 0.6, 1.8),
    # placed by keys, a load that moves between partitions is the traffic's own: broker 1 has orders-1 either way
    "keys changed": (window(2, (200, 400, 400), leaders=(2, 1, 3), keyed=["orders"]), "kept", 1.2, 1.8),
    # orders-2 came to broker 1 by another hand: 600 of 1,000 against 1,000
    "another leader moved as well": (window(2, (400, 200, 400), leaders=(2, 1, 1)), "kept", 1.8, 3.0),
}


@pytest.mark.parametrize(("now", "outcome", "corrected", "without"), PLANS.values(), ids=PLANS)
def test_what_a_window_says_of_a_plan(now, outcome, corrected, without):
    promise = judge(now, advice=PLAN, then=BEFORE)
    assert promise.outcome == outcome
    assert (promise.corrected_ratio, promise.without_ratio) == pytest.approx((corrected, without))


def test_a_plan_says_nothing_where_producers_of_a_keyless_topic_changed_too():
    now = window(3, (400, 200, 400), leaders=(2, 1, 3))
    together = watch(now, then=BEFORE)
    assert judge(now, together, advice=PLAN, then=BEFORE).reason == f"this was done too: {ADVICE.title}"
    now = replace(now, keyed=frozenset({"orders"}))
    assert judge(now, watch(now, then=BEFORE), advice=PLAN, then=BEFORE).outcome == "kept"


def test_of_two_candidates_the_one_that_says_all_that_changed_is_judged():
    more = Candidate(name="more", config={"linger.ms": "5", "batch.size": "65536"})
    now, wider = window(2, (350, 350, 300)), replace(ADVICE, action="replay:more", title="more")
    both = [watch(now), watch(now, advice=wider)]
    said = [judge_promise(one, both, {**CANDIDATES, "more": more}) for one in both]
    assert [(one.outcome, one.reason) for one in said] == [
        ("unknown", "this was done too: more"),
        ("kept", "the share is as predicted"),
    ]


def test_the_old_setup_replayed_on_the_new_traffic_corrects_the_promise():
    """It would put 0.7 on broker 1 by now where it put 0.6: the promise moves from 0.35 to 0.45."""
    then = replace(THEN, compared={("linger 0", "orders"): {"is_as_in_use": True}})
    now = replace(
        window(2, (450, 300, 250)),
        compared={("linger 0", "orders"): {"is_as_in_use": False}},
        placed={("linger 0", "orders", 1): 0.7},
    )
    promise = judge(now, then=then)
    assert (promise.outcome, promise.without_ratio, promise.corrected_ratio) == (
        "kept",
        pytest.approx(2.1),
        pytest.approx(1.35),
    )


SHOWN = {
    "a new session with the setting": ([session(8, linger="5", source="inferred, 3 to 7")], 1.0),
    "a new session, configured": ([session(8, linger="5", source="configured")], 1.0),
    "a new session, configured otherwise": ([session(8, linger="0", source="configured")], 0.0),
    "a new session, other bounds": ([session(8, linger="0", source="default, 0 to 3")], 0.0),
    "a new session, bounds that hold both": ([session(8, linger="0", source="default, 0 to 7")], None),
    "a new session, no upper bound": ([session(8, linger="4", source="inferred, 3 or more")], None),
    "nothing inferred": ([session(8, linger="5", source="unknown, 0 to 9")], None),
    # a session keeps its settings: this is chance
    "the old session, as if with the setting": ([session(7, linger="5", source="inferred, 3 to 7")], 0.0),
    "pooled producers may change": ([session(-1, linger="5", source="inferred, 3 to 7", epoch=-1)], 1.0),
    "half of the records": ([session(7, count=50), session(8, linger="5", count=50)], 0.5),
    "all but a few records": ([session(7, count=3), session(8, linger="5", count=97)], 1.0),
    "no session": ([], None),
}


@pytest.mark.parametrize(("rows", "ratio"), SHOWN.values(), ids=SHOWN)
def test_whether_settings_changed(rows, ratio):
    now = window(2, (350, 350, 300), sessions={"orders": rows})
    assert measure_progress(ADVICE, THEN, now, CANDIDATES).ratio == ratio


def test_whether_partitioner_client_partitions_leaders_and_keys_changed():
    kinds = {
        "partitioner": Candidate(name="partitioner", partitioner="java-builtin"),
        "client": Candidate(name="client", client="4.1.1"),
        "partitions": Candidate(name="partitions", partitions="x2"),
    }
    then = replace(THEN, heavy_keys={"orders": frozenset({"a", "b"})})
    now = window(2, (1,) * 6, leaders=(1, 2, 3, 1, 2, 3), sessions={"orders": [session(8)]})
    compared = {("client", "orders"): {"is_as_in_use": True}}
    now = replace(now, compared=compared, heavy_keys={"orders": frozenset({"b"})})

    def progress(action, at=now):
        return measure_progress(replace(ADVICE, action=action), then, at, kinds).ratio

    actions = [f"replay:{name}" for name in kinds] + ["rekey", "replay:gone"]
    assert [progress(action) for action in actions] == [1.0, 1.0, 1.0, 0.5, None]
    unsure = replace(now, compared={}, sessions={"orders": [session(8, confidence=0.3)]})
    assert [progress(action, unsure) for action in actions[:2]] == [None, None]
    assert progress("replay:partitions", THEN) == 0.0

    moved = replace(now, leaders={("orders", 0): 2})
    elected = replace(PLAN, reassignment_json=None)
    preferred = replace(BEFORE, replicas={("orders", 0): (2, 1)})
    for plan, before in ((PLAN, BEFORE), (elected, preferred)):
        assert measure_progress(plan, before, moved, {}).ratio == 1.0
        assert measure_progress(plan, before, BEFORE, {}).ratio == 0.0
        assert measure_progress(plan, before, replace(now, leaders={("orders", 0): -1}), {}).ratio is None


@pytest.mark.parametrize(
    ("partitioner", "ratio"), [("java-builtin", 1.0), ("java-sticky-2.4", 0.0), ("java-builtin-uniform", None)]
)
def test_batches_show_the_built_in_partitioner_though_not_which_of_the_two(partitioner, ratio):
    """Its confidence is at most a half, unless slow brokers tell the adaptive one from the uniform one."""
    now = window(2, (350, 350, 300), sessions={"orders": [session(8, confidence=0.4995)]})
    candidates = {"up": Candidate(name="up", partitioner=partitioner)}
    assert measure_progress(replace(ADVICE, action="replay:up"), THEN, now, candidates).ratio == ratio
    by_keys = replace(now, sessions={"orders": [session(8, confidence=0.5, runner_up="java-sticky-2.4")]})
    assert measure_progress(replace(ADVICE, action="replay:up"), THEN, by_keys, candidates).ratio is None


@pytest.mark.parametrize(
    ("version", "ratio"), [("4.1.1", 1.0), ("3.9.1-ccs", 1.0), ("3.2.3", 0.0), ("unknown", None), (None, None)]
)
def test_a_client_that_tells_its_version_shows_an_upgrade_that_batches_leave_open(version, ratio):
    """As a real upgrade from 3.2.3 to 3.9.1 did: the batches do not show it, `app-info` does."""
    told = {} if version is None else {(8, 0): version}
    open_ = session(8, confidence=0.3)
    now = window(2, (350, 350, 300), sessions={"orders": [open_]}, client_versions=told)
    for candidate in (Candidate(name="up", partitioner="java-builtin"), Candidate(name="up", client="3.3")):
        advice = replace(ADVICE, action="replay:up")
        assert measure_progress(advice, THEN, now, {"up": candidate}).ratio == ratio
    other = Candidate(name="up", partitioner="java-builtin-uniform")  # a setting, which a version does not tell
    assert measure_progress(replace(ADVICE, action="replay:up"), THEN, now, {"up": other}).ratio is None


def test_a_plan_that_was_replayed_is_held_to_what_the_replay_said():
    """Of 1,000 bytes broker 1 had 600 (1.8); replayed 500 (1.5) where its partitions' loads say 400. Twice the traffic came."""
    replayed = replace(PLAN, predicted_ratio=1.5, predicted_ratio_low=1.41, predicted_ratio_high=1.59, is_replayed=True)
    now = window(3, (300, 1000, 700), leaders=(2, 1, 3))
    promise = judge(now, advice=replayed, then=BEFORE)
    assert (promise.without_ratio, promise.corrected_ratio) == pytest.approx((1.8, 1.5))
    assert promise.outcome == "kept"
    assert judge(now, advice=replace(PLAN, is_replayed=False), then=BEFORE).corrected_ratio != pytest.approx(1.5)


def test_the_newest_advice_is_watched_and_what_was_carried_out():
    first, second, third = (replace(ADVICE, window_start_ms=T0_MS + n * MINUTE_MS) for n in range(3))
    assert choose_watched([first, third, second], []) == [third]
    done = judge(window(1, (350, 350, 300)), first=None)
    assert (done.key, done.carried_out_ms) == (name_promise(first), T0_MS + MINUTE_MS)
    assert choose_watched([first, third, second], [done]) == [first, third]


def test_what_left_in_a_mail_is_watched_until_it_is_undone():
    first, second, third = (replace(ADVICE, window_start_ms=T0_MS + n * MINUTE_MS) for n in range(3))
    mailed = {name_promise(first)}
    assert choose_watched([first, second, third], [], mailed) == [first, third]
    undone = replace(judge(window(3, (600, 200, 200)), progress=0.0), window_start_ms=T0_MS + 3 * MINUTE_MS)
    assert undone.is_undone
    assert choose_watched([first, second, third], [undone], mailed) == [third]


def test_of_two_that_ask_for_the_same_the_one_in_the_mail_is_judged():
    """The plan that was mailed is carried out; the newest one, for leaders that it moves too, takes no blame."""
    now = window(2, (200, 400, 400), leaders=(2, 1, 3))
    phantom = replace(PLAN, action="elect_preferred", window_start_ms=T0_MS + MINUTE_MS)
    sent = replace(watch(now, advice=PLAN, then=BEFORE), is_mailed=True)
    unsent = watch(now, advice=phantom, then=replace(BEFORE, start_ms=T0_MS + MINUTE_MS))
    said = {
        one.action: judge_promise(watched, (sent, unsent), {}) for watched in (sent, unsent) for one in [watched.advice]
    }
    assert [(one.outcome, one.is_mailed) for one in said.values()] == [("broken", True), ("unknown", False)]
    assert said["elect_preferred"].reason.endswith(f"asked for it: {PLAN.title}")


def test_advice_that_was_mailed_twice_counts_once():
    now, later = window(2, (350, 350, 300)), replace(ADVICE, window_start_ms=T0_MS + MINUTE_MS)
    both = [
        replace(watch(now, advice=one, then=replace(THEN, start_ms=one.window_start_ms)), is_mailed=True)
        for one in (ADVICE, later)
    ]
    assert [judge_promise(one, both, CANDIDATES).outcome for one in both] == ["unknown", "kept"]


def test_a_slow_broker_is_seen_to_when_it_answers_like_its_peers():
    check = replace(ADVICE, action="check_broker", topic="", predicted_ratio=None)
    then, still, now = (
        replace(THEN, slow={1: True}),
        window(1, (600, 200, 200), slow={1: True}),
        window(2, (1, 1, 1), slow={1: False}),
    )
    assert [measure_progress(check, then, at, {}).ratio for at in (still, now, window(2, (1, 1, 1)))] == [
        0.0,
        1.0,
        None,
    ]
    assert measure_progress(check, THEN, now, {}).ratio is None
    assert judge(now, advice=check, then=then).reason == "no share was predicted"


def test_a_mended_broker_is_judged_over_all_topics():
    check = replace(ADVICE, action="check_broker", topic="")
    assert judge(window(2, (350, 350, 300)), advice=check).outcome == "kept"
    assert judge(window(2, (600, 200, 200)), advice=check).outcome == "broken"
    now = window(2, (350, 350, 300))
    linger = judge(now, watch(now, advice=check))
    assert (linger.outcome, linger.reason) == ("unknown", f"this was done too: {check.title}")


def test_a_promise_counts_once_as_most_windows_say():
    kept, broken = (judge(window(2, loads)) for loads in ((350, 350, 300), (600, 200, 200)))
    told = [replace(kept, window_start_ms=n) for n in range(2)] + [replace(broken, window_start_ms=2)]
    other = replace(broken, subject="broker 2")
    half = [replace(each, subject="broker 3") for each in (kept, broken)]  # no majority kept it
    assert score_actions([*told, other, *half, judge(window(1, (1, 1, 1)), first=None)]) == {
        "replay:linger": PromiseScore(1, 2)
    }
