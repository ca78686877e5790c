"""What `kafka-dump-log` prints: batches and records of segments, entries of their side files.

A key or payload is printed as it is: it may hold line ends, and then its text goes on over the next lines. Such lines
are taken as text of the record before, as long as its sizes allow. What fits nothing is returned with its line number:
nothing is passed over in silence.

References:
    `DumpLogSegments` (Kafka 2.8 to 4.1).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pipeline.errors import InputError
from pipeline.model.log import BatchHeader, Codec

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_DUMPED = r"Dumping (?P<path>.+\.(?:log|index|timeindex|txnindex|snapshot|checkpoint))"
_DUMPING = re.compile(_DUMPED)
_DUMPING_LINE = re.compile(rf"^{_DUMPED}\r?$".encode(), re.MULTILINE)
_START = re.compile(r"(?:Log s|S)tarting offset: (?P<offset>[0-9]+)")
_PAIR = re.compile(r"(\w+): ?(\S+)")
_PAIRS = re.compile(r"(?:\w+: ?\S+\s*)+")
_RECORD = re.compile(
    r"\| offset: (?P<offset>[0-9]+) (?:isValid: \w+ crc: \w+ )?(?:CreateTime|LogAppendTime|NoTimestampType): "
    r"(?P<timestamp>-?[0-9]+) key[sS]ize: (?P<key>-?[0-9]+) value[sS]ize: (?P<value>-?[0-9]+)"
    r"(?: sequence: (?P<sequence>-?[0-9]+))?(?: headerKeys: \[.*?\])?(?P<text>.*)"
)
_PAYLOAD = re.compile(r"\s*payload: ?(?P<text>.*)")
_COMPLAINT = re.compile(
    r"Non-consecutive offsets in |Mismatches in ?:|Found timestamp mismatch in ?:|Found out of order timestamp in ?:"
)
_FENCE = "~~~~"
_TIMESTAMPS = ("CreateTime", "LogAppendTime", "NoTimestampType")
_CODECS = {codec.name.lower(): int(codec) for codec in Codec}


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpedRecord:
    """A record as `--print-data-log` or `--deep-iteration` has it; sizes are -1 for null.

    `text` is what follows on its line and the next ones: key, payload, or what a marker says.
    """

    offset: int
    timestamp_ms: int = -1
    key_bytes: int = -1
    value_bytes: int = -1
    sequence: int = -1
    text: str = ""


@dataclass(slots=True, kw_only=True)
class DumpedFile:
    """One file of a dump.

    Attributes:
        path: As printed.
        start_offset: As printed; None for side files.
        batches: Headers; what the tool does not print (the first timestamp) is -1.
        wrong_checksums: Places in `batches` of those whose checksum the tool found wrong.
        records: With `--print-data-log`, `--deep-iteration` or `--cluster-metadata-decoder`.
        entries: Lines of side files: values by the names printed.
        complaints: What the tool found wrong: gaps, index entries that lead nowhere.
    """

    path: str
    start_offset: int | None = None
    batches: list[BatchHeader] = field(default_factory=list)
    wrong_checksums: list[int] = field(default_factory=list)
    records: list[DumpedRecord] = field(default_factory=list)
    entries: list[Mapping[str, str]] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dump:
    """The whole output.

    Attributes:
        files: In the order printed.
        unexplained: Line number and text of what fits nothing.
    """

    files: tuple[DumpedFile, ...]
    unexplained: tuple[tuple[int, str], ...]


def find_dumped_files(data: bytes) -> list[tuple[int, str]]:
    r"""Where the text of each dumped file begins, and the path that was dumped.

    >>> find_dumped_files(b"words\nDumping t-0/00000000000000000000.log\n")
    [(6, 't-0/00000000000000000000.log')]
    """
    return [(found.start(), found["path"].decode(errors="replace")) for found in _DUMPING_LINE.finditer(data)]


def parse_dump_log(text: str, *, path: Path | str | None = None) -> Dump:
    """Reads the output of `kafka-dump-log`; words before the first `Dumping` line, and after a fence, are passed over.

    Args:
        text: The tool's output.
        path: For error messages.

    Returns:
        The files; text of records is kept as printed.

    Raises:
        InputError: No `Dumping` line, or a batch line that does not parse; `position` is the line number.
    """
    files: list[DumpedFile] = []
    unexplained: list[tuple[int, str]] = []
    is_quoted = False
    for number, line in enumerate(text.splitlines(), start=1):
        dumping = _DUMPING.fullmatch(line.strip())
        if dumping:
            files.append(DumpedFile(path=dumping["path"]))
            is_quoted = True
        elif line.strip() == _FENCE:
            is_quoted = False
        elif is_quoted:
            try:
                is_known = _take(line, files[-1])
            except (KeyError, ValueError) as error:
                reason = f"a line that does not parse ({error}): {line[:200]!r}"
                raise InputError(reason, path=path, position=number, first_bytes=line.encode()) from error
            if not is_known:
                unexplained.append((number, line))
    if not files:
        raise InputError("no `Dumping` line: not the output of kafka-dump-log", path=path, first_bytes=text.encode())
    return Dump(files=tuple(files), unexplained=tuple(unexplained))


def _take(line: str, file: DumpedFile) -> bool:
    start, record = _START.fullmatch(line.strip()), _RECORD.match(line)
    if start:
        file.start_offset = int(start["offset"])
    elif line.startswith(("baseOffset: ", "offset: ")) and " magic: " in line:
        if "isvalid: true" not in line:
            file.wrong_checksums.append(len(file.batches))
        file.batches.append(_parse_batch(line))
    elif record:
        file.records.append(_parse_record(record))
    elif file.records and _goes_on(file.records[-1]):
        last = file.records[-1]
        file.records[-1] = replace(last, text=f"{last.text}\n{line}")
    elif file.batches and _PAYLOAD.fullmatch(line):  # --skip-record-metadata prints nothing else of a record
        file.records.append(DumpedRecord(offset=file.batches[-1].last_offset, text=line.strip()))
    elif not file.batches and line.strip() and _PAIRS.fullmatch(line.strip()):
        file.entries.append(dict(_PAIR.findall(line)))
    elif _COMPLAINT.match(line) or (file.complaints and line.startswith("  ")):
        file.complaints.append(line)
    else:
        return not line.strip()
    return True


def _goes_on(record: DumpedRecord) -> bool:
    """Whether the text printed so far leaves room for another line: characters may take several bytes, never none."""
    printed = len(record.text.removeprefix(" key: ").removeprefix(" payload: "))
    return bool(record.text) and printed < max(record.key_bytes, 0) + max(record.value_bytes, 0) + len(" payload: ")


def _parse_batch(line: str) -> BatchHeader:
    told = dict(_PAIR.findall(line))
    stamp = next((name for name in _TIMESTAMPS if name in told), None)
    attributes = _CODECS[told["compresscodec"].lower()] | (8 if stamp == "LogAppendTime" else 0)
    attributes |= 0x10 if told.get("isTransactional") == "true" else 0
    attributes |= 0x20 if told.get("isControl") == "true" else 0
    attributes |= 0x40 if told.get("deleteHorizonMs", "OptionalLong.empty") != "OptionalLong.empty" else 0
    base_offset = int(told["baseOffset"] if "baseOffset" in told else told["offset"])
    return BatchHeader(
        position=int(told["position"]),
        size_bytes=int(told["size"]),
        base_offset=base_offset,
        last_offset=int(told.get("lastOffset", base_offset)),
        partition_leader_epoch=int(told.get("partitionLeaderEpoch", -1)),
        magic=int(told["magic"]),
        crc=int(told["crc"]),
        attributes=attributes,
        base_timestamp_ms=-1,
        max_timestamp_ms=-1 if stamp is None else int(told[stamp]),
        producer_id=int(told.get("producerId", -1)),
        producer_epoch=int(told.get("producerEpoch", -1)),
        base_sequence=int(told.get("baseSequence", -1)),
        record_count=int(told.get("count", 1)),
    )


def _parse_record(match: re.Match[str]) -> DumpedRecord:
    return DumpedRecord(
        offset=int(match["offset"]),
        timestamp_ms=int(match["timestamp"]),
        key_bytes=int(match["key"]),
        value_bytes=int(match["value"]),
        sequence=-1 if match["sequence"] is None else int(match["sequence"]),
        text=match["text"],
    )
