"""Parses the batches that `kafka-dump-log` prints. References: `DumpLogSegments` (Kafka 2.8 to 4.1).

Keys, payloads and names of record headers are printed as they are and may look like any line of the tool. So no text of
records is read; from the first line that is not about a segment or a batch nothing is believed, nor is it repeated.
"""

import re
from collections.abc import Iterator
from itertools import takewhile
from typing import NamedTuple

from pipeline.codec.tools.tool_text import int32, int64
from pipeline.errors import InputError, parser
from pipeline.model.log import BatchHeader, Codec

_DUMPED = r"Dumping (?P<path>.+\.(?:log|index|timeindex|txnindex|snapshot|checkpoint))"
_DUMPING = re.compile(_DUMPED)
_DUMPING_LINE = re.compile(rf"^{_DUMPED}\r?$".encode(), re.MULTILINE)
_LINE = re.compile(r"^[^\S\n]*\S.*", re.MULTILINE)  # not one of blanks
_START = re.compile(r"(?:Log s|S)tarting offset: [0-9]+")
_RECORD = re.compile(r"\||\s*(?:key|payload):")
_COMPLAINT = re.compile(
    r"Non-consecutive offsets in |Mismatches in ?:|Found timestamp mismatch in ?:|Found out of order timestamp in ?:"
)
_FENCE = "~~~~"
_TIMESTAMPS = ("CreateTime", "LogAppendTime", "NoTimestampType")
_NAMES = frozenset(
    {
        *("baseOffset", "lastOffset", "count", "baseSequence", "lastSequence", "producerId", "producerEpoch", "offset"),
        *("partitionLeaderEpoch", "isTransactional", "isControl", "deleteHorizonMs", "position", "size", "magic"),
        *("compresscodec", "crc", "isvalid", *_TIMESTAMPS),
    }
)
_MOST_DIGITS = len(f"OptionalLong[{-(2**63)}]")
_CODECS = {codec.name.lower(): int(codec) for codec in Codec}


class DumpedSegment(NamedTuple):
    batches: list[BatchHeader]  # headers; what the tool does not print (the first timestamp) is -1
    wrong_checksums: list[int]  # indexes in `batches` of those whose checksum the tool found wrong
    complaint: str = ""  # the first thing that the tool found wrong, such as a gap
    complaint_count: int = 0  # lines about such things


def find_dumped_files(data: bytes) -> list[tuple[int, str]]:
    """Finds where the text of each dumped file begins, and the path that was dumped."""
    return [(line.start(), line["path"].decode(errors="replace")) for line in _DUMPING_LINE.finditer(data)]


@parser
def parse_dumped_segment(text: str) -> DumpedSegment:
    """A segment in the text of `kafka-dump-log`, behind `Dumping` and before a fence; `InputError` with the line."""
    segment, complaint, complaint_count = DumpedSegment([], []), "", 0
    lines = _iter_lines(text)
    if not any(_DUMPING.fullmatch(line.strip()) for _, line in lines):
        raise InputError("no `Dumping` line: not the output of kafka-dump-log")
    for number, line in takewhile(lambda numbered: numbered[1].strip() != _FENCE, lines):
        if line.startswith(("baseOffset: ", "offset: ")):
            try:
                batch = _parse_batch(line.split())
            except (KeyError, ValueError):  # their words are the line's
                raise InputError("a batch's line that does not parse", position=number) from None
            segment.wrong_checksums.extend([] if "isvalid: true" in line else [len(segment.batches)])
            segment.batches.append(batch)
        elif _COMPLAINT.match(line) or (complaint and line.startswith("  ")):
            complaint, complaint_count = complaint or line, complaint_count + 1
        elif _RECORD.match(line):
            reason = "lines about records, whose text can look like any other line: dump with --files alone, that is "
            reason += "without --print-data-log, --deep-iteration and decoders"
            raise InputError(reason, position=number)
        elif not _START.fullmatch(line.strip()):
            raise InputError("not a line of kafka-dump-log about a segment or batch", position=number)
    return segment._replace(complaint=complaint, complaint_count=complaint_count)


def _iter_lines(text: str) -> Iterator[tuple[int, str]]:
    number, counted = 1, 0
    for match in _LINE.finditer(text):
        number, counted = number + text.count("\n", counted, match.start()), match.start()
        yield number, match[0]


def _parse_batch(words: list[str]) -> BatchHeader:
    shown = {name.removesuffix(":"): value for name, value in zip(words[::2], words[1::2], strict=True)}
    if not shown.keys() <= _NAMES or any(len(value) > _MOST_DIGITS for value in shown.values()):
        raise ValueError
    stamp = next((name for name in _TIMESTAMPS if name in shown), None)
    attributes = _CODECS[shown["compresscodec"].lower()] | (8 if stamp == "LogAppendTime" else 0)
    attributes |= 0x10 if shown.get("isTransactional") == "true" else 0
    attributes |= 0x20 if shown.get("isControl") == "true" else 0
    attributes |= 0x40 if shown.get("deleteHorizonMs", "OptionalLong.empty") != "OptionalLong.empty" else 0
    base_offset = int64(shown["baseOffset"] if "baseOffset" in shown else shown["offset"])
    return BatchHeader(
        position=int64(shown["position"]),
        size_bytes=int32(shown["size"]),
        base_offset=base_offset,
        last_offset=int64(shown.get("lastOffset", base_offset)),
        partition_leader_epoch=int32(shown.get("partitionLeaderEpoch", -1)),
        magic=int32(shown["magic"]),
        crc=int64(shown["crc"]),
        attributes=attributes,
        base_timestamp_ms=-1,
        max_timestamp_ms=-1 if stamp is None else int64(shown[stamp]),
        producer_id=int64(shown.get("producerId", -1)),
        producer_epoch=int32(shown.get("producerEpoch", -1)),
        base_sequence=int32(shown.get("baseSequence", -1)),
        record_count=int32(shown.get("count", 1)),
    )
