"""Rows of tables to measures. Oracle: worked out by hand on a few rows."""

from dataclasses import fields

import pytest

from pipeline.alerting.incident_mail import describe_rule
from pipeline.evidence.incident import IncidentEvidence
from pipeline.measures.outages import Outage
from pipeline.rules import RULES
from pipeline.rules.rule import Rule, measure_column
from pipeline.tables.health import TOPIC_HEALTH
from tests.incident_rows import new_change
from tests.unit.rules.measured import HOUR_MS, T0, T0_MS, hour, measured, values


def test_a_group_is_judged_by_all_that_its_members_read():
    def of(group, topic, members, to_mean, under):
        row = {"window_start": T0, "group_id": group, "topic": topic}
        row |= {"member_count": members[0], "idle_member_count": members[1]}
        return {**row, "group_busiest_to_mean": to_mean, "group_busiest_to_mean_under": under}

    rows = [of("g", "a", (1, 1), 1.25, [("range", 1.5)]), of("g", "b", (2, 0), 1.25, [("range", 1.5)])]
    rows += [of("alone", "a", (1, 0), 1.0, []), of("quiet", "a", (2, 0), None, None)]
    several, quiet = measured("assignment_skew", {"gold.group_balance": rows})
    assert (several.subject, several.topic, several.value, several.is_enough) == ("group g", "", 1.25, True)
    assert "the busiest of 2 members reads 1.25 times" in several.detail
    assert several.detail.endswith("range 1.50")
    assert (quiet.subject, quiet.topic, quiet.value, quiet.is_enough) == ("group quiet", "a", None, False)
    assert "not known" in quiet.detail


def test_segments_before_their_logs_start_are_gone():
    def segment(base_offset, last_offset, deletable):
        log = {"topic": "a", "partition": 0, "broker_id": 1, "size_bytes": 5}
        return {**log, "base_offset": base_offset, "last_offset": last_offset, "deletable_at": deletable}

    topics = [{"window_start": hour(n), "topic": topic} for n in range(3) for topic in ("a", "b")]
    state = [
        {"window_start": hour(n), "topic": "a", "partition": 0, "replica_id": 1, "log_start_offset": start}
        for n, start in enumerate((0, 0, 100))
    ]
    segments = [segment(0, 99, hour(0.5)), segment(100, None, hour(1.95)), segment(200, 299, hour(9))]
    rows = {"gold.topic_health": topics, "bronze.cluster_state": state}
    found = values(measured("segments_past_retention", rows, hours=range(3), deletable=segments))
    # the second lies on for three minutes only when the second hour ends: the brokers' own delays
    assert [found[n * HOUR_MS, "topic a"] for n in range(3)] == [1, 1, 1]
    assert {found[n * HOUR_MS, "topic b"] for n in range(3)} == {0}


