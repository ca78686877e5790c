"""Drives the record kernel over the batches of a mapped segment: plain, compressed and legacy ones, in file order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pipeline.codec.log.compression import bound_output_bytes, decompress_into
from pipeline.codec.log.header_walk import BATCH_HEADER_BYTES, MIN_RECORD_BYTES
from pipeline.codec.log.plain_segment import DecodedRecords, PlainSegment
from pipeline.codec.log.scans import RECORD_ROW, Flaw
from pipeline.codec.records.record_kernels import decode_batches
from pipeline.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pipeline.codec.log.header_walk import Bytes

GROUP_BYTES = 1 << 20  # decompressed before the kernel runs over it: small enough to be still in the cache
_RECORDS_GUESS = 1 << 20
_BROKEN = -1 << 62
_PLAIN, _COMPRESSED, _LEGACY = 0, 1, 2


class RecordDecoder:
    """Decodes batches, in runs of the same kind, into arrays that grow.

    Args:
        data: The whole file.
        array: The same as an array.
        batches: `HEADER_ROW`s; the flaw of a batch whose records do not parse is set.
        want_keys: Copy the keys' bytes.
    """

    def __init__(self, data: Bytes, array: NDArray[np.uint8], batches: NDArray[np.void], *, want_keys: bool) -> None:
        self._data = data
        self._array = array
        self._batches = batches
        claimed = int(batches["record_count"][batches["flaw"] == Flaw.NONE].sum())
        self._records = np.empty(min(claimed, _RECORDS_GUESS), RECORD_ROW)
        self._count = 0
        self._key_offsets = np.zeros(1 if want_keys else 0, np.int64)
        self._keys = np.empty(0, np.uint8)
        self._key_end = 0
        self._output = np.empty(0, np.uint8)

    def run(self) -> DecodedRecords:
        """Decodes all batches."""
        codecs = self._batches["attributes"] & 7
        kinds = np.where(self._batches["magic"] < 2, _LEGACY, np.where(codecs == 0, _PLAIN, _COMPRESSED))
        sound = self._batches["flaw"] == Flaw.NONE
        edges = (np.flatnonzero(np.diff(kinds)) + 1).tolist()
        for first, last in zip([0, *edges], [*edges, len(kinds)], strict=True):
            if sound[first:last].any():
                (self._decode_plain, self._decode_compressed, self._decode_legacy)[int(kinds[first])](first, last)
        self._records.resize(self._count, refcheck=False)
        if not len(self._key_offsets):
            return DecodedRecords(rows=self._records, key_offsets=None, key_data=None)
        self._key_offsets.resize(self._count + 1, refcheck=False)
        self._keys.resize(self._key_end, refcheck=False)
        return DecodedRecords(rows=self._records, key_offsets=self._key_offsets, key_data=self._keys)

    def _decode_plain(self, first: int, last: int) -> None:
        positions = self._batches["position"][first:last]
        ends = positions + self._batches["size_bytes"][first:last]
        self._decode(self._array, np.stack([positions + BATCH_HEADER_BYTES, ends], axis=1), first, last)

    def _decode_compressed(self, first: int, last: int) -> None:
        """Decompresses a group of batches side by side, then decodes them, and so on."""
        batches = self._batches[first:last]
        starts, ends = batches["position"] + BATCH_HEADER_BYTES, batches["position"] + batches["size_bytes"]
        columns = (starts, ends, batches["attributes"] & 7, batches["record_count"], batches["flaw"])
        file, written, group = self._array.data, 0, first
        spans: list[tuple[int, int]] = []
        # Plain integers and few calls: a small batch is decompressed in five microseconds.
        for start, end, codec, record_count, flaw in zip(*(column.tolist() for column in columns), strict=True):
            after = written if flaw else self._decompress(codec, file[start:end], written)
            if not flaw and record_count > (after - written) // MIN_RECORD_BYTES:
                self._batches["flaw"][group + len(spans)] = Flaw.PAYLOAD
                after = written
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

    def _make_room(self, record_count: int, key_bytes: int) -> None:
        wanted = self._count + record_count
        self._records = _grow(self._records, self._count, wanted)
        if len(self._key_offsets):
            self._key_offsets = _grow(self._key_offsets, self._count + 1, wanted + 1)
            self._keys = _grow(self._keys, self._key_end, self._key_end + key_bytes)

    def _decode_legacy(self, first: int, last: int) -> None:
        """Leaves message sets of before 2017 to plain Python."""
        want_keys = len(self._key_offsets) > 0
        decoded = PlainSegment(self._data).decode(self._batches[first:last], want_keys=want_keys)
        count = len(decoded.rows)
        self._make_room(count, 0 if decoded.key_data is None else len(decoded.key_data))
        decoded.rows["batch_index"] += first
        self._records[self._count : self._count + count] = decoded.rows
        if decoded.key_offsets is not None and decoded.key_data is not None:
            ends = decoded.key_offsets[1:] + self._key_end
            self._key_offsets[self._count + 1 : self._count + 1 + count] = ends
            self._keys[self._key_end : self._key_end + len(decoded.key_data)] = decoded.key_data
            self._key_end += len(decoded.key_data)
        self._count += count


def _grow(array: NDArray[Any], used: int, wanted: int) -> NDArray[Any]:
    """Returns the array, or a larger one with its used part copied; `ndarray.resize` would fill the rest with zeros."""
    if wanted <= len(array):
        return array
    grown = np.empty(max(wanted, 2 * len(array)), array.dtype)
    grown[:used] = array[:used]
    return grown
