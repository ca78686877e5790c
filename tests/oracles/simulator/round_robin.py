"""Round robin, of all versions: the next of the partitions with a leader.

`RoundRobinPartitioner` counts from 0. From 2.4 to 3.9.1 a record that finds no batch with room is asked about twice
(`append.py`), and each question counts on: with an even count of partitions half of them never get a batch (KAFKA-9965,
mended by KAFKA-17632). `DefaultPartitioner` before 2.4 counts from a random start.
"""


def take_turn(count: int, available: tuple[int, ...], partition_count: int) -> int:
    """The partition whose turn it is; of the questions so far 31 bits decide."""
    turn = count & 0x7FFFFFFF
    return available[turn % len(available)] if available else turn % partition_count
