"""Arrivals in a chunk of a log: when each record was created, how large it was and which key it had, by session and minute.

Records of one session, minute and window stand side by side, in the order of the log, in ten to fourteen bytes each.
`calibration.arrival_rows` puts the chunks of all partitions in one order.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from pipeline.codec.log.batch_headers import Flaw, HeaderScan
from pipeline.codec.records import arrival_layout as layout
from pipeline.codec.records.arrival_layout import MINUTE_MS, NO_WINDOW
from pipeline.codec.records.key_ids import EMPTY_KEY, NULL_KEY, SOME_KEY, KeySecret, make_key_ids, number_of_id
from pipeline.codec.records.key_table import KeyTable
from pipeline.codec.records.record_scan import RecordScan

MOST_KEYS = 1 << 20  # keys whose numbers are held at once


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BatchTimes:
    window_start_ms: NDArray[np.int64]  # start of the window it counts in; `NO_WINDOW`: it does not count
    event_time_ms: NDArray[np.int64]  # instant that decides its window
    is_outlier: NDArray[np.bool_]  # its own max timestamp is out of line
    is_aborted: NDArray[np.bool_]

    def part(self, start: int, end: int) -> BatchTimes:
        return BatchTimes(**{field.name: getattr(self, field.name)[start:end] for field in fields(self)})

    def where(self, counts: NDArray[np.bool_]) -> BatchTimes:
        """The same, less batches that do not count."""
        return replace(self, window_start_ms=np.where(counts, self.window_start_ms, NO_WINDOW))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PackedArrivals:
    groups: NDArray[np.void]  # `GROUP_ROW`s
    at_ms: NDArray[np.uint16]  # milliseconds within the minute
    body_bytes: NDArray[np.int32]  # see `simulator.engine.batches.measure_body_bytes`
    # the first 64 bits of a key's id, `NULL_KEY`, or without a secret one of the three numbers; None where all are null
    key_number: NDArray[np.int64] | None


class ArrivalPacker:
    """Packs the chunks of a partition; without a `secret` only null, empty and other keys differ."""

    def __init__(self, secret: KeySecret | None, *, is_clear: bool = False, most_keys: int = MOST_KEYS) -> None:
        self._secret = secret
        self._is_clear = is_clear
        self._table = KeyTable(most_keys)
        self._numbers = np.empty(0, np.int64)

    def pack(self, scan: RecordScan, times: BatchTimes) -> PackedArrivals:
        is_mine = times.window_start_ms[scan.batch_index] != NO_WINDOW
        records, key_number = scan.rows[is_mine], self._number_keys(scan)[is_mine]
        batch = records["batch_index"]
        at_ms, is_outlier, is_late = _place_records(records["timestamp_ms"], batch, times)
        minute, in_minute_ms = at_ms // MINUTE_MS, at_ms % MINUTE_MS
        is_new = np.ones(len(records), np.bool_)
        is_new[1:] = (batch[1:] != batch[:-1]) | (minute[1:] != minute[:-1])
        runs = np.flatnonzero(is_new)
        unreadable = np.flatnonzero((times.window_start_ms != NO_WINDOW) & (scan.headers.rows["flaw"] != Flaw.NONE))
        batches = np.append(batch[runs], unreadable)
        begun_ms = np.append(at_ms[runs], times.event_time_ms[unreadable])
        headers = scan.headers
        epoch = np.where(headers.is_transactional, layout.ALL_EPOCHS, headers.rows["producer_epoch"])
        columns = (times.window_start_ms, headers.rows["producer_id"], epoch, headers.timestamp_type)
        window, producer, epochs, kind = (column[batches] for column in columns)
        names = (window, begun_ms - begun_ms % MINUTE_MS, producer, epochs, kind)  # `NAMES`
        named, place = _number_rows(np.stack(names, axis=1).astype(np.int64))
        groups = np.zeros(len(named), layout.GROUP_ROW)
        of_runs, of_unreadable = place[: len(runs)], place[len(runs) :]
        for column, name in enumerate(layout.NAMES):
            groups[name] = named[:, column]
        run_lengths = np.diff(np.append(runs, len(records)))
        key_digest = (key_number >> 40 & 0xFFFFFF) * (records["size_bytes"].astype(np.int64) + 1)
        sums = {
            "record_count": run_lengths,
            "aborted_record_count": run_lengths * times.is_aborted[batch[runs]],
            "outlier_record_count": np.add.reduceat(is_outlier, runs, dtype=np.int64),
            "late_record_count": np.add.reduceat(is_late, runs, dtype=np.int64),
            "key_digest": np.add.reduceat(key_digest, runs),
        }
        for name, added in sums.items():
            np.add.at(groups[name], of_runs, added)
        # a broken wrapper of the legacy format does not say how many
        unread_counts = np.maximum(scan.headers.record_count[unreadable], 0)
        np.add.at(groups["unreadable_record_count"], of_unreadable, unread_counts)
        groups["first_ms"] = MINUTE_MS
        np.minimum.at(groups["first_ms"], of_runs, np.minimum.reduceat(in_minute_ms, runs))
        order = join_runs(runs, run_lengths, np.argsort(of_runs, kind="stable"))
        return PackedArrivals(
            groups=groups,
            at_ms=in_minute_ms[order].astype(np.uint16),
            body_bytes=_measure_bodies(records, scan.headers)[order],
            key_number=key_number[order] if key_number.any() else None,
        )

    def _number_keys(self, scan: RecordScan) -> NDArray[np.int64]:
        if self._secret is None:
            lengths = scan.key_length
            return np.where(lengths < 0, NULL_KEY, np.where(lengths == 0, EMPTY_KEY, SOME_KEY)).astype(np.int64)
        numbers = np.empty(len(scan), np.int64)
        at = 0
        while at < len(scan):
            indexes, new = self._table.number(scan, scan.key_length, at)
            ids = make_key_ids(self._secret, new.to_pylist(), is_clear=self._is_clear)
            self._numbers = np.append(self._numbers, np.array([number_of_id(key_id) for key_id in ids], np.int64))
            # The number of a null key stands last, where the index -1 finds it.
            numbers[at : at + len(indexes)] = np.append(self._numbers, NULL_KEY)[indexes]
            at += len(indexes)
            if at < len(scan):
                self._table.keep(np.empty(0, np.int64))
                self._numbers = self._numbers[:0]
        return numbers


def _place_records(
    timestamp_ms: NDArray[np.int64], batch: NDArray[np.int64], times: BatchTimes
) -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.bool_]]:
    """Finds when records were created, whose own timestamps are out of line, and which come before the one ahead of them."""
    event_ms = times.event_time_ms[batch]
    is_outlier = times.is_outlier[batch] | (timestamp_ms < np.maximum(event_ms - layout.TOLERANCE_MS, 0))
    is_outlier |= timestamp_ms > event_ms
    rows = np.arange(len(batch))
    ahead = np.maximum.accumulate(np.where(is_outlier, -1, rows)) if len(rows) else rows
    is_known = (ahead >= 0) & (batch[ahead] == batch)
    at_ms = np.where(is_known, timestamp_ms[ahead], event_ms)
    is_late = np.zeros(len(batch), np.bool_)
    is_late[1:] = ~is_outlier[1:] & is_known[:-1] & (batch[1:] == batch[:-1]) & (at_ms[1:] < at_ms[:-1])
    return at_ms, is_outlier, is_late


def _number_rows(rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Distinct rows, and the index of each row among them; `np.unique` over an axis takes ten times as long."""
    order = np.lexsort(rows.T)
    is_new = np.ones(len(rows), np.bool_)
    is_new[1:] = (rows[order[1:]] != rows[order[:-1]]).any(axis=1)
    place = np.empty(len(rows), np.int64)
    place[order] = np.cumsum(is_new) - 1
    return rows[order[is_new]], place