@pytest.mark.parametrize(
    ("of_segment", "of_log", "count"),
    [
        ({}, {}, 1),
        ({"topic_id": "old"}, {}, 0),  # the topic was made anew, and began at 0 again
        ({"topic_id": ""}, {}, 1),
        ({}, {"topic_id": ""}, 1),
        ({}, {"configs": [("retention.ms", str(2 * HOUR_MS))]}, 0),  # it was raised since
        ({}, {"configs": [("retention.ms", "-1")]}, 0),
        ({}, {"configs": [("retention.ms", str(HOUR_MS // 2))]}, 1),
    ],
)
def test_a_segment_is_past_the_retention_that_its_topic_has_now(of_segment, of_log, count):
    log = {"topic": "a", "topic_id": "id", "partition": 0}
    closed = {"broker_id": 1, "base_offset": 0, "last_offset": 9, "size_bytes": 5}
    times = {"max_timestamp": hour(-0.5), "deletable_at": hour(0)}
    state = {"window_start": hour(0), "replica_id": 1, "log_start_offset": 0}
    rows = {
        "gold.topic_health": [{"window_start": hour(0), "topic": "a"}],
        "bronze.cluster_state": [log | state | of_log],
    }
    found = values(measured("segments_past_retention", rows, deletable=[log | closed | times | of_segment]))
    assert found == {(0, "topic a"): count}


def test_latency_is_that_of_all_clients_together():
    figures = {"request_latency_avg_ms": 20.0, "ratio_to_peers": 4.0, "ratio_to_history": None}
    rows = [{"window_start": T0, "client_id": client, "broker_id": 1, **figures} for client in ("*", "orders-1")]
    (measure,) = measured("latency_to_peers", {"gold.latency": rows})
    assert (measure.rule, measure.value, measure.subject) == ("latency_to_peers", 4.0, "broker 1")
    assert measured("latency_to_history", {"gold.latency": rows}) == []


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("state", ["new", "resolved"])
def test_every_rule_has_a_mail_that_says_what_it_means(rule, state):
    of = {"rule": rule, "subject": "topic <b>orders</b>", "since_ms": T0_MS, "window_count": 2}
    change = new_change(state, T0_MS + HOUR_MS, value=3.0, peak_value=4.0, limit_value=1.0, **of)
    told = {"reason": "3 partitions", "events": ("broker 2: out of the cluster for 45 s of the window",)}
    of_cluster = {"cluster": "demo", "window_ms": HOUR_MS, "limits_at": f"rules.{rule}", "owner": "team"}
    evidence = IncidentEvidence(change=change, **told, **of_cluster)
    content = describe_rule(evidence)
    assert content.subject_line.startswith("[FAIL]" if state == "new" else "[RESOLVED]")
    assert rule not in content.headline
    assert ("3 partitions" in content.headline) == (state == "new")
    assert content.tone == ("alarm" if state == "new" else "calm")
    assert evidence.events[0] in content.headline


@pytest.mark.parametrize(("as_of_hours", "ends"), [(1.0, "11:00"), (1.9, "11:00"), (2.0, "12:00"), (5.5, "15:00")])
def test_a_mail_that_leaves_late_looks_forward(as_of_hours, ends):
    """Of the window from 09:00 to 10:00: a mail at 14:30 does not announce a look at 11:00."""
    change = new_change("new", T0_MS, rule="topic_peak", subject="topic orders", value=3.0, limit_value=0.0)
    as_of_ms = T0_MS + round(as_of_hours * HOUR_MS)
    evidence = IncidentEvidence(cluster="c", change=change, window_ms=HOUR_MS, limits_at="rules.x", as_of_ms=as_of_ms)
    assert f"The next window to be judged ends at 2026-11-21 {ends}" in describe_rule(evidence).footer[-1]


def led(partition, *terms, window=0):
    """Traffic of a partition of topic t: (leader epoch, leader) in any order."""
    places = {"window_start": hour(window), "topic": "t", "topic_id": "", "partition": partition}
    return [{**places, "leader_epoch": epoch, "leader_id": leader} for epoch, leader in terms]


def test_leaders_that_moved_are_told_by_who_lost_them():
    rows = [
        *led(0, (4, 1), (3, 2)),
        *led(1, (0, 2), (1, 0), (2, 2)),
        *led(2, (5, 1), (6, 1)),  # an epoch more, and the same leader
        *led(3, (7, -1), (8, 0)),  # who led before is not known
        *led(0, (4, 1), window=1),
    ]
    found = measured("leaders_moved", {"silver.partition_traffic": rows}, hours=(0, 1))
    counts = {(0, "broker 0"): 1.0, (0, "broker 1"): 0.0, (0, "broker 2"): 2.0, (HOUR_MS, "broker 1"): 0.0}
    assert values(found) == counts
    (lost,) = (m.detail for m in found if m.subject == "broker 2")
    assert lost == "led 2 partitions that another broker led later in the window: t-0, t-1"
    many = [row for number in range(7) for row in led(number, (0, 1), (1, 2))]
    (said, _) = (m.detail for m in measured("leaders_moved", {"silver.partition_traffic": many}))
    assert said.endswith("t-0, t-1, t-2, t-3, t-4 and 2 more")


@pytest.mark.parametrize(
    ("away_ms", "is_fenced", "value", "said"),
    [
        (0, False, 0.0, "in the cluster"),
        (45_000, False, 45.0, "out of the cluster for 45 s of the window"),
        (45_000, True, 45.0, "out of the cluster for 45 s of the window"),
        (None, True, 3600.0, "not in the cluster when it was asked at 2026-11-21 10:00 UTC"),
        (None, False, 0.0, "in the cluster"),
        (None, None, None, None),
    ],
)
def test_a_broker_that_was_away(away_ms, is_fenced, value, said):
    row = {"window_start": hour(0), "broker_id": 2, "away_ms": away_ms, "is_fenced": is_fenced, "observed_at": hour(1)}
    found = measured("broker_away", {"bronze.brokers": [row]})
    assert [(m.subject, m.value, m.detail) for m in found] == ([] if value is None else [("broker 2", value, said)])


SECOND_MS = 1_000
OUTAGES = {
    "dated": (
        {"since_ms": 1800, "asked_ms": 3900},
        1800.0,
        "away since 2026-11-21 09:30 UTC (30 minutes of the window); others lead its partitions since then, "
        "away when asked at 2026-11-21 10:05 UTC",
    ),
    "asked within": (
        {"since_ms": 3000, "asked_ms": 3000, "back_ms": 3060},
        60.0,
        "away when asked at 2026-11-21 09:50 UTC (1 minute of the window); back by 2026-11-21 09:51 UTC",
    ),
    "of a later window": ({"since_ms": 3900, "asked_ms": 3900}, None, None),
    "of another broker": ({"since_ms": 1800, "asked_ms": 3900, "broker_id": 3}, None, None),
}


@pytest.mark.parametrize(("known", "value", "said"), OUTAGES.values(), ids=OUTAGES)
def test_an_outage_that_answers_and_leader_epochs_show(known, value, said):
    at_ms = {name: T0_MS + seconds * SECOND_MS for name, seconds in known.items() if name.endswith("_ms")}
    outage = Outage(broker_id=known.get("broker_id", 2), last_ms=at_ms["asked_ms"], **at_ms)
    row = {"window_start": hour(0), "broker_id": 2, "away_ms": None, "is_fenced": None, "observed_at": hour(1)}
    found = measured("broker_away", {"bronze.brokers": [row]}, outages=[outage])
    assert [(m.subject, m.value, m.detail) for m in found] == ([] if value is None else [("broker 2", value, said)])
    of_log = measured("broker_away", {"bronze.brokers": [row | {"away_ms": 0}]}, outages=[outage])
    assert [m.value for m in of_log] == [0.0]  # the metadata log knows it better


OF_TOPICS = ("under_replicated", "below_min_isr", "leaderless")


@pytest.mark.parametrize("part", ["name", "measure", "limit", "meaning", "advice", "doc"])
def test_a_rule_without_one_of_its_parts_fails_when_it_is_made(part):
    rule = RULES["leaderless"]
    parts = {field.name: getattr(rule, field.name) for field in fields(Rule) if field.name != part}
    with pytest.raises(TypeError, match=f"missing .*'{part}'"):
        Rule(**parts)


@pytest.mark.parametrize(
    ("counts", "told"),
    [
        ({"unknown_replicas_count": 0, "unknown_min_isr_count": 0}, {*OF_TOPICS}),
        ({}, {*OF_TOPICS}),  # of an older version
        ({"unknown_replicas_count": 0, "unknown_min_isr_count": 1}, {"under_replicated", "leaderless"}),
        ({"unknown_replicas_count": 1, "unknown_min_isr_count": 0}, set()),
        ({"unknown_replicas_count": 1, "leaderless_count": 1}, {"leaderless"}),
    ],
)
def test_a_topic_of_which_something_is_not_known_is_not_well(counts, told):
    row = {"window_start": T0, "topic": "t", **{f"{rule}_count": 0 for rule in OF_TOPICS}, **counts}
    assert {rule for rule in OF_TOPICS if measured(rule, {"gold.topic_health": [row]})} == told


@pytest.mark.parametrize(
    ("column", "words"), [("leaderles_count", "nothing"), ("leaderless_count", "{leaderles_count} have no leader")]
)
def test_a_rule_over_an_unknown_column_fails_when_it_is_made(column, words):
    with pytest.raises(KeyError, match=r"gold\.topic_health has no column leaderles_count"):
        measure_column(TOPIC_HEALTH, column, words)


def node_row(client_id, broker_id, **found):
    known = dict.fromkeys(("throttle_time_avg_ms", "throttle_time_max_ms", "error_rate_per_s", "covered_ms", "source"))
    return known | {"window_start": hour(0), "client_id": client_id, "broker_id": broker_id} | found


def test_quotas_are_measured_of_clients_and_brokers():
    nodes = [node_row("app", 0, throttle_time_avg_ms=80.4, throttle_time_max_ms=400.0), node_row("app", 1)]
    nodes += [node_row("evil\r\nBcc: x", 0, throttle_time_avg_ms=0.0, throttle_time_max_ms=0.0), node_row("mute", 0)]
    times = [
        {"window_start": hour(0), "broker_id": broker, "stage": stage, "time_mean_ms": mean}
        for broker, stage, mean in ((0, "throttle", 12.0), (0, "total", 99.0), (1, "throttle", None), (None, "throttle", 5.0))
    ]  # fmt: skip  # fields of a value, several a line
    tables = {"silver.producer_nodes": nodes, "silver.broker_request_times": times}
    found = measured("throttled", tables)
    assert values(found) == {(0, "client app"): 80.4, (0, r"client evil\r\nBcc: x"): 0.0, (0, "broker 0"): 12.0}
    assert found[0].detail == "quotas delay its produce requests by 80 ms on average, 400 ms at most"


def test_records_that_were_given_up_are_counted_over_the_window():
    nodes = [node_row("app", broker, error_rate_per_s=0.5) for broker in (0, 1)]
    nodes += [node_row("many", 0, instance=f"pod-{number}", error_rate_per_s=0.5) for number in (1, 2)]
    nodes += [node_row("well", 0, error_rate_per_s=0.0), node_row("mute", 0)]
    nodes += [node_row("brief", 0, error_rate_per_s=2.0, covered_ms=13_500)]
    nodes += [node_row("rdkafka", 0, error_rate_per_s=3.0, source="librdkafka_statistics")]
    found = measured("failed_sends", {"silver.producer_nodes": nodes})
    counts = {"app": 1800.0, "brief": 27.0, "many": 3600.0, "well": 0.0}
    assert values(found) == {(0, f"client {name}"): count for name, count in counts.items()}
    assert found[0].detail.startswith("about 1,800 records were not delivered")
