"""Recorded keyless producers of many clients, simulated as `make clients ARGS=--recorded` does."""

from __future__ import annotations

import pytest

from tests.lab.keyless.__main__ import compare
from tests.lab.keyless.real import read_runs

RUNS = {run.setting.client: run for run in read_runs()}
MISSES = {
    "franz-go, uniform bytes": {"slow batches", "other batches"},
    "Sarama, random": {"slow batches"},
    "Sarama, round robin": {"slow batches", "other batches"},
    "kafka-python": {"share", "slow batches"},
}
"""As `docs/ACCURACY.md` names them."""


@pytest.mark.parametrize("client", RUNS)
def test_figures_hold_or_are_named(client):
    figures = compare(RUNS[client])
    assert {figure.name for figure in figures if figure.misses} == MISSES.get(client, set())
    assert len(figures) == 4
