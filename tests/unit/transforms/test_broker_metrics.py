"""Samples of brokers to what each topic got. Oracle: small series, added up by hand."""

from pipeline.model.window import TimeWindow
from pipeline.transforms.broker_metrics import BrokerSamples
from pipeline.transforms.counters import SampleSettings
from pipeline.transforms.samples import with_labels
from tests.unit.transforms.test_counters import samples

S = 1000
MINUTE = 60 * S
BYTES_IN = "kafka_server_brokertopicmetrics_bytesin_total"


def topics_of(*rows):
    """(second, topic or None for the broker, bytes in so far) → bytes in by topic."""
    found = [
        ("prometheus", "b:1", at, BYTES_IN, {"broker_id": "1", **({"topic": topic} if topic else {})}, float(value))
        for at, topic, value in rows
    ]
    found += [("prometheus", "b:1", at, "kafka_server_replicamanager_leadercount", {}, 3.0) for at in (5, 10, 15)]
    settings = SampleSettings(span=TimeWindow(0, MINUTE), window_ms=MINUTE, interval_ms={"prometheus": 5 * S})
    topics = BrokerSamples(with_labels(samples(*found)), settings).summarise_topics().to_dicts()
    assert {row["broker_id"] for row in topics} == {1}
    return {row["topic"]: row["bytes_in"] for row in topics}


def test_a_topic_that_appears_beside_others_counted_from_zero():
    rows = [(5, None, 100), (10, None, 700), (10, "new", 600), (15, "new", 650), (15, None, 750)]
    assert topics_of(*rows) == {"new": 650}


def test_what_a_series_had_counted_before_it_was_exposed_is_not_known():
    """The exporter was scraped before, without any such series: its rules changed."""
    assert topics_of((10, None, 7e9), (10, "old", 5e9), (15, "old", 5e9 + 40)) == {"old": 40}


def test_sizes_that_no_log_has_are_not_known():
    """A sum beyond an int64 is negative, and a gate refuses the window for all."""
    sizes = [
        ("prometheus", "b:1", at, "kafka_log_log_size", {"topic": "t", "partition": str(number)}, 9e18)
        for at in (5, 10)
        for number in range(4)
    ]
    sizes += [(*row[:4], row[4] | {"partition": "4"}, 7.0) for row in sizes[::4]]
    sizes += [("prometheus", "b:1", at, BYTES_IN, {"topic": "t"}, 1.0) for at in (5, 10)]
    settings = SampleSettings(span=TimeWindow(0, MINUTE), window_ms=MINUTE, interval_ms={"prometheus": 5 * S})
    (row,) = BrokerSamples(with_labels(samples(*sizes)), settings).summarise_topics().to_dicts()
    assert (row["log_size_bytes"], row["partition_count"]) == (7, 5)
