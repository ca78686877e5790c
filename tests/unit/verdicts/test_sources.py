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
    fields = {
        "window_start_ms": window * HOUR_MS,
        "source": source,
        "expected_count": expected,
        "arrived_count": arrived,
        "missing": None,
        "newest_ms": (window + 1) * HOUR_MS,
        "as_of_ms": (window + 1) * HOUR_MS,
    }
    return SourceStatus(**{**fields, **others})


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
    (verdict,) = judge_sources([found], max_age_ms=LIMIT_MS)
    assert (verdict.rule, verdict.subject) == (SOURCE_ARRIVAL, found.source)
    assert verdict.verdict == ("ok" if kind is None else "fail")
    assert (verdict.value > 0) == (kind is not None)
    if found.missing:
        assert found.missing in verdict.reason


def test_what_shares_do_not_rest_on_is_a_warning():
    said = "racks and fencing are not known for sure, REGISTER_BROKER_RECORD of version 9, known up to 4"
    (verdict,) = judge_sources([arrival(missing=said)], max_age_ms=LIMIT_MS)
    assert (verdict.verdict, verdict.is_above, verdict.reason) == ("warn", False, f"live_cluster: {said}")
    assert find_skipped([arrival(missing=said)], max_age_ms=LIMIT_MS) == {}


def test_a_silent_metrics_source_fails_and_no_share_rests_on_it():
    silent = arrival(source="prometheus", arrived=0)
    assert find_skipped([silent], max_age_ms=LIMIT_MS) == {}
    (verdict,) = judge_sources([silent], max_age_ms=LIMIT_MS)
    assert (verdict.verdict, verdict.value) == ("fail", 1.0)
    (texts,) = judge_sources([arrival(source="consumer_groups", expected=None, arrived=0)], max_age_ms=LIMIT_MS)
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
    verdicts = judge_sources(
        [arrival(window, arrived=count) for window, count in enumerate(arrived)], max_age_ms=LIMIT_MS
    )
    changes = fold_verdicts(
        verdicts, cluster="c", policy_of=lambda _: IncidentPolicy(resolves_at=CALM_BELOW, k=1, worsens_by=3.0)
    )
    assert [(c.state, c.since_ms // HOUR_MS, c.window_start_ms // HOUR_MS) for c in changes] == [
        ("new", 1, 1),
        ("resolved", 1, 3),
        ("new", 5, 5),
    ]
    assert changes[1].peak_value == pytest.approx(0.4)


def test_the_mails_say_since_when_and_what_is_missing():
    verdicts = judge_sources([arrival(0, arrived=4, missing="broker 2 (no\nanswer)"), arrival(1)], max_age_ms=LIMIT_MS)
    new, resolved = fold_verdicts(
        verdicts, cluster="prod", policy_of=lambda _: IncidentPolicy(resolves_at=CALM_BELOW, k=1, worsens_by=3.0)
    )
    evidence = IncidentEvidence(
        cluster="prod",
        change=new,
        reason=verdicts[0].reason,
        window_ms=HOUR_MS,
        limits_at="freshness",
        owner="platform",
    )
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
    beginning = SourceBeginning(asked * HOUR_MS, None if brought is None else brought * HOUR_MS)
    (found,) = judge_sources(
        [arrival(window, source="prometheus", arrived=0)],
        max_age_ms=LIMIT_MS,
        beginnings={"prometheus": beginning},
        patience_ms=4 * HOUR_MS,
    )
    assert (found.verdict, found.is_above) == (verdict, verdict == "fail")


@pytest.mark.parametrize("brought", [None, 5])
def test_metrics_that_refuse_the_run_are_not_young(brought):
    """A wrong password at the first run: 401 to each request."""
    (found,) = judge_sources(
        [arrival(0, source="prometheus", arrived=0, problem_count=1)],
        max_age_ms=LIMIT_MS,
        beginnings={"prometheus": SourceBeginning(0, None if brought is None else brought * HOUR_MS)},
        patience_ms=4 * HOUR_MS,
    )
    assert (found.verdict, found.is_above) == ("fail", True)


def test_records_that_do_not_come_are_never_excused():
    (found,) = judge_sources(
        [arrival(arrived=0)], max_age_ms=LIMIT_MS, beginnings={"live_cluster": SourceBeginning(0, None)}, patience_ms=1
    )
    assert found.verdict == "fail"
