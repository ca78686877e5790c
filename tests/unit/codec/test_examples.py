"""Small examples of parsers and of what they write."""

import numpy as np

from pipeline.codec.log.index_files import IndexLookup, search_index
from pipeline.codec.log.log_directory import DirectoryName, parse_directory_name
from pipeline.codec.log.record_batch import read_varint
from pipeline.codec.metrics.exposition import ExpositionReader, has_wanted
from pipeline.codec.metrics.metric_names import name_series
from pipeline.codec.records.key_ids import KeySecret, make_key_ids, number_of_id
from pipeline.codec.tools.dump_text import find_dumped_files
from pipeline.codec.tools.reassignment_text import format_election, format_reassignment, parse_reassignment
from pipeline.codec.tools.tool_text import int64
from pipeline.model.log_tree import DirectoryKind


def test_a_topic_with_dashes_and_dots():
    expected = DirectoryName("my-topic.v1", 12, DirectoryKind.LIVE, is_topic_truncated=False)
    assert parse_directory_name("my-topic.v1-12") == expected


def test_the_way_through_an_index():
    assert search_index(np.array([4, 9, 12]), 10, entry_bytes=8) == IndexLookup(probes=(0, 1, 2), slot=1)


def test_varints_of_one_and_two_bytes():
    assert read_varint(bytes([0x01]), 0) == (-1, 1)
    assert read_varint(bytes([0xAC, 0x02]), 0) == (150, 2)


def test_a_page_of_samples():
    reader = ExpositionReader()
    page = reader.read('kafka_brokers{env="a"} 3\nother 2\n')
    assert page.values.tolist() == [3.0]
    assert reader.series[page.series[0]].labels == (("env", "a"),)
    assert not has_wanted(b"# TYPE jvm_threads gauge\njvm_threads 1\n")
    assert has_wanted(b'jvm_threads 1\nkafka_brokers{a="b"} 3\n')


def test_canonical_names():
    meter = name_series("kafka_server_BrokerTopicMetrics_Count", {"name": "BytesInPerSec", "topic": "t"})
    assert meter.name == "kafka_server_brokertopicmetrics_bytesin_total"
    node = name_series("kafka_producer_node_request_total", {"client_id": "c", "node_id": "node-1"})
    assert node.name == "kafka_producer_producer_node_metrics_request_total"


def test_the_id_of_a_key_and_its_number():
    [key_id] = make_key_ids(KeySecret(bytes(32)), [b"kafka"])
    assert key_id == "a99694912f493eb5aa0255297fd8d299"
    assert number_of_id(key_id) == -6226626083508633931


def test_where_dumped_files_begin():
    found = find_dumped_files(b"words\nDumping t-0/00000000000000000000.log\n")
    assert found == [(6, "t-0/00000000000000000000.log")]


def test_json_of_kafkas_tools():
    text = '{"version":1,"partitions":[{"topic":"orders","partition":1,"replicas":[2,0],"log_dirs":["any","any"]}]}'
    assert format_reassignment([("orders", 1, (2, 0))]) == text
    assert format_election([("orders", 1)]) == '{"partitions":[{"topic":"orders","partition":1}]}'
    assert parse_reassignment(text) == {("orders", 1): (2, 0)}


def test_numbers_as_texts():
    assert (int64("5"), int64(-1)) == (5, -1)
