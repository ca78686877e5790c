"""What `kafka-dump-log` prints of segments: their batches.

A key or payload is printed as it is: it may hold line ends, and then its text goes on over the next lines. Such lines
are taken as text of the record before, as long as its sizes allow. What fits nothing is returned with its line number:
nothing is passed over in silence.

References:
    `DumpLogSegments` (Kafka 2.8 to 4.1).
"""

from __future__ import annotations

import re
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

from pipeline.errors import InputError
from pipeline.model.log import BatchHeader, Codec

if TYPE_CHECKING:
    from pathlib import Path

_DUMPED = r"Dumping (?P<path>.+\.(?:log|index|timeindex|txnindex|snapshot|checkpoint))"
_DUMPING = re.compile(_DUMPED)
_DUMPING_LINE = re.compile(rf"^{_DUMPED}\r?$".encode(), re.MULTILINE)
_START = re.compile(r"(?:Log s|S)tarting offset: [0-9]+")
_PAIR = re.compile(r"(\w+): ?(\S+)")
_RECORD = re.compile(
    r"\| offset: [0-9]+ (?:isValid: \w+ crc: \w+ )?(?:CreateTime|LogAppendTime|NoTimestampType): "
    r"-?[0-9]+ key[sS]ize: (?P<key>-?[0-9]+) value[sS]ize: (?P<value>-?[0-9]+)"
    r"(?: sequence: -?[0-9]+)?(?: headerKeys: \[.*?\])?(?P<text>.*)"
)
_PAYLOAD = re.compile(r"\s*payload: ?.*")
_COMPLAINT = re.compile(
    r"Non-consecutive offsets in |Mismatches in ?:|Found timestamp mismatch in ?:|Found out of order timestamp in ?:"
)
_FENCE = "~~~~"
_TIMESTAMPS = ("CreateTime", "LogAppendTime", "NoTimestampType")
_CODECS = {codec.name.lower(): int(codec) for codec in Codec}


class DumpedSegment(NamedTuple):
    """The text of one segment.

    Attributes:
        batches: Headers; what the tool does not print (the first timestamp) is -1.
        wrong_checksums: Indexes in `batches` of those whose checksum the tool found wrong.
        complaints: What the tool found wrong, such as gaps.
        unexplained: Line number and text of what fits nothing.
    """

    batches: list[BatchHeader]
    wrong_checksums: list[int]
    complaints: list[str]
    unexplained: list[tuple[int, str]]


def find_dumped_files(data: bytes) -> list[tuple[int, str]]:
    r"""Where the text of each dumped file begins, and the path that was dumped.

    >>> find_dumped_files(b"words\nDumping t-0/00000000000000000000.log\n")
    [(6, 't-0/00000000000000000000.log')]
    """
    return [(found.start(), found["path"].decode(errors="replace")) for found in _DUMPING_LINE.finditer(data)]


def parse_dumped_segment(text: str, *, path: Path | str | None = None) -> DumpedSegment:
    """Reads what `kafka-dump-log` prints of one segment; words before the `Dumping` line, and after a fence, are passed over.

    Raises:
        InputError: No `Dumping` line, or a batch line that does not parse; `position` is the line number.
    """
    found = DumpedSegment([], [], [], [])
    text_left = 0  # characters that the text of the last record may still have
    for number, line in _list_quoted(text, path):
        record = _RECORD.match(line)
        if line.startswith(("baseOffset: ", "offset: ")) and " magic: " in line:
            try:
                batch = _parse_batch(line)
            except (KeyError, ValueError) as error:
                reason = f"a line that does not parse ({error}): {line[:200]!r}"
                raise InputError(reason, path=path, position=number, first_bytes=line.encode()) from error
            found.wrong_checksums.extend([] if "isvalid: true" in line else [len(found.batches)])
            found.batches.append(batch)
        elif record:
            text_left = _count_left(record)
        elif text_left > 0:
            text_left -= len(line) + 1
        elif _COMPLAINT.match(line) or (found.complaints and line.startswith("  ")):
            found.complaints.append(line)
        elif not _is_passed_over(line, found.batches):
            found.unexplained.append((number, line))
    return found


def _list_quoted(text: str, path: Path | str | None) -> list[tuple[int, str]]:
    """The lines, with their numbers, from the `Dumping` line to a fence."""
    lines = list(enumerate(text.splitlines(), start=1))
    start = next((number for number, line in lines if _DUMPING.fullmatch(line.strip())), None)
    if start is None:
        raise InputError("no `Dumping` line: not the output of kafka-dump-log", path=path, first_bytes=text.encode())
    return list(takewhile(lambda numbered: numbered[1].strip() != _FENCE, lines[start:]))


def _count_left(record: re.Match[str]) -> int:
    """How many characters key and payload may still have after this line: each takes a byte at least."""
    printed = len(record["text"].removeprefix(" key: ").removeprefix(" payload: "))
    most = max(int(record["key"]), 0) + max(int(record["value"]), 0) + len(" payload: ")
    return most - printed if record["text"] else 0


def _is_passed_over(line: str, batches: list[BatchHeader]) -> bool:
    """Whether a line says nothing about batches; with --skip-record-metadata nothing but payloads is printed of records."""
    return not line.strip() or bool(_START.fullmatch(line.strip()) or (batches and _PAYLOAD.fullmatch(line)))


def _parse_batch(line: str) -> BatchHeader:
    shown = dict(_PAIR.findall(line))
    stamp = next((name for name in _TIMESTAMPS if name in shown), None)
    attributes = _CODECS[shown["compresscodec"].lower()] | (8 if stamp == "LogAppendTime" else 0)
    attributes |= 0x10 if shown.get("isTransactional") == "true" else 0
    attributes |= 0x20 if shown.get("isControl") == "true" else 0
    attributes |= 0x40 if shown.get("deleteHorizonMs", "OptionalLong.empty") != "OptionalLong.empty" else 0
    base_offset = int(shown["baseOffset"] if "baseOffset" in shown else shown["offset"])
    return BatchHeader(
        position=int(shown["position"]),
        size_bytes=int(shown["size"]),
        base_offset=base_offset,
        last_offset=int(shown.get("lastOffset", base_offset)),
        partition_leader_epoch=int(shown.get("partitionLeaderEpoch", -1)),
        magic=int(shown["magic"]),
        crc=int(shown["crc"]),
        attributes=attributes,
        base_timestamp_ms=-1,
        max_timestamp_ms=-1 if stamp is None else int(shown[stamp]),
        producer_id=int(shown.get("producerId", -1)),
        producer_epoch=int(shown.get("producerEpoch", -1)),
        base_sequence=int(shown.get("baseSequence", -1)),
        record_count=int(shown.get("count", 1)),
    )
