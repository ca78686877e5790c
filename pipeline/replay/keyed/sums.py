"""Sums over buckets of keys of a topic in a window: recorded, assigned, and the heaviest keys."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

NAMED, NO_HASH = "key", "no_hash"
"""Kinds of records: with a key that has a name; the same, when its hashes are gone. Others are those of `key_traffic`."""
TOP_KEY_COUNT = 20  # heaviest keys of a topic and window that are looked at one by one
RECORDS, BYTES, KEYS = range(3)  # columns of sums per partition


class KeyTotals(NamedTuple):
    """Totals of the keys of a topic and window that have a name."""

    key_count: int = 0
    record_count: int = 0
    size_bytes: int = 0
    largest_bytes: int = 0
    largest_bytes_high: int = 0

    def add(self, other: "KeyTotals") -> "KeyTotals":
        """Adds the totals of other keys; the largest are of one key."""
        sums = (own + more for own, more in zip(self[:3], other[:3], strict=True))
        return KeyTotals(*sums, *(max(own, more) for own, more in zip(self[3:], other[3:], strict=True)))


class MoveTotals(NamedTuple):
    """Keys and records that an assignment moves or keeps. Kept: the key does not decide, its records stay."""

    kept_keys: int = 0
    kept_records: int = 0
    moved_keys: int = 0
    moved_records: int = 0
    moved_bytes: int = 0
    at_risk_keys: int = 0
    at_risk_records: int = 0
    at_risk_bytes: int = 0
    refused_records: int = 0
    unanswered_records: int = 0


class TopKey(NamedTuple):
    """One of a topic's heaviest keys."""

    key_id: str  # the first 16 hex digits
    record_count: int
    size_bytes: int
    partitions: NDArray[np.int32]  # by assignment; -1 where the key does not decide


class AssignedKeys(NamedTuple):
    """An assignment of a topic's keys in a window: int64[partitions, 3] of records, bytes and keys, and the totals."""

    cells: NDArray[np.int64]
    totals: MoveTotals


@dataclass
class TopicSums:
    """Sums of one bucket, or of all, for one topic in one window."""

    recorded: dict[str, NDArray[np.int64]] = field(default_factory=dict)  # by kind: records and bytes of partitions
    keys: KeyTotals = field(default_factory=KeyTotals)
    top_keys: Sequence[TopKey] = ()  # the heaviest first
    assigned: dict[int, AssignedKeys] = field(default_factory=dict)  # by number of the assignment in the topic's plan

    def add(self, other: "TopicSums") -> None:
        for kind, cells in other.recorded.items():
            self.recorded[kind] = add_cells(self.recorded.get(kind, cells[:0]), cells)
        self.keys = self.keys.add(other.keys)
        heaviest = sorted((*self.top_keys, *other.top_keys), key=lambda key: (-key.size_bytes, key.key_id))
        self.top_keys = heaviest[:TOP_KEY_COUNT]
        for number, (cells, totals) in other.assigned.items():
            own = self.assigned.get(number, AssignedKeys(cells[:0], MoveTotals()))
            sums = MoveTotals(*(one + more for one, more in zip(own.totals, totals, strict=True)))
            self.assigned[number] = AssignedKeys(add_cells(own.cells, cells), sums)


def sum_by_partition(partitions: NDArray[Any], amounts: NDArray[np.int64]) -> NDArray[np.int64]:
    cells = np.zeros((int(partitions.max()) + 1, amounts.shape[1]), np.int64)
    np.add.at(cells, partitions, amounts)
    return cells


def add_cells(*parts: NDArray[np.int64]) -> NDArray[np.int64]:
    """The sum of arrays with a row per partition, of which some may have fewer."""
    total = np.zeros((max(len(part) for part in parts), parts[0].shape[1]), np.int64)
    for part in parts:
        total[: len(part)] += part
    return total


def merge_sums(parts: Iterable[tuple[int, int, TopicSums]]) -> dict[tuple[int, int], TopicSums]:
    """Adds up what buckets say, by number of the topic and of the window."""
    merged: dict[tuple[int, int], TopicSums] = {}
    for topic, window, sums in parts:
        merged.setdefault((topic, window), TopicSums()).add(sums)
    return merged
