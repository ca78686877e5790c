"""Recorded keyless producers of many clients, simulated as `make clients ARGS=--recorded` does."""

from collections import Counter

import pytest

from pipeline.calibration.partitioner.baseline import identify_baseline
from tests.lab.keyless.__main__ import compare
from tests.lab.keyless.real import read_runs
from tests.lab.keyless.settings import LEADERS
from tests.lab.keyless.simulated import make_scenario
from tests.simulated_sessions import record_session

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
"""By client and run, as `docs/evidence/clients.md` names them."""


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


IN_TURN = ("java-murmur2", None)  # in turn, if the log shows it: records of a call may have other milliseconds
NAMES = {
    "librdkafka": "librdkafka-consistent_random",
    "librdkafka, random": "librdkafka-consistent_random-1.5",
    "node-rdkafka": "librdkafka-consistent_random",
    "franz-go, uniform bytes": "java-builtin",
    "franz-go, sticky key": "java-sticky-2.4",
    "franz-go, least backup": None,
    "Sarama, random": "librdkafka-consistent_random-1.5",
    "Sarama, round robin": "java-murmur2",
    "kafka-go, round robin": IN_TURN,
    "kafka-go, least bytes": None,
    "KafkaJS": IN_TURN,
    "kafka-python": "librdkafka-consistent_random-1.5",
    "aiokafka": "librdkafka-consistent_random-1.5",
}
"""The strategy each is named in a log as the simulator writes it: the one whose batches come in the same order, or none."""
WITH_IDS = ("franz-go", "kafka-python")
BATCH_TIMES = ("kafka-go", "KafkaJS")


@pytest.mark.parametrize("run", [*number_runs()])
def test_a_client_is_named_by_what_it_does_or_not_at_all(run):
    client = run.setting.client
    traffic, batches, _ = record_session(
        make_scenario(run),
        1,
        producer_id=1 if client.startswith(WITH_IDS) else -1,
        has_batch_times=client.startswith(BATCH_TIMES),
    )
    found = identify_baseline(traffic, batches, len(LEADERS))
    names = NAMES[client]
    assert found.strategy in (names if isinstance(names, tuple) else (names,))
    assert found.confidence < 0.2 or client != "franz-go, uniform bytes"
