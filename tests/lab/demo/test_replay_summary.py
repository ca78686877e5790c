"""What `make run` tells of the replay. Oracle: rows and lines by hand."""

import datetime as dt

from tests.lab.demo.replay_summary import describe_keys, describe_shares, format_keys, format_shares

START = dt.datetime(2026, 11, 21, 9, 41, tzinfo=dt.UTC)
MINUTE = dt.timedelta(minutes=1)
WIDTH = 98


def place(topic, minute=0):
    return {"cluster": "demo", "window_start": START + minute * MINUTE, "topic": topic, "topic_id": f"id of {topic}"}


def verdict(topic, name, *, minute=0, record_count=100):
    return {**place(topic, minute), "verdict": name, "record_count": record_count}


def moved(topic, **ratios):
    return [
        {**place(topic), "candidate": name.replace("_", " "), "keys_moved_ratio": ratio}
        for name, ratio in ratios.items()
    ]


def test_keys_are_told_of_the_newest_window_with_the_candidates_that_move_some():
    verdicts = [
        verdict("devices", "librdkafka-consistent"),
        verdict("audit", "java-compatible"),
        verdict("audit", "none-known", minute=-1),
        verdict("orders", "not-enough-keys", record_count=0),
        verdict("regions", "none-known"),
        verdict("clicks", "java-compatible"),
    ]
    comparison = [
        *moved("audit", in_use=0.5, client_4=0.0, librdkafka=0.844, twice=0.506),
        *moved("devices", client_3=0.912, client_4=0.908, librdkafka=0.0),
        *moved("regions", twice=None),
        *moved("clicks", client_4=0.0),
    ]
    comparison[0]["candidate"] = "in-use"
    assert format_keys(verdicts, comparison) == [
        "topic    placed by              keys that would move to another partition",
        "audit    java-compatible        84 % librdkafka; 51 % twice",
        "clicks   java-compatible        none",
        "devices  librdkafka-consistent  91 % client 3 / client 4",
        "regions  none-known             not known",
    ]


def test_many_candidates_go_on_below_their_column():
    comparison = moved("audit", **{f"a_name_of_some_length_{number}": 0.9 for number in range(9)})
    lines = format_keys([verdict("audit", "java-compatible")], comparison)
    assert max(len(line) for line in lines) <= WIDTH
    assert len(lines) > 2
    assert {line[: lines[0].index("keys")].strip() for line in lines[2:]} == {""}
    assert " ".join(" ".join(lines[1:]).split()).count("a name of some length") == 9


def share(topic, candidate, broker_id, recorded, predicted, *, minute=0):
    low, median, high = predicted or (None, None, None)
    return {
        **place(topic, minute), "candidate": candidate, "broker_id": broker_id, "recorded_log_share": recorded,
        "log_share": median, "log_share_low": low, "log_share_high": high,
    }  # fmt: skip  # fields of a value, several a line


def compared(topic, candidate, *, minute=0, keyless=100, seeds=10, is_as_in_use=False):
    return {
        **place(topic, minute), "candidate": candidate, "seed_count": seeds, "keyless_record_count": keyless,
        "is_as_in_use": is_as_in_use,
    }  # fmt: skip  # fields of a value, several a line


def back_test(topic, *, trusted=True, error=0.9, minute=0):
    return {
        **place(topic, minute), "partitioner": "java-sticky-2.4", "client": "kafka-clients 3.2.3",
        "share_error_points": error, "is_trusted": trusted,
    }  # fmt: skip  # fields of a value, several a line


def test_shares_are_those_of_the_broker_and_window_of_the_largest_one():
    brokers = [
        share("orders", "in-use", 1, 0.757, (0.759, 0.766, 0.771)),
        share("orders", "in-use", 2, 0.12, (0.11, 0.12, 0.13)),
        share("orders", "in-use", 1, 0.6, (0.6, 0.6, 0.6), minute=1),
        share("orders", "client 4", 1, 0.757, (0.347, 0.358, 0.368)),
        share("orders", "client 3", 1, 0.757, (0.759, 0.766, 0.771)),
        share("orders", "sarama", 1, 0.757, None),
        share("payments", "in-use", 1, 0.34, (0.303, 0.336, 0.349)),
        share("payments", "client 4", 1, 0.34, (0.303, 0.336, 0.349)),
        share("audit", "in-use", 1, 0.99, (0.99, 0.99, 0.99)),  # all of its records have keys
    ]
    comparison = [
        *(compared("orders", name, is_as_in_use=name == "client 3") for name in ("in-use", "client 3", "client 4")),
        compared("orders", "sarama"),
        compared("orders", "in-use", minute=1),
        *(compared("payments", name, is_as_in_use=name == "client 4") for name in ("in-use", "client 4")),
        compared("audit", "in-use", keyless=0),
    ]
    told = format_shares(brokers, comparison, [back_test("orders"), back_test("payments", trusted=False, error=None)])
    assert told == [
        "Broker 1's share of each topic's bytes in the log, %, in the window from 09:41 UTC",
        "(its highest of orders). Predicted: median of 10 seeds, and range for nine of ten real runs.",
        "",
        "                     orders               payments",
        "current partitioner  java-sticky-2.4      java-sticky-2.4",
        "current client       kafka-clients 3.2.3  kafka-clients 3.2.3",
        "observed             75.7                 34.0",
        "current, predicted   76.6 (75.9-77.1)     33.6 (30.3-34.9)",
        "client 3             same as current      -",
        "client 4             35.8 (34.7-36.8)     same as current",
        "back-test            0.9 points off       -",
        "trusted              yes                  no",
    ]


def test_more_topics_than_fit_come_in_further_tables():
    topics = [f"topic-{number}" for number in range(7)]
    told = format_shares(
        [share(topic, "in-use", 1, 0.5, (0.5, 0.5, 0.5)) for topic in topics],
        [compared(topic, "in-use") for topic in topics],
        [back_test(topic) for topic in topics],
    )
    headers = [line.split() for line in told if line.startswith(" ")]
    assert headers == [topics[:3], topics[3:6], topics[6:]]
    assert max(len(line) for line in told) <= WIDTH


def test_where_nothing_was_replayed_nothing_is_said(tmp_path):
    assert describe_keys(tmp_path) == describe_shares(tmp_path) == []
    assert format_keys([], []) == format_shares([], [], []) == []
    assert format_shares([share("audit", "in-use", 1, 1.0, None)], [compared("audit", "in-use", keyless=0)], []) == []
