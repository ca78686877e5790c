"""Real files and texts, damaged in a few places: every parser reads them or raises `InputError`, within a second."""

import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.codec.log import log_directory
from pipeline.codec.log.index_files import read_offset_index, read_time_index, read_transaction_index
from pipeline.codec.log.log_directory import parse_directory_name
from pipeline.codec.log.record_batch import read_entry_records
from pipeline.codec.log.segment import iter_batches
from pipeline.codec.metadata.cluster_metadata import parse_metadata_record
from pipeline.codec.metrics.librdkafka_statistics import parse_librdkafka_statistics
from pipeline.codec.tools.dump_text import parse_dumped_segment
from pipeline.codec.tools.reassignment_text import parse_reassignment_status
from pipeline.codec.tools.tool_text import (
    parse_consumer_groups,
    parse_log_dirs_describe,
    parse_offsets,
    parse_topics_describe,
)
from pipeline.errors import MOST_REASON, InputError, parser
from pipeline.model.log_tree import TextPart
from pipeline.sources.files.dumped_logs import scan_dump
from tests.lab.archive import unpack_once
from tests.properties.parsers import read_page, say_of

ROOT = Path(__file__).parents[2]
SECRET = "s3cr3t"
DIGITS = "9" * 5000  # more than Python turns into a number
TOKENS = st.sampled_from(
    [
        *("", DIGITS, "-1", "0", "\t", "\r", "\n", "\0", " ", "é", "\u2028", '"', "\\", "{", "}", "[", ",", "=", ":"),
        *("NaN", "+Inf", "1e999", "-", "#", "null", "none", "\\ud800", "9223372036854775808", "[" * 5000),
        *(SECRET, f"\n{SECRET}\n"),
    ]
)
WORDS = st.sampled_from([bytes(n) for n in (0, 1, 4, 8)] + [b"\xff" * n for n in (1, 4, 8, 10)] + [b"\x7f\xff\xff\xff"])


def edits(tokens):
    """Places, bytes or characters to leave out there, and what to put in their place."""
    return st.lists(st.tuples(st.integers(0, 4000), st.integers(0, 20), tokens), min_size=1, max_size=4)


def mutate(specimen, changes):
    for place, cut, token in changes:
        at = place % (len(specimen) + 1)
        specimen = specimen[:at] + token + specimen[at + cut :]
    return specimen


def repeats(parse, specimen):
    """Whether what is said of a text repeats it: it may be a record's, or not the file it should be; names are no text."""
    started = time.thread_time()
    said = say_of(parse, specimen)
    assert time.thread_time() - started < 1
    return SECRET in said and parse is not parse_directory_name


def of_bytes(parse):
    """A parser of bytes, for files."""
    return lambda path: parse(path.read_bytes())


FILES = {
    "leader-epoch-checkpoint": of_bytes(log_directory.parse_leader_epochs),
    "replication-offset-checkpoint": of_bytes(log_directory.parse_offset_checkpoint),
    "meta.properties": of_bytes(log_directory.parse_meta_properties),
    "partition.metadata": of_bytes(log_directory.parse_partition_metadata),
    "*.snapshot": of_bytes(log_directory.check_producer_snapshot),
    "*.index": lambda path: read_offset_index(path, 7),
    "*.timeindex": lambda path: read_time_index(path, 7),
    "*.txnindex": read_transaction_index,
}


@pytest.fixture(scope="module")
def samples():
    return unpack_once(ROOT / "tests/data/samples.tar.zst", ROOT / "build")


@pytest.mark.parametrize("pattern", FILES)
@settings(max_examples=40, derandomize=True)
@given(changes=edits(WORDS))
def test_side_files(samples, tmp_path, pattern, changes):
    specimen = max(sorted((samples / "specimens").rglob(pattern)), key=lambda path: path.stat().st_size).read_bytes()
    (tmp_path / "specimen").write_bytes(mutate(specimen[:4096], changes))
    assert not repeats(FILES[pattern], tmp_path / "specimen")


@settings(max_examples=80, derandomize=True)
@given(changes=edits(WORDS), which=st.integers(0, 10_000))
def test_metadata_records(metadata_records, changes, which):
    assert not repeats(parse_metadata_record, mutate(metadata_records[which % len(metadata_records)], changes))


