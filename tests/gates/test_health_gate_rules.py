"""The health gate over hand-made measures of the further rules: each severity by itself."""

import pytest

from expectations.gates import check_health, check_measured
from pipeline.config.rules import RuleSettings, fill_rules
from pipeline.errors import DataGateError
from pipeline.jobs.judge_health import judge_further_rules
from pipeline.rules.rule import RuleMeasure
from pipeline.tables.health import RULE_MEASURES
from pipeline.verdicts.rules import judge_rules
from pipeline.verdicts.sources import SkippedWindow, judge_sources
from tests.gates.rows import MINUTE_0_MS, gate_run
from tests.unit.verdicts.test_sources import arrival


@pytest.fixture
def stored(tmp_path):
    """A run whose measures are stored."""

    def stored(values, *, step=1, rule="below_min_isr", rules=()):
        run = gate_run(tmp_path, rules=dict(rules))
        of = {"rule": rule, "subject": "topic orders", "topic": "orders"}
        measures = [
            RuleMeasure(
                window_start_ms=MINUTE_0_MS + at * step * 60_000, value=value, detail=f"{value} partitions", **of
            )
            for at, value in enumerate(values)
        ]
        run.replace(RULE_MEASURES, measures, run.windows)
        return run

    return stored


def check(run, skipped=None):
    verdicts = judge_further_rules(run, MINUTE_0_MS, skipped)
    return check_health(run, verdicts), verdicts


@pytest.mark.parametrize(
    ("severity", "verdicts", "failed", "warned"),
    [("critical", ["fail"], ["critical_rules"], []), ("warning", ["warn"], [], ["warning_rules"]), ("off", [], [], [])],
)
def test_a_rule_fails_or_warns_by_its_severity(stored, severity, verdicts, failed, warned):
    report, found = check(stored([0, 2], rules={"below_min_isr": {"severity": severity}}))
    assert [verdict.verdict for verdict in found] == verdicts
    assert [one.name for one in report.failures] == failed
    assert [one.name for one in report.warnings] == warned
    for one in (*report.failures, *report.warnings):
        assert one.rows[0]["subject"] == "topic orders"
        assert "2 partitions" in one.rows[0]["reason"]


@pytest.mark.parametrize(("rule", "verdict"), [("topic_peak", "incomplete"), ("below_min_isr", "fail")])
def test_a_window_that_is_skipped_fails_no_rule_about_traffic(stored, rule, verdict):
    run = stored([9], rule=rule, rules={rule: {"severity": "critical", "k": 1, "n": 1}})
    skipped = {MINUTE_0_MS: SkippedWindow("incomplete", "a reassignment of 1 partition was running")}
    report, found = check(run, skipped)
    assert [one.verdict for one in found] == [verdict]
    assert report.success == (verdict != "fail")


def test_two_measures_of_one_subject_in_one_window_fail_the_gate_of_measures(stored, spark):
    run = stored([0, 0], step=0)
    with pytest.raises(DataGateError, match=r"key_unique: The declared key is unique\. Found 2"):
        check_measured(spark, run, run.windows, ())


def test_overrides_by_topic_have_a_severity_of_their_own(stored):
    override = {"severity": "warning", "topics": {"ord*": {"severity": "critical"}}}
    report, (verdict,) = check(stored([0, 2], rules={"below_min_isr": override}))
    assert (verdict.verdict, [one.name for one in report.failures]) == ("fail", ["critical_rules"])


def test_a_source_that_did_not_arrive_fails_the_gate(tmp_path):
    run = gate_run(tmp_path)
    report = check_health(run, judge_sources([arrival(arrived=4)], max_age_ms=60_000))
    assert [(one.name, one.rows[0]["subject"]) for one in report.failures] == [("sources_arrived", "live_cluster")]


def test_rules_without_settings_are_not_judged(stored):
    run = stored([9])
    measures = run.values(RuleMeasure, RULE_MEASURES)
    settings = {"leaderless": RuleSettings(**fill_rules({})["leaderless"])}
    assert judge_rules(measures, settings, chance_level=0.001) == ()
