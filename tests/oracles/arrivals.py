"""Packs arrivals record by record: the oracle of `codec.records.arrivals`."""

import hashlib
from collections import defaultdict

from pipeline.codec.log.batch_headers import Flaw
from pipeline.codec.records.arrival_layout import ALL_EPOCHS, GROUP_ROW, MINUTE_MS, NO_WINDOW, TOLERANCE_MS
from tests.scans import list_keys


def pack_plainly(scan, times, secret, *, is_clear):
    """By group, a `GROUP_ROW` as a tuple with the instants, bytes and key numbers of its records in the order of the log."""
    counts = defaultdict(lambda: dict.fromkeys(GROUP_ROW.names[5:], 0) | {"first_ms": MINUTE_MS})
    packed = defaultdict(lambda: ([], [], []))
    last_batch, ahead_ms = None, None
    for record, key in zip(scan.rows, list_keys(scan), strict=True):
        index = int(record["batch_index"])
        if times.window_start_ms[index] == NO_WINDOW:
            continue
        batch, event_ms, own_ms = scan.headers.rows[index], int(times.event_time_ms[index]), int(record["timestamp_ms"])
        ahead_ms = ahead_ms if index == last_batch else None
        is_out = bool(times.is_outlier[index]) or own_ms < max(event_ms - TOLERANCE_MS, 0) or own_ms > event_ms
        known_ms = event_ms if ahead_ms is None else ahead_ms
        at_ms = known_ms if is_out else own_ms
        group = name_group(batch, times.window_start_ms[index], at_ms)
        counted = counts[group]
        counted["record_count"] += 1
        counted["aborted_record_count"] += bool(times.is_aborted[index])
        counted["outlier_record_count"] += is_out
        number = number_key(key, secret, is_clear=is_clear)
        counted["key_digest"] += int(f"{number % 2**64:016x}"[:6], 16) * (int(record["size_bytes"]) + 1)
        counted["late_record_count"] += not is_out and ahead_ms is not None and at_ms < ahead_ms
        counted["first_ms"] = min(counted["first_ms"], at_ms % MINUTE_MS)
        fields = (at_ms % MINUTE_MS, measure_body(record, batch), number)
        for column, field in zip(packed[group], fields, strict=True):
            column.append(field)
        last_batch, ahead_ms = index, ahead_ms if is_out else own_ms
    for index, batch in enumerate(scan.headers.rows):
        if batch["flaw"] != Flaw.NONE and times.window_start_ms[index] != NO_WINDOW:
            group = name_group(batch, times.window_start_ms[index], int(times.event_time_ms[index]))
            counts[group]["unreadable_record_count"] += max(int(batch["record_count"]), 0)
    return sorted(((*group, *counted.values()), *packed[group]) for group, counted in counts.items())


def name_group(batch, window_start_ms, at_ms):
    attributes, magic = int(batch["attributes"]), int(batch["magic"])
    epoch = ALL_EPOCHS if magic >= 2 and attributes & 16 else int(batch["producer_epoch"])
    is_append_time = attributes >> 3 & 1 if magic else 0
    return (int(window_start_ms), at_ms - at_ms % MINUTE_MS, int(batch["producer_id"]), epoch, is_append_time)


def measure_body(record, batch):
    """Bytes of the body with deltas of one byte; of a record with headers what is left of its size."""
    key_length, value_length, size_bytes = (int(record[name]) for name in ("key_length", "value_length", "size_bytes"))
    if not record["header_count"]:
        return 3 + field_bytes(key_length) + field_bytes(value_length) + 1
    length_bytes = next(n for n in range(1, 6) if n == 5 or size_bytes - n < 1 << (7 * n - 1))
    since_base_ms = 0 if batch["attributes"] & 8 else int(record["timestamp_ms"] - batch["base_timestamp_ms"])
    offset_delta = int(record["offset"] - batch["base_offset"])
    return size_bytes - length_bytes - (varint_bytes(since_base_ms) - 1) - (varint_bytes(offset_delta) - 1)


def field_bytes(length):
    return varint_bytes(max(length, 0)) + max(length, 0)


def varint_bytes(value):
    folded = (value << 1) ^ (value >> 63)
    return max(1, -(-folded.bit_length() // 7))


def number_key(key, secret, *, is_clear):
    """Without a secret 0, 1 or 2 for a null key, another, an empty one; else the first 64 bits of the id."""
    if key is None:
        return 0
    if secret is None:
        return 1 if key else 2
    person = b"clear" if is_clear else b""
    digest = hashlib.blake2b(key, digest_size=16, key=secret.value, person=person).digest()
    return int.from_bytes(digest[:8], "big", signed=True)
