"""Output of kafka-producer-perf-test and statistics of librdkafka, odd ones. Oracle: the texts below, read by hand."""

import json
import math

import pytest

from pipeline.codec.metrics.librdkafka_statistics import parse_librdkafka_statistics
from pipeline.codec.metrics.perf_test_output import parse_perf_test_output

OLD = """\
1000 records sent, 200.0 records/sec (0.10 MB/sec), 1.5 ms avg latency, 20.0 ms max latency.
2000 records sent, 199,880072 records/sec (0,10 MB/sec), 2,50 ms avg latency, 20,00 ms max latency, 1 ms 50th, 2 ms 95th, 3 ms 99th, 4 ms 99.9th.

Metric Name                                                            Value
app-info:version:{client-id=producer-1}                              : 2.8.0
producer-metrics:batch-size-avg:{client-id=producer-1}               : -Infinity
producer-metrics:record-queue-time-avg:{client-id=producer-1}        : NaN
producer-node-metrics:request-total:{client-id=producer-1, node-id=node--1} : 3.000
producer-node-metrics:request-total:{client-id=producer-1, node-id=node-7} : 41.000
producer-metrics:record-send-total:{client-id=a, b=c, topic=t}       : 5.000
"""
NEW = "0 records sent, NaN records/sec (NaN MB/sec), NaN ms avg latency, 0.0 ms max latency.\n"


def values(found):
    return {(s.series.name, s.series.labels): (s.observed_at_ms, s.value) for s in found.samples}


def test_a_run_of_an_old_tool_with_commas():
    found = parse_perf_test_output(OLD, ended_at_ms=100_000)
    assert found.bad_lines == ()
    told = values(found)
    client = (("client_id", "producer-1"),)
    assert told["kafka_perf_test_window_latency_avg_ms", client] == (100_000 - 10_006 + 5000, 1.5)
    assert told["kafka_perf_test_records_per_s", client] == (100_000, 199.880072)
    assert told["kafka_perf_test_bytes_per_s", client][1] == pytest.approx(104_857.6)
    assert told["kafka_perf_test_latency_p999_ms", client][1] == 4
    assert math.isnan(told["kafka_producer_producer_metrics_batch_size_avg", client][1])
    assert math.isnan(told["kafka_producer_producer_metrics_record_queue_time_avg", client][1])
    nodes = {dict(labels).get("node_id"): value for (name, labels), (_, value) in told.items() if "node_m" in name}
    assert nodes == {"node--1": 3, "node-7": 41}
    labels = {labels for name, labels in told if name.endswith("record_send_total")}
    assert labels == {(("b", "c"), ("client_id", "a"), ("topic", "t"))}


def test_lines_that_are_neither():
    trace = "java.io.IOException: Broken pipe\n\tat java.base/x\n\tat java.base/y\n"
    text = f"{NEW}[2026-01-01] WARN retrying (x)\nboom\n{NEW}{trace}"
    found = parse_perf_test_output(text, ended_at_ms=14_000)
    told = [(line.number, line.reason[:7], line.severity) for line in found.bad_lines]
    assert told == [(3, "neither", "suspect"), (5, "3 lines", "suspect")]
    assert {sample.observed_at_ms for sample in found.samples} == {9000, 14_000}  # nothing was sent: 5 s each


def statistics(ts, seconds, tx, age=None, handle="c#producer-1"):
    return {
        **({} if age is None else {"age": age}),
        "name": handle,
        "client_id": "c",
        "ts": ts,
        "time": seconds,
        "brokers": {
            "b:1/bootstrap": {"name": "b:1/bootstrap", "nodeid": -1, "tx": 1, "txbytes": 9},
            "b:2/bootstrap": {"name": "b:2/bootstrap", "nodeid": -1, "tx": 2, "txbytes": 9},
            "b:1/1": {
                "name": "b:1/1",
                "nodeid": 1,
                "tx": tx,
                "txbytes": tx * 10,
                "req": {"Produce": tx - 1},
                "rtt": {"avg": 1500, "max": 9000, "cnt": 3},
                "throttle": {"avg": 2, "max": 4, "cnt": 1},
            },
        },
        "topics": {"t": {"topic": "t", "partitions": {"-1": {"partition": -1, "txmsgs": 0, "txbytes": 0}}}},
    }


def test_statistics_line_by_line():
    documents = [statistics(10_000_000, 100, 5, age=4_000_000), statistics(12_500_000, 102, 8)]
    text = "".join(json.dumps(d) + "\n" for d in documents) + "\n{torn\n[1]\n" + '{"name": "x"}\n'
    found = parse_librdkafka_statistics(text)
    assert [line.number for line in found.bad_lines] == [4, 5, 6]
    assert sorted({sample.observed_at_ms for sample in found.samples}) == [100_000, 102_500]  # `time` has whole seconds
    by_name = {}
    for sample in found.samples:
        by_name.setdefault(sample.series.name, []).append((dict(sample.series.labels).get("node_id"), sample.value))
    assert by_name["librdkafka_broker_tx_total"] == [
        *[("node--1", 1), ("node--1", 2), ("node-1", 5)],
        *[("node--1", 1), ("node--1", 2), ("node-1", 8)],
    ]
    assert ("node-1", 1.5) in by_name["librdkafka_broker_rtt_avg_ms"]  # microseconds
    assert ("node-1", 2) in by_name["librdkafka_broker_throttle_avg_ms"]  # milliseconds already
    assert by_name["librdkafka_start_time_ms"] == [(None, 96_000)]
    keys = [(s.observed_at_ms, s.series.name, s.series.labels) for s in found.samples]
    assert len(keys) == len(set(keys))  # two bootstrap connections are two series


def test_a_single_object_takes_the_file_s_instant():
    found = parse_librdkafka_statistics(json.dumps(statistics(1, 100, 5), indent=1), observed_at_ms=7)
    assert {sample.observed_at_ms for sample in found.samples} == {7}
    assert found.bad_lines == ()