@pytest.fixture(scope="module")
def metadata_records(samples):
    (log,) = (samples / "specimens").glob("*/__cluster_metadata-0/*.log")
    entries = [read_entry_records(entry) for header, entry in iter_batches(log, 0) if not header.attributes & 0x20]
    return [record.value for records in entries for record in records if record.value]


EXPOSITION = '# HELP a_b x\n# TYPE a_b gauge\na_b{c="d",e="f\\"g"} 12.5 1700000000000\na_b 1\n'
STATISTICS = (
    '{"name": "rdkafka#producer-1", "client_id": "rdkafka", "type": "producer", "ts": 1, "time": 1795253820, '
    '"brokers": {"b:9092/1": {"nodeid": 1, "rtt": {"avg": 1, "p50": 2}, "tx": 3, "txbytes": 4}}, '
    '"topics": {"t": {"topic": "t", "batchsize": {"avg": 1}, "partitions": {"0": {"partition": 0, "txmsgs": 1}}}}}\n'
)
GROUPS = (
    "\nGROUP TOPIC    PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG  CONSUMER-ID   HOST         CLIENT-ID\n"
    "busy  a.b-c    11         5               5               0    reader-4ace   /127.0.0.1   my reader\n"
)
OLD_GROUPS = "GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG OWNER\ng t 0 1 2 1 c_/10.0.0.1\n"  # Kafka 0.10
TEXTS = {
    "topics-describe-healthy.txt": parse_topics_describe,
    "log-dirs-describe.txt": parse_log_dirs_describe,
    "get-offsets-latest.txt": parse_offsets,
    "reassign-verify.txt": parse_reassignment_status,
    "dump-spec-tx-0-batches.txt": parse_dumped_segment,
    "my-topic.v1-12.0123456789abcdef0123456789abcdef-delete": parse_directory_name,
    EXPOSITION: read_page,
    STATISTICS: parse_librdkafka_statistics,
    GROUPS: parse_consumer_groups,
}


@pytest.mark.parametrize("name", TEXTS, ids=range(len(TEXTS)))
@settings(max_examples=40, derandomize=True)
@given(changes=edits(TOKENS))
def test_texts(samples, name, changes):
    path = samples / "tools" / name[:200]
    specimen = path.read_text()[:4096] if name.endswith(".txt") else name
    assert not repeats(TEXTS[name], mutate(specimen, changes))


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (parse_consumer_groups, OLD_GROUPS),
        (parse_librdkafka_statistics, STATISTICS.replace('"ts": 1,', '"ts": 1e999,')),
        (parse_reassignment_status, f"Reassignment of partition foo-{DIGITS} is completed.\n"),
    ],
)
def test_texts_that_raised_other_errors(parse, text):
    assert not repeats(parse, text)


def test_numbers_that_no_column_holds_refuse_a_dump(tmp_path):
    line = (
        "baseOffset: 1 lastOffset: 2 count: 2 position: 0 CreateTime: 1 size: 9999999999999 magic: 2 compresscodec: none "
        "crc: 12 isvalid: true\n"
    )
    text = f"Dumping /d/t-0/{0:020d}.log\n{line}"
    (tmp_path / "dump.txt").write_text(text)
    with pytest.raises(InputError, match="line that does not parse"):
        scan_dump(TextPart(str(tmp_path / "dump.txt"), 0, len(text)), "x")


@pytest.mark.parametrize(
    "failure",
    [ValueError, KeyError, OverflowError, UnicodeError, RecursionError, MemoryError, TypeError, AttributeError],
)
def test_whatever_a_parser_raises_becomes_an_input_error_that_repeats_nothing(failure):
    @parser
    def parse_something(text, *, path=None):
        raise failure(text)

    with pytest.raises(InputError, match="parse_something cannot read it") as raised:
        parse_something("secret", path="file")
    assert raised.value.path == "file"
    assert "secret" not in str(raised.value)


def test_a_reason_has_a_bound():
    assert len(InputError("x" * 10_000).reason) == MOST_REASON


@pytest.mark.parametrize("failure", [OSError, InputError])
def test_errors_of_files_and_input_pass_as_they_are(failure):
    @parser
    def parse_something(_):
        raise failure("as it is")

    with pytest.raises(failure, match="as it is"):
        parse_something("")
