"""From the capture's slow minute to advice, by the steps of a run, with two seeds: so few leave a range too wide to promise."""

import json

import pytest

from tests.engines import sail
from tests.spark.capture_runs import ALL_SOURCES, SCRAPES, plan, stored
from tests.table_rows import take_all

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

    take_all((context,), session=sail())
    return sorted(stored(config.warehouse, "gold.recommendations"), key=lambda row: row["rank"])


def test_a_plan_whose_replay_is_doubted_promises_nothing_and_says_which_topic(advised):
    """`test_plan_replay.py` has what a replay says that is not."""
    plans = [row for row in advised if row["subject"] == "broker 1" and row["reassignment_json"]]
    (doubted,) = [row for row in plans if row["predicted_ratio"] is None]
    moved = {one["topic"] for one in json.loads(doubted["reassignment_json"])["partitions"]}
    assert moved <= set(TOPICS)
    assert not doubted["is_replayed"]
    assert "is not predicted (the replay of payments is not trustworthy: too uncertain" in doubted["text"]
    (check,) = [row for row in advised if row["subject"] == "broker 1" and row["action"] == "check_broker"]
    assert check["predicted_ratio"] is None
