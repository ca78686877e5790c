"""Which part of the records is read where the configuration asks for a part only: the same part in every rerun."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import mmh3

from pipeline.model.window import TimeWindow

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pipeline.model.log import TopicPartition


def choose_partitions(partitions: Iterable[TopicPartition], rate: float) -> frozenset[TopicPartition]:
    """Partitions to read: of each topic so many that at least one is left, those with the smallest hashes.

    Args:
        partitions: All in scope.
        rate: Part to read, 0..1.
    """
    by_topic: dict[str, list[TopicPartition]] = {}
    for key in partitions:
        by_topic.setdefault(key.topic, []).append(key)
    chosen: set[TopicPartition] = set()
    for keys in by_topic.values():
        ranked = sorted(keys, key=lambda key: (mmh3.hash64(str(key), signed=False)[0], key))
        chosen.update(ranked[: math.ceil(rate * len(keys))])
    return frozenset(chosen)


def choose_slices(windows: Sequence[TimeWindow], rate: float, *, cluster: str) -> tuple[TimeWindow, ...]:
    """One slice of each window, at a place drawn from cluster and window.

    Args:
        windows: Of the run.
        rate: Part of each to read, 0..1.
        cluster: Name in the configuration.
    """
    slices = []
    for window in windows:
        length_ms = max(1, round(rate * window.duration_ms))
        free_ms = window.duration_ms - length_ms
        draw = mmh3.hash64(f"{cluster} {window.start_ms}", signed=False)[0]
        start_ms = window.start_ms + draw * (free_ms + 1) // 2**64
        slices.append(TimeWindow(start_ms, start_ms + length_ms))
    return tuple(slices)
