"""The verdict in words. Oracle: by hand."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from expectations.gates import describe_health
from pipeline.config.rules import Gate
from pipeline.model.verdict import Verdict


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
    run = SimpleNamespace(cluster_name="prod", cluster=SimpleNamespace(gate=Gate()))
    assert describe_health(verdicts, run) == (
        f"cluster prod: healthy, no broker fails in {windows} "
        "(to fail, a broker has to be above its share in 3 of 4 windows)"
    )
