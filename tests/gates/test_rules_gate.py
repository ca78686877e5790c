"""The gate of the further rules over hand-made measures: each severity by itself."""

from __future__ import annotations

import pytest

from expectations.gate import run_suite
from pipeline.config.rules import Rule, over_defaults
from tests.gates.rows import MINUTE_0_MS, at, frame_of


def run(spark, values, rules, *, step=1, rule="below_min_isr", holds=()):
    rows = [
        {
            "window_start": at(minute * step),
            "rule": rule,
            "subject": "topic orders",
            "topic": "orders",
            "value": float(value),
            "p_value": None,
            "is_enough": True,
            "detail": f"{value} partitions",
        }
        for minute, value in enumerate(values)
    ]
    known = {name: Rule(**rule).model_dump() for name, rule in over_defaults(rules).items()}
    parameters = {"rules": known, "chance_level": 0.001, "judged_from_ms": MINUTE_0_MS, "holds": dict(holds)}
    return run_suite("rules_gate", frame_of(spark, "gold.rule_measures", rows), parameters)


@pytest.mark.parametrize(
    ("severity", "verdicts", "failed", "warned"),
    [
        ("critical", ["fail"], ["critical_rules"], []),
        ("warning", ["warn"], [], ["warning_rules"]),
        ("off", [], [], []),
    ],
)
def test_a_rule_fails_or_warns_by_its_severity(spark, severity, verdicts, failed, warned):
    report = run(spark, [0, 2], {"below_min_isr": {"severity": severity}})
    assert [verdict.verdict for verdict in report.verdicts] == verdicts
    assert [check.name for check in report.failures] == failed
    assert [check.name for check in report.warnings] == warned
    for check in (*report.failures, *report.warnings):
        assert check.rows[0]["subject"] == "topic orders"
        assert "2 partitions" in check.rows[0]["reason"]


@pytest.mark.parametrize(("rule", "verdict"), [("topic_peak", "incomplete"), ("below_min_isr", "fail")])
def test_a_window_that_is_held_back_fails_no_rule_about_traffic(spark, rule, verdict):
    rules = {rule: {"severity": "critical", "k": 1, "n": 1}}
    held = {str(MINUTE_0_MS): {"kind": "incomplete", "reason": "a reassignment of 1 partition was running"}}
    report = run(spark, [9], rules, rule=rule, holds=held)
    assert [found.verdict for found in report.verdicts] == [verdict]
    assert report.success == (verdict != "fail")


def test_two_rows_of_one_subject_in_one_window_fail_the_gate(spark):
    report = run(spark, [0, 0], {}, step=0)
    assert [check.name for check in report.failures] == ["key_unique"]
