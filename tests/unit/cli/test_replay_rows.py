"""The JSON document of `replay`: shares of one kind of bytes per topic, and which. Oracle: rows by hand."""

import datetime as dt
from types import SimpleNamespace

import pytest

from pipeline.cli.replay import describe_replay
from pipeline.model.window import TimeWindow
from pipeline.tables.replay import REPLAY_BROKERS, REPLAY_RESULTS, SCENARIO_COMPARISON

START = dt.datetime(2026, 11, 21, 9, 41, tzinfo=dt.UTC)
TOPIC = {"window_start": START, "topic": "orders", "topic_id": "id"}


def row_of(table, **values):
    """A row of a table in which what is not named is NULL."""
    return dict.fromkeys(column.name for column in table.columns) | TOPIC | values


def describe(log_shares, topics=()):
    """The results over two brokers, with shares of records' bytes, and of bytes in the log where they are not None."""
    rows = {table: [] for table in (SCENARIO_COMPARISON, REPLAY_BROKERS, REPLAY_RESULTS)}
    for candidate, log_share in log_shares.items():
        rows[SCENARIO_COMPARISON].append(
            row_of(SCENARIO_COMPARISON, candidate=candidate, assumptions="", is_baseline=candidate == "in-use")
        )
        sizes = {"recorded_size_bytes": 100, "size_bytes": 100, "recorded_log_size_bytes": log_share and 50}
        rows[REPLAY_BROKERS] += [
            row_of(
                REPLAY_BROKERS, candidate=candidate, broker_id=broker_id, share=0.12, recorded_share=0.11, log_share=log_share,
                recorded_log_share=log_share and 0.14,
            )
            for broker_id in (1, 2)
        ]  # fmt: skip  # fields of a value, several a line
        rows[REPLAY_RESULTS].append(
            row_of(REPLAY_RESULTS, candidate=candidate, partition=0, log_share=log_share, **sizes)
        )
    run = SimpleNamespace(
        rows=lambda table, _: rows.get(table, []), windows=(), span=TimeWindow(0, 60_000),
        window_at=lambda start_ms: TimeWindow(start_ms, start_ms + 60_000), config=SimpleNamespace(candidates=()),
        cluster=SimpleNamespace(topics=topics),
    )  # fmt: skip  # fields of a value, several a line
    return describe_replay(run)["results"]


@pytest.mark.parametrize(
    ("log_shares", "kind", "observed", "predicted"),
    [
        ({"in-use": 0.142, "sticky": 0.142}, "bytes in the log", 0.14, 0.142),
        ({"in-use": 0.142, "by keys": None}, "bytes of records", 0.11, 0.12),
        ({"in-use": None, "by keys": None}, "bytes of records", 0.11, 0.12),
    ],
)
def test_shares_of_a_topic_are_of_the_same_bytes_and_named(log_shares, kind, observed, predicted):
    results = describe(log_shares)
    assert [result["shares_of"] for result in results] == [kind, kind]
    for broker in (broker for result in results for broker in result["brokers"]):
        assert broker["observed_bytes_share"] == observed
        assert broker["predicted_bytes_share"]["median"] == predicted
    whole = {partition["observed_bytes_share"] for result in results for partition in result["partitions"]}
    assert whole == {1.0}


def test_topics_that_were_not_asked_for_are_not_said_to_have_no_records():
    shares = {"in-use": 0.142, "sticky": 0.142}
    assert [len(describe(shares, topics)) for topics in (["orders"], ["clicks"])] == [2, 0]
