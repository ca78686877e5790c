"""Producer sessions read from log directories with the project's codec, as the calibration takes them."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from pipeline.calibration.session_traffic import NO_KEY, SessionBatches, SessionTraffic
from tests.scans import scan_records

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_CONTROL = 1 << 5
_SHORTEST_DELTAS = 2


def read_sessions(
    directories: Iterable[tuple[str, int, int, Path]], start_ms: int = 0, end_ms: int = 1 << 62
) -> dict[tuple[str, int, int], tuple[SessionTraffic, SessionBatches]]:
    """Sessions by topic, producer id and epoch in directories of topic, partition, leader and path; batches of a span alone."""
    found: dict[tuple[str, int, int], list[tuple[np.ndarray, np.ndarray]]] = defaultdict(list)
    for topic, partition, leader, directory in directories:
        for log in sorted(directory.glob("*.log")):
            for key, part in _read_log(log, partition, leader, start_ms, end_ms):
                found[topic, *key].append(part)
    return {key: _join(key, parts) for key, parts in found.items()}


def _read_log(
    log: Path, partition: int, leader: int, start_ms: int, end_ms: int
) -> Iterator[tuple[tuple[int, int], tuple[np.ndarray, np.ndarray]]]:
    scan = scan_records(log)
    heads, rows = scan.headers.rows, scan.rows
    is_data = (heads["attributes"] & _CONTROL) == 0
    inside = is_data & (heads["max_timestamp_ms"] >= start_ms) & (heads["max_timestamp_ms"] < end_ms)
    for producer in np.unique(heads["producer_id"][inside]):
        for epoch in np.unique(heads["producer_epoch"][inside & (heads["producer_id"] == producer)]):
            mine = inside & (heads["producer_id"] == producer) & (heads["producer_epoch"] == epoch)
            own = rows[mine[rows["batch_index"]]]
            starts = heads["base_timestamp_ms"][own["batch_index"]]
            firsts = heads["base_offset"][own["batch_index"]]
            records = np.stack(
                [
                    own["timestamp_ms"],
                    _measure_bodies(own["size_bytes"], own["offset"] - firsts, own["timestamp_ms"] - starts),
                    np.full(len(own), partition),
                    np.where(own["key_length"] < 0, NO_KEY, 0),
                ]
            )
            batches = np.stack(
                [
                    np.full(mine.sum(), partition),
                    np.full(mine.sum(), leader),
                    heads["base_timestamp_ms"][mine],
                    heads["max_timestamp_ms"][mine],
                    heads["record_count"][mine],
                    heads["size_bytes"][mine],
                    heads["attributes"][mine],
                ]
            ).astype(np.int64)
            yield (int(producer), int(epoch)), (records, batches)


def _varint_bytes(values: np.ndarray) -> np.ndarray:
    zigzag = np.where(values < 0, -2 * values - 1, 2 * values).astype(np.uint64)
    return 1 + sum((zigzag >= np.uint64(1 << (7 * length))).astype(np.int64) for length in range(1, 9))


def _measure_bodies(sizes: np.ndarray, offset_deltas: np.ndarray, time_deltas: np.ndarray) -> np.ndarray:
    sizes = sizes.astype(np.int64)
    without_length = sizes - 1
    for length in (2, 3, 4):
        without_length = np.where(_varint_bytes(sizes - length) == length, sizes - length, without_length)
    return without_length - (_varint_bytes(offset_deltas) + _varint_bytes(time_deltas) - _SHORTEST_DELTAS)


def _join(
    key: tuple[str, int, int], parts: list[tuple[np.ndarray, np.ndarray]]
) -> tuple[SessionTraffic, SessionBatches]:
    topic, producer, epoch = key
    at_ms, body, partition, key_index = np.concatenate([records for records, _ in parts], axis=1)
    order = np.lexsort((body, at_ms))
    traffic = SessionTraffic(
        topic=topic,
        topic_id="",
        producer_id=producer,
        producer_epoch=epoch,
        start_ms=int(at_ms.min()),
        elapsed_ms=(at_ms[order] - at_ms.min()).astype(np.int32),
        body_bytes=body[order].astype(np.int32),
        partition=partition[order].astype(np.int32),
        key_index=key_index[order].astype(np.int32),
        keys=np.zeros(1, np.int64),
    )
    columns = np.concatenate([batches for _, batches in parts], axis=1)
    codec = CODECS[np.bincount(columns[6] & 7).argmax()]
    batches = SessionBatches(columns[0].astype(np.int32), columns[1].astype(np.int32), *columns[2:6], codec=codec)
    return traffic, batches
