"""From the capture's slow minute to advice, by the steps of a run: the plan was replayed with its leaders. Oracle: its own rows."""

import json

import pytest

from pipeline.steps import STEPS, take_steps
from tests.engines import sail
from tests.spark.capture_runs import ALL_SOURCES, SCRAPES, plan, stored

TOPICS = ("orders", "refunds", "payments")
SLOW_MINUTE = 4


@pytest.fixture(scope="module")
def advised(capture, tmp_path_factory):
    folder = tmp_path_factory.mktemp("advised")
    part = capture.part(folder / "capture", topics=TOPICS, scrapes=SCRAPES)
    candidates = [{"name": "no-slow-broker", "brokers_alike": True}]
    one_of_one = {"k": 1, "n": 1}
    config = part.write_config(folder, topics=TOPICS, sources=ALL_SOURCES, candidates=candidates, gate=one_of_one)
    context = plan(config, capture.span(SLOW_MINUTE, SLOW_MINUTE + 1))

    def on_error(_run, _step, error):
        raise error

    take_steps((context,), STEPS, on_error, session=sail())
    return sorted(stored(config.warehouse, "gold.recommendations"), key=lambda row: row["rank"])


def test_the_plan_for_the_slow_broker_is_what_a_replay_with_its_leaders_says(advised):
    plans = [row for row in advised if row["subject"] == "broker 1" and row["reassignment_json"]]
    (replayed,) = [row for row in plans if row["is_replayed"] or row["predicted_ratio"] is None]
    moved = {one["topic"] for one in json.loads(replayed["reassignment_json"])["partitions"]}
    assert moved & set(TOPICS)
    assert replayed["is_replayed"], replayed["text"]
    assert replayed["predicted_ratio_low"] < replayed["predicted_ratio"] < replayed["predicted_ratio_high"]
    assert "replayed with these leaders" in replayed["text"]


def test_what_mending_the_broker_brings_is_said_with_a_range(advised):
    (check,) = [row for row in advised if row["subject"] == "broker 1" and row["action"] == "check_broker"]
    assert check["predicted_ratio_low"] < check["predicted_ratio"] < check["predicted_ratio_high"]
    assert check["predicted_ratio"] < check["share_ratio"]
