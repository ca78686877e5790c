"""The built-in partitioner of Kafka 3.3 and later (`BuiltInPartitioner`, KIP-794): it moves on after `batch.size` bytes.

1. A record without a key goes to the sticky partition; what the append added to the batch is counted (a batch that it
   opens adds its header too).
2. Past `batch.size` the partitioner moves on, but as released only if the partition's queue is empty or its newest batch
   full (`enableSwitch`, KAFKA-14156), or at twice `batch.size`. The draft in KIP-794, whose published figures are the
   draft's, moves on by bytes alone.
3. Before each append, if the partition's batches are all full by then, it is asked again whether to move on.
4. It draws from all partitions with a leader, the present one too. If adaptive, those with fewer batches queued get more:
   weight = longest queue + 1 - own queue, by a table made at every turn of the sender once each partition had a batch.

So how long the sticky partition is kept depends on bytes, not on how fast its broker takes batches, as in KIP-480
(`kip_480.py`); what is left of that dependence is `enableSwitch`: a slow broker's part-filled batch holds up to twice.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate


@dataclass(frozen=True)
class StickyRun:
    """The sticky partition, and the bytes it got since it was drawn."""

    partition: int
    produced_bytes: int = 0  # as the accumulator counts them


@dataclass(frozen=True)
class LoadStats:
    """Where to draw from."""

    frequencies: tuple[int, ...]  # cumulative weights
    partitions: tuple[int, ...]  # as many


def is_run_over(produced_bytes: int, batch_bytes: int, *, may_switch: bool, is_draft: bool) -> bool:
    """It is time to move on; `may_switch`: the partition's queue is empty or its newest batch full."""
    run_bytes = max(batch_bytes, 1)
    if is_draft:
        return produced_bytes >= run_bytes
    return (produced_bytes >= run_bytes and may_switch) or produced_bytes >= 2 * run_bytes


def draw_partition(
    stats: LoadStats | None, available: tuple[int, ...], partition_count: int, draw: Callable[[int], int]
) -> int:
    """The next sticky partition, the present one perhaps; `available` have a leader, `draw` gives an index below a length."""
    if stats is None:
        return available[draw(len(available))] if available else draw(partition_count)
    weight = draw(stats.frequencies[-1])
    return stats.partitions[bisect_right(stats.frequencies, weight)]


def weigh_queues(
    queues: Sequence[int], partitions: Sequence[int], queue_count: int, in_rack: Sequence[bool] = ()
) -> LoadStats | None:
    """The cumulative frequency table of the partitions that can be had, by the batches that wait in their queues.

    None where nothing is to be told apart: all alike and none left out, or fewer than two. Rack-aware (KIP-1123), those led
    in the producer's rack take part alone.

    >>> weigh_queues([5, 0, 3, 0, 1], range(5), 5).frequencies
    (1, 7, 10, 16, 21)
    """
    if not queues or queue_count < 2:
        return None
    if len(queues) == queue_count and len(set(queues)) == 1:
        return None
    if any(in_rack):
        partitions = [partition for partition, is_in_rack in zip(partitions, in_rack, strict=True) if is_in_rack]
        queues = [queue for queue, is_in_rack in zip(queues, in_rack, strict=True) if is_in_rack]
    longest = max(queues) + 1
    return LoadStats(tuple(accumulate(longest - queue for queue in queues)), tuple(partitions))
