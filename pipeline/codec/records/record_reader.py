"""Reads the records of a segment file or of a Fetch reply, chunk after chunk; imports Numba."""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.codec.log.batch_headers import BATCH_HEADER_BYTES, MAX_MAGIC, MIN_RECORD_BYTES, Flaw, HeaderScan
from pipeline.codec.log.compression import bound_output_bytes, decompress_into
from pipeline.codec.log.problems import MAX_PROBLEMS, describe_flaw
from pipeline.codec.log.record_batch import read_entry_records
from pipeline.codec.log.segment import CHUNK_BYTES
from pipeline.codec.records.record_kernels import decode_batches
from pipeline.codec.records.record_scan import RECORD_ROW, RecordScan
from pipeline.errors import InputError
from pipeline.files import open_regular

GROUP_BYTES = 1 << 20  # decompressed before the kernel runs over it: small enough to be still in the cache
MOST_BATCH_RECORDS = 4 << 20  # of a chunk decoded at once, too: 200 MB; a producer's buffer holds as many at most
MOST_RECORDS = 64 << 20  # of `CHUNK_BYTES` in the file, a fifth of a byte each: 5 s
MOST_OUTPUT_BYTES = 4 << 30  # likewise, decompressed
MOST_KEY_BYTES = 512 << 20  # of a chunk: they stay in memory
_RECORDS_GUESS = 1 << 20
_BROKEN = -1 << 62
_PLAIN, _COMPRESSED, _LEGACY = 0, 1, 2


def iter_record_scans(
    path: Path | str, headers: HeaderScan, *, first: int = 0, end: int | None = None, chunk_bytes: int = CHUNK_BYTES
) -> Iterator[RecordScan]:
    """Reads records of batches `first` to before `end` of a scan, by chunks; what does not parse gets a flaw."""
    rows = headers.rows[first:end]
    with open_regular(path) as file:
        for batches in _cut_into_chunks(rows, chunk_bytes):
            start = int(batches["position"][0])
            size_bytes = int(batches["position"][-1]) + int(batches["size_bytes"][-1]) - start
            data = os.pread(file.fileno(), size_bytes, start)
            if len(data) < size_bytes:
                raise OSError(f"{path}: {len(data)} bytes at {start}, {size_bytes} were there")
            yield _decode(data, start, replace(headers, rows=batches), str(path))


def decode_reply(data: bytes, headers: HeaderScan) -> Iterator[RecordScan]:
    """Reads the records of batches of a Fetch reply that were scanned before; sets the flaw of one that does not parse."""
    for batches in _cut_into_chunks(headers.rows, CHUNK_BYTES):
        yield _decode(data, 0, replace(headers, rows=batches))


def _cut_into_chunks(rows: NDArray[np.void], chunk_bytes: int) -> Iterator[NDArray[np.void]]:
    """Batches, in runs of at most so many bytes and `MOST_BATCH_RECORDS`, or of one batch."""
    for batches in _cut(rows, rows["size_bytes"], chunk_bytes):
        # marks batches with more records than one may have, and the largest ones of those that have too many together
        claimed = _claim_records(batches)
        order = np.argsort(claimed, kind="stable")
        excess = claimed > MOST_BATCH_RECORDS
        excess[order[np.cumsum(claimed[order]) > MOST_RECORDS]] = True
        batches["flaw"][excess] = Flaw.BUDGET
        yield from _cut(batches, _claim_records(batches), MOST_BATCH_RECORDS)


def _cut(rows: NDArray[np.void], weights: NDArray[np.integer[Any]], most: int) -> Iterator[NDArray[np.void]]:
    ends = np.cumsum(weights, dtype=np.int64)
    first = 0
    while first < len(rows):
        before = int(ends[first - 1]) if first else 0
        after = max(int(np.searchsorted(ends, before + most, side="right")), first + 1)
        yield rows[first:after]
        first = after


def _claim_records(batches: NDArray[np.void]) -> NDArray[np.int64]:
    return np.where(batches["flaw"] == Flaw.NONE, np.maximum(batches["record_count"], 0), 0).astype(np.int64)


def _decode(data: bytes, start: int, headers: HeaderScan, name: str = "") -> RecordScan:
    rows, was_flawed = headers.rows, ~np.isin(headers.rows["flaw"], (Flaw.NONE, Flaw.BUDGET))
    records, key_offsets, key_data = _Decoder(data, start, rows).run()
    broken = np.flatnonzero((rows["flaw"] != Flaw.NONE) & ~was_flawed)[:MAX_PROBLEMS]
    entries = [(row, int(row["position"]) - start) for row in rows[broken]]
    problems = [describe_flaw(name, row, data[at : at + int(row["size_bytes"])]) for row, at in entries]
    headers = replace(headers, problems=tuple(problems))
    return RecordScan(headers=headers, rows=records, key_offsets=key_offsets, key_data=key_data)


