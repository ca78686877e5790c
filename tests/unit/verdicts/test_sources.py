"""Availability of sources. Oracle: written out by hand."""

import dataclasses

import pytest

from pipeline.alerting.incident_mail import describe_source
from pipeline.alerting.incidents import IncidentPolicy, fold_verdicts
from pipeline.alerting.message import render_message
from pipeline.evidence.incident import IncidentEvidence
from pipeline.rules import SOURCE_ARRIVAL
from pipeline.verdicts.sources import (
    CALM_BELOW,
    SkippedWindow,
    SourceBeginning,
    SourceStatus,
    find_skipped,
    judge_skipped,
    judge_sources,
)

HOUR_MS = 3_600_000
LIMIT_MS = 2 * HOUR_MS


def arrival(window=0, source="live_cluster", expected=5, arrived=5, **others):
    fields = {"source": source, "expected_count": expected, "arrived_count": arrived, "missing": None}
    times = dict.fromkeys(("newest_ms", "as_of_ms"), (window + 1) * HOUR_MS)
    return SourceStatus(window_start_ms=window * HOUR_MS, **{**fields, **times, **others})


def judge(*arrivals, **of_metrics):
    return judge_sources(arrivals, max_age_ms=LIMIT_MS, **of_metrics)


def fold(verdicts):
    policy = IncidentPolicy(resolves_at=CALM_BELOW, k=1, worsens_by=3.0)
    return fold_verdicts(verdicts, cluster="prod", policy_of=lambda _: policy)


def began(asked_ms, brought_hour, source="prometheus"):
    """When a source was first asked and first brought something; no four windows without it are excused."""
    brought_ms = None if brought_hour is None else brought_hour * HOUR_MS
    return {"beginnings": {source: SourceBeginning(asked_ms, brought_ms)}, "patience_ms": 4 * HOUR_MS}


@pytest.mark.parametrize(
    ("found", "kind"),
    [
        (arrival(), None),
        (arrival(arrived=4, missing="broker 2 (it is not in the cluster)"), "incomplete"),
        (arrival(arrived=0), "stale"),
        (arrival(expected=None, arrived=0, missing="port 9092 of b refuses connections"), "stale"),
        (arrival(newest_ms=None), "stale"),
        (arrival(newest_ms=0, as_of_ms=LIMIT_MS), None),
        (arrival(newest_ms=0, as_of_ms=LIMIT_MS + 1), "stale"),
        (arrival(newest_ms=0, as_of_ms=LIMIT_MS + 1, source_expired=True), None),  # kept rows say nothing of age
        (arrival(source="prometheus", arrived=4), None),  # a scrape that was missed blinds nobody
    ],
)
def test_when_shares_are_not_judged(found, kind):
    skip = find_skipped([found], max_age_ms=LIMIT_MS).get(0)
    assert (skip.kind if skip else None) == kind
    (verdict,) = judge(found)
    assert (verdict.rule, verdict.subject) == (SOURCE_ARRIVAL, found.source)
    assert verdict.verdict == ("ok" if kind is None else "fail")
    assert (verdict.value > 0) == (kind is not None)
    if found.missing:
        assert found.missing in verdict.reason


def test_what_shares_do_not_rest_on_is_a_warning():
    said = "racks and fencing are not known for sure, REGISTER_BROKER_RECORD of version 9, known up to 4"
    (verdict,) = judge(arrival(missing=said))
    assert (verdict.verdict, verdict.is_above, verdict.reason) == ("warn", False, f"live_cluster: {said}")
    assert find_skipped([arrival(missing=said)], max_age_ms=LIMIT_MS) == {}


def test_a_silent_metrics_source_fails_and_no_share_rests_on_it():
    silent = arrival(source="prometheus", arrived=0)
    assert find_skipped([silent], max_age_ms=LIMIT_MS) == {}
    (verdict,) = judge(silent)
    assert (verdict.verdict, verdict.value) == ("fail", 1.0)
    (texts,) = judge(arrival(source="consumer_groups", expected=None, arrived=0))
    assert texts.verdict == "ok"


