"""The sticky partitioner of Kafka 2.4 to 3.2 (`StickyPartitionCache`, KIP-480): it moves on with every new batch.

1. A record without a key goes to the sticky partition.
2. If that has no batch with room, the producer gives up on the record, tells the partitioner, and asks again.
3. Told so, the partitioner draws another partition, until it is not the present one, but only if the partition that found
   no batch is the sticky one. Keyed records and explicit partitions tell it too.

So whoever's batches are sent at once is left at once, and a slow broker's partition is kept until a batch is full: batches
come out even, bytes do not. KIP-794 (`kip_794.py`) moves on by bytes instead, and may draw the same partition again.
"""

from collections.abc import Callable

NONE = -1


def find_sticky(sticky: int, available: tuple[int, ...], partition_count: int, draw: Callable[[int], int]) -> int:
    """The present sticky partition, or the first draw; `available` have a leader, `draw` gives an index below a length."""
    return sticky if sticky != NONE else rotate_sticky(NONE, NONE, available, partition_count, draw)


def rotate_sticky(
    sticky: int, opened: int, available: tuple[int, ...], partition_count: int, draw: Callable[[int], int]
) -> int:
    """The sticky partition after a record found no batch with room in `opened` (`onNewBatch`)."""
    if sticky not in {NONE, opened}:
        return sticky
    if not available:
        return draw(partition_count)
    if len(available) == 1:
        return available[0]
    drawn = available[draw(len(available))]
    while drawn == sticky:
        drawn = available[draw(len(available))]
    return drawn
