"""The health gate over hand-made shares of three brokers; broker 1 is the hot one where there is one.

Oracle: the verdicts are written out by hand from the shares.
"""

import pytest

from expectations.gates import check_health
from pipeline.config.rules import Gate
from pipeline.verdicts.broker_share import judge_broker_share
from tests.gates.rows import MINUTE_0_MS, gate_run
from tests.placements import load_of

MINUTE_MS = 60_000
LIMITS = {"limit_ratio": 1.2, "floor_bytes_per_s": 1_000, "chance_level": 0.001, "k": 3, "n": 4}
EVEN, HOT = (100, 100, 100), (80, 140, 80)


def shares(windows, *, scale=100_000, luck=None):
    found = []
    for minute, loads in enumerate(windows):
        of = {"start_ms": MINUTE_0_MS + minute * MINUTE_MS, "effective_unit_count": 10_000.0}
        for broker_id, load in enumerate(loads):
            without = None if luck is None else 3 * load / sum(loads) - luck
            sized = {"size_bytes": load * scale, "ratio_without_luck": without}
            found.append(load_of(broker_id, load, sum(loads), **of, **sized))
    return found


@pytest.fixture
def check(tmp_path):
    """Judges shares, and lets the gate check the verdicts."""
    run = gate_run(tmp_path)

    def check(loads, judged_from=0, **limits):
        judged_from_ms = MINUTE_0_MS + judged_from * MINUTE_MS
        gate = Gate(**{**LIMITS, **limits})
        verdicts = judge_broker_share(loads, gate, window_ms=MINUTE_MS, judged_from_ms=judged_from_ms)
        return check_health(run, verdicts), verdicts

    return check


@pytest.mark.parametrize(
    ("windows", "judged_from", "broker_1"),
    [
        ([EVEN] * 3, 0, ["ok", "ok", "ok"]),
        ([HOT] * 3, 0, ["warn", "warn", "fail"]),
        ([HOT] * 3, 2, ["fail"]),  # the first two are history, and count
        ([HOT, HOT, HOT, EVEN], 3, ["ok"]),  # history alone fails no window
    ],
)
def test_the_gate_judges_its_windows_with_the_ones_before_as_history(check, windows, judged_from, broker_1):
    report, verdicts = check(shares(windows), judged_from)
    assert [verdict.verdict for verdict in verdicts if verdict.subject == "broker 1"] == broker_1
    assert {verdict.verdict for verdict in verdicts if verdict.subject != "broker 1"} == {"ok"}
    assert report.success == ("fail" not in broker_1)


def test_a_failed_gate_names_broker_window_and_shares(check):
    report, _ = check(shares([HOT] * 3))
    (failed,) = report.failures
    assert failed.observed == 1
    (row,) = failed.rows
    assert (row["window_start"], row["rule"], row["subject"]) == ("2026-11-21T09:02:00Z", "broker_share", "broker 1")
    said = "46.7% of the bytes where 33.3% is fair: 1.40 times its share; limit 1.20, above in 3 of the last 4 windows"
    assert (row["value"], row["reason"]) == (pytest.approx(1.4), said)


def test_limits_come_from_the_configuration(check):
    assert check(shares([HOT] * 3), limit_ratio=1.5)[0].success
    assert check(shares([HOT] * 3), floor_bytes_per_s=1e12)[0].success
    assert not check(shares([HOT]), k=1, n=1)[0].success


def test_no_rows_give_no_verdicts(check):
    report, verdicts = check([])
    assert (report.success, verdicts) == (True, ())


def test_a_broker_that_luck_alone_takes_to_the_limit_fails_by_name_unless_it_is_excused(check):
    loads = shares([HOT] * 3, luck=0.25)
    for limits, told, said in (
        ({}, [("warn", True), ("warn", True), ("fail", True)], "its share, by hash luck (without it 1.15); limit 1.20"),
        ({"hash_luck": "warn"}, [("warn", False)] * 3, "hashing so many keys"),
    ):
        report, verdicts = check(loads, **limits)
        hot = [verdict for verdict in verdicts if verdict.subject == "broker 1"]
        assert [(verdict.verdict, verdict.is_above) for verdict in hot] == told
        assert said in hot[-1].reason
        assert report.success == bool(limits)
