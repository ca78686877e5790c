"""Statistics of librdkafka, odd ones. Oracle: the texts below, read by hand."""

import json

import pytest

from pipeline.codec.metrics.librdkafka_statistics import parse_librdkafka_statistics
from tests.memory import tracing_memory


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


@pytest.mark.parametrize("line", ["\n", " \n"])
def test_many_lines_of_statistics_take_no_memory(line):
    text = line * 500_000
    with tracing_memory() as peak_bytes:
        parse_librdkafka_statistics(text)
        assert peak_bytes() < 1 << 20


def test_a_line_of_statistics_ends_where_json_lines_do():
    line = json.dumps({"name": "p#1", "ts": 0, "time": 1, "msg_cnt": 2, "brokers": {}, "topics": {}})
    odd = line.replace("p#1", "p\u2028#1")  # Python's splitlines would cut it there
    found = parse_librdkafka_statistics(f"{odd}\n{line}\n")
    assert (len(found.samples), found.bad_lines) == (2, ())
