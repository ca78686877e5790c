"""Which batches of a segment belong to aborted transactions."""

from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from pipeline.codec.log.index_files import TransactionIndex, read_transaction_index
from pipeline.codec.log.scans import HeaderScan
from pipeline.errors import InputError
from pipeline.files import open_regular

_KEY_LENGTH_AT, _TYPE_AT = 65, 69
"""In a control batch: the length of its record's key (4, as a varint), and the lower byte of the marker's type."""
_MARKER_BYTES = _TYPE_AT - _KEY_LENGTH_AT + 1
_KEY_LENGTH, _ABORT, _COMMIT = 8, 0, 1
_UNKNOWN = -1


def find_aborted(path: Path, headers: HeaderScan) -> NDArray[np.bool_]:
    """Says which batches belong to aborted transactions, by markers here or later `.txnindex` files; `OSError`."""
    if not headers.is_transactional.any():
        return np.zeros(len(headers), np.bool_)
    with open_regular(path) as file:
        ends = read_markers(file, headers)
    is_aborted, is_open = match_markers(headers, ends)
    if is_open.any():
        is_aborted[is_open] = _find_in_indexes(path, headers, np.flatnonzero(is_open))
    return is_aborted


def read_markers(file: BinaryIO, headers: HeaderScan) -> NDArray[np.int64]:
    """By batch the type of its marker, 0 abort, 1 commit, or -1; no map, which would break where a broker truncates."""
    types = np.full(len(headers), _UNKNOWN, np.int64)
    is_plain = headers.is_control & (headers.codec == 0) & (headers.size_bytes > _TYPE_AT)
    for batch in np.flatnonzero(is_plain):
        file.seek(int(headers.position[batch]) + _KEY_LENGTH_AT)
        marker = file.read(_MARKER_BYTES)
        if len(marker) == _MARKER_BYTES and marker[0] == _KEY_LENGTH and marker[-1] <= _COMMIT:
            types[batch] = marker[-1]
    return types


def match_markers(headers: HeaderScan, types: NDArray[np.int64]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """By batch, in append order: its producer's next marker is an abort; its transaction has no marker here."""
    is_mine = headers.is_transactional & ~headers.is_control
    rows = np.flatnonzero(is_mine | (types != _UNKNOWN))
    rows = rows[np.lexsort((rows, headers.rows["producer_id"][rows]))]
    producer, kind = headers.rows["producer_id"][rows], np.where(is_mine[rows], _UNKNOWN, types[rows])
    places = np.arange(len(rows))
    # The next marker at or after each place, of whichever producer: its own, or it has none here.
    after = np.minimum.accumulate(np.where(kind == _UNKNOWN, len(rows), places)[::-1])[::-1]
    has_marker = after < len(rows)
    has_marker[has_marker] = producer[after[has_marker]] == producer[has_marker]
    is_aborted, is_open = np.zeros(len(headers), np.bool_), np.zeros(len(headers), np.bool_)
    marked = np.flatnonzero(has_marker)
    is_aborted[rows[marked]] = kind[after[marked]] == _ABORT
    is_open[rows[~has_marker]] = True
    return is_aborted & is_mine, is_open & is_mine


def _find_in_indexes(path: Path, headers: HeaderScan, batches: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Looks transactions up in the indexes of this segment and later ones of the partition."""
    is_aborted = np.zeros(len(batches), np.bool_)
    producer, offset = headers.rows["producer_id"][batches], headers.base_offset[batches]
    for index_path in sorted(path.parent.glob("*.txnindex")):
        if index_path.stem < path.stem:
            continue
        try:
            index = read_transaction_index(index_path)
        except (InputError, OSError):
            continue
        is_aborted |= _find_held(index, producer, offset)
    return is_aborted


def _find_held(index: TransactionIndex, producer: NDArray[np.int64], offset: NDArray[np.int64]) -> NDArray[np.bool_]:
    """By batch: one of its producer's transactions in an index holds it. Both may be many: they meet in their order."""
    is_held, places = np.zeros(len(offset), np.bool_), np.argsort(producer, kind="stable")
    order = np.lexsort((index.first_offset, index.producer_id))
    both = (order, index.producer_id[order]), (places, producer[places])
    for one in np.intersect1d(both[0][1], both[1][1]):
        own, mine = (at[np.searchsorted(ids, one) : np.searchsorted(ids, one, "right")] for at, ids in both)
        begun = np.searchsorted(index.first_offset[own], offset[mine], "right")
        last = np.maximum.accumulate(index.last_offset[own])
        is_held[mine] = (begun > 0) & (last[begun - 1] >= offset[mine])
    return is_held
