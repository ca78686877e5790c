"""The health gate over hand-made shares of three brokers; broker 1 is the hot one where there is one.

Oracle: the verdicts are written out by hand from the shares.
"""

from __future__ import annotations

import pytest

from expectations.gate import run_suite
from pipeline.errors import GateBrokenError
from tests.gates.rows import MINUTE_0_MS, at, frame_of

LIMITS = {
    "limit_ratio": 1.2,
    "floor_bytes": 60_000.0,
    "chance_level": 0.001,
    "k": 3,
    "n": 4,
    "luck_fails": False,
    "topic_limits": {},
}
EVEN, HOT = (100, 100, 100), (80, 140, 80)


def shares(spark, windows, *, scale=100_000, cluster="lab", luck=None):
    rows = [
        {
            "cluster": cluster,
            "window_start": at(minute),
            "broker_id": broker_id,
            "size_bytes": load * scale,
            "record_count": load,
            "share": load / sum(loads),
            "expected_share": 1 / 3,
            "share_ratio": 3 * load / sum(loads),
            "effective_unit_count": 10_000.0,
            "ratio_without_luck": None if luck is None else 3 * load / sum(loads) - luck,
        }
        for minute, loads in enumerate(windows)
        for broker_id, load in enumerate(loads)
    ]
    return frame_of(spark, "gold.broker_share", rows)


def run(spark, windows, judged_from=0, **others):
    parameters = {**LIMITS, "judged_from_ms": MINUTE_0_MS + judged_from * 60_000, **others}
    return run_suite("health_gate", shares(spark, windows), parameters)


@pytest.mark.parametrize(
    ("windows", "judged_from", "broker_1"),
    [
        ([EVEN] * 3, 0, ["ok", "ok", "ok"]),
        ([HOT] * 3, 0, ["warn", "warn", "fail"]),
        ([HOT] * 3, 2, ["fail"]),  # the first two are history, and count
        ([HOT, HOT, HOT, EVEN], 3, ["ok"]),  # history alone fails no window
    ],
)
def test_the_gate_judges_its_windows_with_the_ones_before_as_history(spark, windows, judged_from, broker_1):
    report = run(spark, windows, judged_from)
    assert [verdict.verdict for verdict in report.verdicts if verdict.subject == "broker 1"] == broker_1
    assert {verdict.verdict for verdict in report.verdicts if verdict.subject != "broker 1"} == {"ok"}
    assert report.success == ("fail" not in broker_1)


def test_a_failed_gate_names_broker_window_and_shares(spark):
    report = run(spark, [HOT] * 3)
    (check,) = report.failures
    assert check.observed == pytest.approx(1.4)
    assert check.rows == (
        {
            "window_start": "2026-11-21T09:02:00Z",
            "rule": "broker_share",
            "subject": "broker 1",
            "value": pytest.approx(1.4),
            "reason": "46.7% of the bytes where 33.3% is fair: 1.40 times its share; "
            "limit 1.20, above in 3 of the last 4 windows",
        },
    )


def test_limits_come_from_the_parameters(spark):
    assert run(spark, [HOT] * 3, limit_ratio=1.5).success
    assert run(spark, [HOT] * 3, floor_bytes=1e12).success
    assert not run(spark, [HOT], k=1, n=1).success


def test_no_rows_give_no_verdicts(spark):
    report = run(spark, [])
    assert (report.success, report.verdicts) == (True, ())


def test_two_clusters_in_one_frame_are_refused(spark):
    both = shares(spark, [EVEN]).union(shares(spark, [EVEN], cluster="other"))
    with pytest.raises(GateBrokenError, match="one cluster"):
        run_suite("health_gate", both, {**LIMITS, "judged_from_ms": 0})


def test_a_broker_that_luck_alone_takes_to_the_limit_is_told_and_does_not_fail(spark):
    frame = shares(spark, [HOT] * 3, luck=0.25)
    report = run_suite("health_gate", frame, {**LIMITS, "judged_from_ms": MINUTE_0_MS})
    hot = [verdict for verdict in report.verdicts if verdict.subject == "broker 1"]
    assert [(verdict.verdict, verdict.is_above) for verdict in hot] == [("warn", False)] * 3
    assert "hashing so many keys" in hot[0].reason
    assert report.success
    assert not run_suite("health_gate", frame, {**LIMITS, "judged_from_ms": MINUTE_0_MS, "luck_fails": True}).success
