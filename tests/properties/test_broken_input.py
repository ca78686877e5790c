"""No bytes, however broken, raise anything but `InputError`, and no tree of such files stops `inspect`."""

import json
from contextlib import suppress

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pipeline.cli import main
from pipeline.codec.log import log_directory
from pipeline.codec.log.index_files import read_offset_index, read_time_index, read_transaction_index
from pipeline.codec.metadata.cluster_metadata import parse_metadata_record
from pipeline.codec.metrics.exposition import ExpositionReader
from pipeline.codec.metrics.librdkafka_statistics import parse_librdkafka_statistics
from pipeline.codec.tools import tool_text
from pipeline.errors import InputError

BYTE_PARSERS = [
    *(log_directory.parse_offset_checkpoint, log_directory.parse_leader_epochs, log_directory.parse_meta_properties),
    *(log_directory.parse_partition_metadata, log_directory.check_producer_snapshot, parse_metadata_record),
]
TEXT_PARSERS = [
    *(tool_text.parse_topics_describe, tool_text.parse_log_dirs_describe, tool_text.parse_offsets),
    *(tool_text.parse_consumer_groups, log_directory.parse_directory_name, parse_librdkafka_statistics),
    lambda text: ExpositionReader().read(text),
]
DIGITS = "9" * 5000  # more than Python turns into a number
WORDS = st.sampled_from(
    [
        *("0", "1", "-1", DIGITS, " ", "\n", "\r\n", "\t", "t", "-", ":", ",", "=", "{", "}", '"', "[" * 5000, "\x00"),
        *(
            "é",
            "version",
            "version=0",
            "broker.id=",
            "topic_id: ",
            "Topic: a",
            "Partition: 0",
            "Leader: ",
            "Replicas: 1",
        ),
        *("Isr: ", "GROUP", "CURRENT-OFFSET", "ASSIGNMENT-STRATEGY", "#MEMBERS", '{"brokers":', "a:0:", "a-0"),
    ]
)
TEXTS = st.one_of(st.text(), st.lists(WORDS, max_size=30).map("".join))
RECORD_STARTS = st.tuples(st.just(1), st.integers(0, 30), st.integers(0, 3)).map(bytes)
BYTES = st.one_of(st.binary(), TEXTS.map(str.encode), st.tuples(RECORD_STARTS, st.binary()).map(b"".join))


@pytest.mark.parametrize("parse", BYTE_PARSERS)
@given(data=BYTES)
def test_bytes_are_read_or_refused(parse, data):
    with suppress(InputError):
        parse(data)


@pytest.mark.parametrize("parse", TEXT_PARSERS)
@given(text=TEXTS)
@example(text="a:0:" + DIGITS)
@example(text='{"brokers":' + "[" * 100_000)
@example(text="a-" + DIGITS)
@example(text="Topic: a\tPartition: " + DIGITS)
def test_texts_are_read_or_refused(parse, text):
    with suppress(InputError):
        parse(text)


@given(data=st.binary(max_size=200), base_offset=st.integers(0, 2**63 - 1))
def test_indexes(tmp_path, data, base_offset):
    path = tmp_path / "index"
    path.write_bytes(data)
    assert len(read_offset_index(path, base_offset).offset) <= len(data) // 8
    assert len(read_time_index(path, base_offset).offset) <= len(data) // 12
    with suppress(InputError):
        assert len(read_transaction_index(path).last_offset) == len(data) // 34


FILES = ("log", "index", "timeindex", "txnindex", "snapshot")


@settings(max_examples=60)
@given(data=st.lists(st.binary(max_size=150), min_size=9, max_size=9))
@example(data=[b"", b"\0\0\0\0\x80\0\0\0", *[b""] * 7])
def test_inspect_of_noise(tmp_path, capsys, data):
    folder = tmp_path / "orders-0"
    folder.mkdir(exist_ok=True)
    names = [*(f"orders-0/{0:020d}.{ending}" for ending in FILES), "orders-0/leader-epoch-checkpoint"]
    names += ["orders-0/partition.metadata", "meta.properties", "replication-offset-checkpoint"]
    for name, content in zip(names, data, strict=True):
        (tmp_path / name).write_bytes(content)
    code = main(["inspect", str(tmp_path), "--deep", "--verify", "--json", "--offset", "3", "--at", "5"])
    report = json.loads(capsys.readouterr().out)
    assert code in {0, 3}
    assert code == 0 or report["problems"]