def test_windows_that_are_skipped_have_no_ok():
    skipped = {0: SkippedWindow("incomplete", "broker 2 is missing"), HOUR_MS: SkippedWindow("stale", "nothing came")}
    verdicts = judge_skipped(skipped, {0: {1: 1.5, 0: 0.5}}, limit_value=1.2)
    assert [(v.subject, v.verdict, v.value) for v in verdicts] == [
        ("broker 0", "incomplete", 0.5),
        ("broker 1", "incomplete", 1.5),
        ("cluster", "stale", None),
    ]
    assert not any(v.is_above for v in verdicts)


def test_one_incident_from_the_first_window_that_lacks_something_to_the_first_that_does_not():
    arrived = [5, 4, 3, 5, 5, 0]
    changes = fold(judge(*(arrival(window, arrived=count) for window, count in enumerate(arrived))))
    told = [(c.state, c.since_ms // HOUR_MS, c.window_start_ms // HOUR_MS) for c in changes]
    assert told == [("new", 1, 1), ("resolved", 1, 3), ("new", 5, 5)]
    assert changes[1].peak_value == pytest.approx(0.4)


def test_the_mails_say_since_when_and_what_is_missing():
    verdicts = judge(arrival(0, arrived=4, missing="broker 2 (no\nanswer)"), arrival(1))
    new, resolved = fold(verdicts)
    of = {"cluster": "prod", "window_ms": HOUR_MS, "limits_at": "freshness", "owner": "platform"}
    evidence = IncidentEvidence(change=new, reason=verdicts[0].reason, **of)
    mail = render_message(describe_source(evidence), sender="a@b.c", recipients=("d@e.f",), now_ms=0)
    assert "has been incomplete or late since" in mail.subject_line
    text = mail.payload.decode()
    assert "broker 2" in text
    assert "not judged" in text
    over = dataclasses.replace(evidence, change=resolved)
    answer = render_message(describe_source(over), sender="a@b.c", recipients=("d@e.f",), now_ms=0)
    assert "DATA COMPLETE" in answer.subject_line
    assert mail.message_id in answer.payload.decode()


@pytest.mark.parametrize(
    ("asked", "brought", "window", "verdict"),
    [
        (0, None, 0, "warn"),  # asked for the first time
        (0, None, 3, "warn"),
        (0, None, 4, "fail"),  # nothing in four windows: it is no new source
        (0, 5, 4, "warn"),  # it began later
        (0, 3, 4, "fail"),  # it brought something before: it is silent now
    ],
)
def test_metrics_younger_than_the_window_are_said_and_not_mailed(asked, brought, window, verdict):
    (found,) = judge(arrival(window, source="prometheus", arrived=0), **began(asked * HOUR_MS, brought))
    assert (found.verdict, found.is_above) == (verdict, verdict == "fail")


@pytest.mark.parametrize("brought", [None, 5])
def test_metrics_that_refuse_the_run_are_not_young(brought):
    """A wrong password at the first run: 401 to each request."""
    (found,) = judge(arrival(0, source="prometheus", arrived=0, problem_count=1), **began(0, brought))
    assert (found.verdict, found.is_above) == ("fail", True)


def test_records_that_do_not_come_are_never_excused():
    (found,) = judge(arrival(arrived=0), **began(0, None, "live_cluster"))
    assert found.verdict == "fail"


def test_metrics_that_refused_the_run_and_then_bring_nothing_are_not_told_to_be_over():
    """The password was mended and nothing came: that only warns for a while, and the mail said that there was no incident."""
    silent = [arrival(hour, source="prometheus", arrived=0, problem_count=1 - hour) for hour in (0, 1)]
    verdicts = judge(*silent, **began(0, None))
    assert [verdict.verdict for verdict in verdicts] == ["fail", "warn"]
    assert [change.state for change in fold(verdicts)] == ["new"]