def join_runs(starts: NDArray[np.int64], lengths: NDArray[np.int64], order: NDArray[np.int64]) -> NDArray[np.int64]:
    starts, lengths = starts[order], lengths[order]
    placed = np.cumsum(lengths) - lengths
    return np.repeat(starts - placed, lengths) + np.arange(lengths.sum())


def _measure_bodies(records: NDArray[np.void], headers: HeaderScan) -> NDArray[np.int32]:
    """Bytes of bodies with deltas of one byte; with headers, in log append time, their deltas are taken as such."""
    body_bytes = 1 + layout.FIXED_BODY_BYTES + layout.measure_field_bytes(records["key_length"])
    body_bytes += layout.measure_field_bytes(records["value_length"])
    rest = np.flatnonzero(records["header_count"] > 0)
    if len(rest):
        others = records[rest]
        batch, size_bytes = others["batch_index"], others["size_bytes"]
        length_bytes = 1 + sum((size_bytes > (1 << (7 * n - 1)) - 1 + n).astype(np.int64) for n in range(1, 5))
        since_base_ms = others["timestamp_ms"] - headers.rows["base_timestamp_ms"][batch]
        since_base_ms[headers.timestamp_type[batch] == 1] = 0
        deltas = others["offset"] - headers.base_offset[batch], since_base_ms
        body_bytes[rest] = size_bytes - length_bytes - sum(layout.measure_varint_bytes(delta) - 1 for delta in deltas)
    return body_bytes.astype(np.int32)
