"""Keyless records of a session, counted by millisecond and partition: what switching rules are distinguished by."""

from dataclasses import dataclass

import numpy as np

from pipeline.arrays import Ints
from pipeline.calibration.limits import LEAST_SAMPLE, MOST_RECORDS, MOST_STRAY
from pipeline.calibration.partitioner import switch_kernels as kernels
from pipeline.calibration.session_traffic import SessionBatches, SessionTraffic

LENGTH_BYTES = 2  # bytes of a record's length field, a varint, for records of 64 to 8,191 bytes


@dataclass(frozen=True)
class KeylessBins:
    """Keyless records by millisecond and partition, in the order in which partition changes least; int64[n] each.

    `body_bytes` are with the records' length fields; `opened_count` is of the batches opened there and then.
    """

    at_ms: Ints
    partition: Ints
    record_count: Ints
    body_bytes: Ints
    opened_count: Ints


def collect_bins(traffic: SessionTraffic, batches: SessionBatches, *, byte_ratio: float = 1.0) -> KeylessBins:
    """Counts keyless records by millisecond and partition; a byte takes `byte_ratio` compressed, as the client estimates."""
    keyless = np.flatnonzero(~traffic.is_keyed[:MOST_RECORDS])
    at_ms, partition = traffic.at_ms[:MOST_RECORDS][keyless], traffic.partition[keyless].astype(np.int64)
    order = np.lexsort((partition, at_ms))
    at_ms, partition = at_ms[order], partition[order]
    is_first = np.append(True, (np.diff(at_ms) != 0) | (np.diff(partition) != 0)) if len(order) else np.zeros(0, bool)
    starts = np.flatnonzero(is_first)
    bin_ms, bin_partition = at_ms[starts], partition[starts]
    body = (traffic.body_bytes[keyless][order] + LENGTH_BYTES).astype(np.int64)
    order_of_bins = np.empty(len(starts), np.int64)
    kernels.order_bins(bin_ms, bin_partition, order_of_bins)
    columns = (
        bin_ms,
        bin_partition,
        np.diff(np.append(starts, len(order))),
        (np.add.reduceat(body, starts) * byte_ratio).astype(np.int64) if len(starts) else body,
        _count_opened(bin_ms, bin_partition, batches),
    )
    return KeylessBins(*(np.ascontiguousarray(column[order_of_bins]) for column in columns))


def _count_opened(at_ms: Ints, partition: Ints, batches: SessionBatches) -> Ints:
    if not len(at_ms):
        return np.zeros(0, np.int64)
    first_ms = int(at_ms[0])
    width = int(max(partition.max(), batches.partition.max(initial=0))) + 1
    opened = np.sort((batches.base_ms - first_ms) * width + batches.partition)
    number = (at_ms - first_ms) * width + partition
    return np.searchsorted(opened, number, "right") - np.searchsorted(opened, number, "left")


def follows_keys(traffic: SessionTraffic) -> bool:
    """Whether records of a key hardly ever change partition; keys with one record say nothing."""
    named = traffic.key_index >= 0
    key, partition = traffic.key_index[named].astype(np.int64), traffic.partition[named].astype(np.int64)
    order = np.argsort(key, kind="stable")
    is_same_key = np.diff(key[order]) == 0
    changes = (np.diff(partition[order]) != 0) & is_same_key
    return bool(is_same_key.sum() >= LEAST_SAMPLE and changes.sum() <= MOST_STRAY * is_same_key.sum())
