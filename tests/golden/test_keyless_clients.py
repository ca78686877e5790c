"""Recorded keyless producers of many clients, simulated as `make clients ARGS=--recorded` does."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.lab.keyless.__main__ import compare
from tests.lab.keyless.real import read_runs

MISSES = {
    "franz-go, uniform bytes, 1": {"slow batches", "other batches"},
    "franz-go, uniform bytes, 2": {"slow batches", "other batches"},
    "Sarama, random, 1": {"slow batches"},
    "Sarama, random, 2": {"slow batches"},
    "Sarama, round robin, 1": {"slow batches", "other batches"},
    "Sarama, round robin, 2": {"slow batches", "other batches"},
    "kafka-python, 1": {"share", "slow batches"},
    "kafka-python, 2": {"slow batches"},
}
"""By client and run, as `docs/ACCURACY.md` names them."""


def number_runs():
    seen = Counter()
    for run in read_runs():
        seen[run.setting.client] += 1
        yield pytest.param(run, id=f"{run.setting.client}, {seen[run.setting.client]}")


@pytest.mark.parametrize("run", [*number_runs()])
def test_figures_hold_or_are_named(run, request):
    figures = compare(run)
    assert {figure.name for figure in figures if figure.misses} == MISSES.get(request.node.callspec.id, set())
    assert len(figures) == 4