class _Decoder:
    """Decodes batches without a flaw, in runs of one kind, into arrays that grow; what does not parse gets a flaw."""

    def __init__(self, data: bytes, start: int, batches: NDArray[np.void]) -> None:
        self._data = data
        self._batches = batches
        self._starts = batches["position"] - start
        self._ends = self._starts + batches["size_bytes"]
        claimed = int(batches["record_count"][batches["flaw"] == Flaw.NONE].sum())
        self._records, self._key_offsets = np.empty(min(claimed, _RECORDS_GUESS), RECORD_ROW), np.zeros(1, np.int64)
        self._keys = np.empty(0, np.uint8)
        self._count = self._key_end = 0
        self._output = np.empty(0, np.uint8)
        self._output_bytes = 0  # of all batches so far

    def run(self) -> tuple[NDArray[np.void], NDArray[np.int64], NDArray[np.uint8]]:
        codecs = self._batches["attributes"] & 7
        kinds = np.where(self._batches["magic"] < MAX_MAGIC, _LEGACY, np.where(codecs == 0, _PLAIN, _COMPRESSED))
        edges = (np.flatnonzero(np.diff(kinds)) + 1).tolist()
        for first, last in zip([0, *edges], [*edges, len(kinds)], strict=True):
            if (self._batches["flaw"][first:last] == Flaw.NONE).any():
                (self._decode_plain, self._decode_compressed, self._decode_legacy)[int(kinds[first])](first, last)
        self._records.resize(self._count, refcheck=False)
        self._key_offsets.resize(self._count + 1, refcheck=False)
        self._keys.resize(self._key_end, refcheck=False)
        return self._records, self._key_offsets, self._keys

    def _decode_plain(self, first: int, last: int) -> None:
        spans = np.stack([self._starts[first:last] + BATCH_HEADER_BYTES, self._ends[first:last]], axis=1)
        self._decode(np.frombuffer(self._data, np.uint8), spans, first, last)

    def _decode_compressed(self, first: int, last: int) -> None:
        batches, data = self._batches[first:last], memoryview(self._data)
        columns = (
            *(self._starts[first:last] + BATCH_HEADER_BYTES, self._ends[first:last]),
            *(batches["attributes"] & 7, batches["record_count"], batches["flaw"]),
        )
        written, group = 0, first
        spans: list[tuple[int, int]] = []
        # Plain integers and few calls: a small batch is decompressed in five microseconds.
        for start, end, codec, record_count, flaw in zip(*(column.tolist() for column in columns), strict=True):
            is_excess = self._output_bytes > MOST_OUTPUT_BYTES or self._key_end > MOST_KEY_BYTES
            after = written if flaw or is_excess else self._decompress(codec, data[start:end], written)
            if is_excess and not flaw:
                self._batches["flaw"][group + len(spans)] = Flaw.BUDGET
            elif not flaw and record_count > (after - written) // MIN_RECORD_BYTES:
                self._batches["flaw"][group + len(spans)] = Flaw.PAYLOAD
                after = written
            self._output_bytes += after - written
            spans.append((written, after))
            written = after
            if written >= GROUP_BYTES:
                self._decode(self._output, np.array(spans, np.int64), group, group + len(spans))
                group, spans, written = group + len(spans), [], 0
        if spans:
            self._decode(self._output, np.array(spans, np.int64), group, last)

    def _decompress(self, codec: int, payload: memoryview, written: int) -> int:
        """Decompresses behind what is written; gives the end, or a negative number for broken data."""
        room_end = written + bound_output_bytes(len(payload))
        if len(self._output) < room_end:
            self._output = _grow(self._output, written, room_end)
        try:
            return written + decompress_into(codec, payload, self._output.data[written:room_end])
        except InputError:
            return _BROKEN

    def _decode(self, source: NDArray[np.uint8], spans: NDArray[np.int64], first: int, last: int) -> None:
        batches = self._batches[first:last]
        sound = batches["flaw"] == Flaw.NONE
        self._make_room(int(batches["record_count"] @ sound), int((spans[:, 1] - spans[:, 0]) @ sound))
        self._count, self._key_end = decode_batches(
            source, spans, batches, first, self._records, self._count, self._key_offsets, self._keys, self._key_end
        )

    def _decode_legacy(self, first: int, last: int) -> None:
        for index in range(first, last):
            if self._batches["flaw"][index] != Flaw.NONE:
                continue
            try:
                records = read_entry_records(self._data[self._starts[index] : self._ends[index]])
            except InputError:
                self._batches["flaw"][index] = Flaw.PAYLOAD
                continue
            self._make_room(len(records), sum(len(record.key or b"") for record in records))
            for record in records:
                lengths = (-1 if field is None else len(field) for field in (record.key, record.value))
                row = (record.offset, record.timestamp_ms, *lengths, record.size_bytes, 0, index)
                self._records[self._count] = row
                key = np.frombuffer(record.key or b"", np.uint8)
                self._keys[self._key_end : self._key_end + len(key)] = key
                self._count, self._key_end = self._count + 1, self._key_end + len(key)
                self._key_offsets[self._count] = self._key_end

    def _make_room(self, record_count: int, key_bytes: int) -> None:
        wanted = self._count + record_count
        self._records = _grow(self._records, self._count, wanted)
        self._key_offsets = _grow(self._key_offsets, self._count + 1, wanted + 1)
        self._keys = _grow(self._keys, self._key_end, self._key_end + key_bytes)


def _grow(array: NDArray[Any], used: int, wanted: int) -> NDArray[Any]:
    """Returns the array, or a larger one with its used part copied; `ndarray.resize` would fill the rest with zeros."""
    if wanted <= len(array):
        return array
    grown = np.empty(max(wanted, 2 * len(array)), array.dtype)
    grown[:used] = array[:used]
    return grown
