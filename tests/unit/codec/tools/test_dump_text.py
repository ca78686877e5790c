"""Text of `kafka-dump-log`, made by hand in the shapes of Kafka 2.8 to 4.1; real dumps are in the golden lane."""

import pytest

from pipeline.codec.tools.dump_text import parse_dumped_segment
from pipeline.errors import InputError
from tests.memory import tracing_memory

BATCH = (
    "baseOffset: 1 lastOffset: 2 count: 2 baseSequence: 0 lastSequence: 1 producerId: 7 producerEpoch: 0 "
    "partitionLeaderEpoch: 3 isTransactional: true isControl: false deleteHorizonMs: OptionalLong.empty position: 133 "
    "CreateTime: 1795243106390 size: 565 magic: 2 compresscodec: lz4 crc: 12 isvalid: true"
)


RECORD = "| offset: 1 CreateTime: 5 keySize: 2 valueSize: 20 sequence: 0 headerKeys: []"


def test_batches():
    second = BATCH.replace("lz4", "NONE").replace("CreateTime", "LogAppendTime")
    text = "\n".join(
        (
            *("some log line", "Dumping b/t-0/00000000000000000000.log", "Log starting offset: 1", BATCH, ""),
            *(second.replace("isvalid: true", "isvalid: false") + "\r", "~~~~", "words after a fence"),
        )
    )
    file = parse_dumped_segment(text)
    first, second = file.batches
    assert (first.base_offset, first.last_offset, first.codec, first.attributes & 0x10, first.crc) == (1, 2, 3, 16, 12)
    assert (second.codec, int(second.timestamp_type)) == (0, 1)
    assert file.wrong_checksums == [1]


@pytest.mark.parametrize(
    "line",
    [
        RECORD,  # the name of a header may have ended here, and its rest may look like a batch
        f"{RECORD} key: k1 payload: secret",
        "| key: secret",
        " key: k1 payload: secret",
        " payload: secret",
    ],
)
def test_lines_of_records_are_refused_with_the_way_out(line):
    with pytest.raises(InputError, match="without --print-data-log, --deep-iteration") as raised:
        parse_dumped_segment(f"Dumping x.log\n{BATCH}\n{line}\n{BATCH}\n")
    assert raised.value.position == 3
    assert "secret" not in str(raised.value)
    assert raised.value.first_bytes == b""


def test_complaints():
    text = f"Dumping a.log\n{BATCH}\nNon-consecutive offsets in a.log\n  8 is followed by 10\n"
    dump = parse_dumped_segment(text)
    assert (dump.complaint, dump.complaint_count) == ("Non-consecutive offsets in a.log", 2)
    assert len(dump.batches) == 1


@pytest.mark.parametrize(
    "line", ["\n", "~~~~\n", "Mismatches in :/a.log\n"], ids=["empty", "after a fence", "complaints"]
)
def test_many_lines_take_no_memory(line):
    text = "Dumping a.log\n" + line * 100_000
    with tracing_memory() as peak_bytes:
        parse_dumped_segment(text)
        assert peak_bytes() < 1 << 20


@pytest.mark.parametrize("text", ["", "nothing of the kind\n"])
def test_other_text_is_refused(text):
    with pytest.raises(InputError, match="no `Dumping` line"):
        parse_dumped_segment(text)


@pytest.mark.parametrize(
    "line",
    [
        "what is the secret",
        "baseOffset: 1 magic: 2 compresscodec: none",
        f"{BATCH} payload: secret",
        f"{BATCH} secret",
        BATCH.replace("size: 565", "size: secret"),
        BATCH.replace("size: 565", f"size: {'9' * 5000}"),
        "a:" * 40 + " ! !",  # forty nested choices of a regular expression
        "baseOffset: " + "a" * 1_000_000,
    ],
)
def test_other_lines_are_refused_by_number_and_not_repeated(line):
    with pytest.raises(InputError, match=r"not a line of kafka-dump-log|does not parse") as raised:
        parse_dumped_segment(f"Dumping x.log\n{BATCH}\n{line}\n")
    assert raised.value.position == 3
    assert raised.value.first_bytes == b""
    assert "secret" not in str(raised.value)
