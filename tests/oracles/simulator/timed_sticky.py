"""librdkafka's sticky partition: kept for a time, whatever its batches do.

1. Keep the partition until more than `sticky.partitioning.linger.ms` passed since it was drawn, or it has no leader.
2. Then draw from all, the same one perhaps; a leaderless one is drawn once more, and that stands.
"""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class TimedRun:
    """The sticky partition and when it was drawn; -1 is none."""

    partition: int = -1
    drawn_at_ns: int = 0


def keep_or_draw(
    run: TimedRun,
    now_ns: int,
    linger_ns: int,
    available: tuple[int, ...],
    *,
    partition_count: int,
    draw: Callable[[int], int],
) -> TimedRun:
    """The sticky partition for a record."""
    if run.partition in available and now_ns - run.drawn_at_ns <= linger_ns:
        return run
    return TimedRun(draw_twice(available, partition_count, draw), now_ns)


def draw_twice(available: tuple[int, ...], partition_count: int, draw: Callable[[int], int]) -> int:
    """Any partition; a leaderless one is drawn once more, and that stands."""
    drawn = draw(partition_count)
    return drawn if drawn in available else draw(partition_count)
