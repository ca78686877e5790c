"""The verdict in words. Oracle: by hand."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from expectations.gates import describe_health
from pipeline.config.rules import Gate
from pipeline.model.verdict import BrokerLoad, Verdict
from pipeline.verdicts.broker_share import judge_broker_share

RUN = SimpleNamespace(cluster_name="prod", cluster=SimpleNamespace(gate=Gate()))


@pytest.mark.parametrize(("count", "windows"), [(1, "this window"), (5, "these 5 windows")])
def test_a_healthy_run_names_the_windows_that_it_is_about(count, windows):
    verdicts = [
        Verdict(
            window_start_ms=60_000 * minute, rule="broker_share", subject=f"broker {broker}", value=1.0, limit_value=1.2,
            is_above=False, above_count=0, verdict="ok", reason="",
        )
        for minute in range(count)
        for broker in (1, 2)
    ]  # fmt: skip
    assert describe_health(verdicts, RUN) == (
        f"cluster prod: healthy, no broker fails in {windows} "
        "(to fail, a broker has to be above its share in 3 of 4 windows)"
    )


def test_a_broker_above_its_limit_in_too_few_windows_is_not_called_healthy():
    loads = [
        BrokerLoad(
            window_start_ms=0, broker_id=broker, size_bytes=share * 10**7, record_count=share * 10**5,
            share=share / 300, expected_share=1 / 3, share_ratio=share / 100, effective_unit_count=10_000.0,
        )
        for broker, share in ((1, 143), (2, 80), (3, 77))
    ]  # fmt: skip
    verdicts = judge_broker_share(loads, Gate(), window_ms=60_000)
    assert [verdict.verdict for verdict in verdicts] == ["warn", "ok", "ok"]
    assert describe_health(verdicts, RUN).splitlines() == [
        "cluster prod: no incident, but above the limit in this window: broker 1 "
        "(an incident needs that in 3 of 4 windows)",
        "  1970-01-01T00:00:00Z broker 1: 47.7% of the bytes where 33.3% is fair: 1.43 times its share; limit 1.20, "
        "above in 1 of the last 4 windows, 3 make a failure",
    ]
