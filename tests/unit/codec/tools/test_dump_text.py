"""Text of `kafka-dump-log`, made by hand in the shapes of Kafka 2.8 to 4.1; real dumps are in the golden lane."""

from __future__ import annotations

import pytest

from pipeline.codec.tools.dump_text import parse_dumped_segment
from pipeline.errors import InputError

BATCH = (
    "baseOffset: 1 lastOffset: 2 count: 2 baseSequence: 0 lastSequence: 1 producerId: 7 producerEpoch: 0 "
    "partitionLeaderEpoch: 3 isTransactional: true isControl: false deleteHorizonMs: OptionalLong.empty position: 133 "
    "CreateTime: 1795243106390 size: 565 magic: 2 compresscodec: lz4 crc: 12 isvalid: true"
)


def test_batches_records_and_texts_over_several_lines():
    text = "\n".join(
        (
            "some log line",
            "Dumping b/t-0/00000000000000000000.log",
            "Log starting offset: 1",
            BATCH,
            "| offset: 1 CreateTime: 5 keySize: 2 valueSize: 20 sequence: 0 headerKeys: [a,b] key: k1 payload: one",
            "Dumping is what this value says",
            "| offset: 2 CreateTime: 6 keySize: -1 valueSize: -1 sequence: 1 headerKeys: []",
            BATCH.replace("lz4", "NONE")
            .replace("CreateTime", "LogAppendTime")
            .replace("isvalid: true", "isvalid: false"),
        )
    )
    file = parse_dumped_segment(text)
    first, second = file.batches
    assert (first.base_offset, first.last_offset, first.codec, first.is_transactional, first.crc) == (1, 2, 3, True, 12)
    assert (second.codec, int(second.timestamp_type)) == (0, 1)
    assert file.wrong_checksums == [1]
    assert file.unexplained == []
    after = parse_dumped_segment(f"{text}\nno text of the last record, which has none")
    assert after.unexplained == [(9, "no text of the last record, which has none")]


def test_complaints():
    text = f"Dumping a.log\n{BATCH}\nNon-consecutive offsets in a.log\n  8 is followed by 10\n"
    dump = parse_dumped_segment(text)
    assert dump.complaints == ["Non-consecutive offsets in a.log", "  8 is followed by 10"]
    assert dump.unexplained == []


def test_what_fits_nothing_is_told_with_its_line():
    dump = parse_dumped_segment(f"Dumping x.log\n{BATCH}\nwhat is this\n")
    assert dump.unexplained == [(3, "what is this")]


@pytest.mark.parametrize("text", ["", "nothing of the kind\n"])
def test_other_text_is_refused(text):
    with pytest.raises(InputError, match="no `Dumping` line"):
        parse_dumped_segment(text)


def test_a_batch_line_that_lacks_a_field_is_refused_with_its_line():
    with pytest.raises(InputError) as raised:
        parse_dumped_segment("Dumping x.log\nbaseOffset: 1 magic: 2 compresscodec: none\n")
    assert raised.value.position == 2
