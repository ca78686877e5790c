"""Rows of `bronze.consumer_groups` from what was read."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

from pipeline.model.cluster import ConsumerGroupMember
from pipeline.model.window import TimeWindow, instant_of


def iter_consumer_group_rows(
    cluster: str, groups: Iterable[tuple[int, ConsumerGroupMember]], windows: Sequence[TimeWindow]
) -> Iterator[dict[str, Any]]:
    """One row per group, partition and moment of description, for the moments within the windows."""
    for observed_at_ms, member in groups:
        yield from (
            group_row(cluster, window, observed_at_ms, member) for window in windows if observed_at_ms in window
        )


def group_row(cluster: str, window: TimeWindow, observed_at_ms: int, member: ConsumerGroupMember) -> dict[str, Any]:
    """A row of `bronze.consumer_groups`."""
    observed_at, start = instant_of(observed_at_ms), instant_of(window.start_ms)
    return {"cluster": cluster, "window_start": start, "observed_at": observed_at, **asdict(member)}
