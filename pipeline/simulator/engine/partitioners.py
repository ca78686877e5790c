"""The other ways to pick a partition: KIP-480, round robin, and librdkafka's.

KIP-480 (`StickyPartitionCache`, Kafka 2.4 to 3.2) moves on with every new batch. A record that finds no batch with room at
the sticky partition makes it draw until it is another one; keyed records and explicit partitions do so too. So whoever's
batches are sent at once is left at once, and a slow broker's partition is kept until a batch is full: batches come out even,
bytes do not. KIP-794 moves on by bytes instead; see `built_in_partitioner`.
"""

from __future__ import annotations

from pipeline.compilation import njit
from pipeline.partitioners.strategy import Placement
from pipeline.simulator.engine.built_in_partitioner import draw_available
from pipeline.simulator.engine.draws import draw_index
from pipeline.simulator.engine.state import NONE, ProducerState, Simulation, TopicInfo

_STICKY, _TIMED_STICKY, _RANDOM = int(Placement.STICKY), int(Placement.TIMED_STICKY), int(Placement.RANDOM)


@njit
def choose_partition(sim: Simulation, producer: ProducerState, topic: TopicInfo, now_ns: int) -> int:
    """The partition for a record, of every partitioner but the built-in one (`partition`)."""
    if producer.placement == _STICKY:
        if topic.sticky_partition < 0:
            on_new_batch(sim, topic, topic.sticky_partition)
        return topic.sticky_partition
    if producer.placement == _TIMED_STICKY:
        return _keep_or_draw(sim, producer, topic, now_ns)
    if producer.placement == _RANDOM:
        return _draw_twice(sim, topic)
    counter = topic.counter & 0x7FFFFFFF  # as Java's `toPositive`
    topic.counter += 1
    if topic.available_count == 0:
        return counter % topic.partition_count
    return sim.partitions[topic.first_available + counter % topic.available_count]


@njit
def on_new_batch(sim: Simulation, topic: TopicInfo, partition: int) -> None:
    """KIP-480: moves on from a partition that will get a new batch, if it is the sticky one (`onNewBatch`)."""
    sticky = topic.sticky_partition
    if sticky >= 0 and sticky != partition:
        return
    if topic.available_count == 1:
        topic.sticky_partition = sim.partitions[topic.first_available]
        return
    drawn = draw_available(sim, topic)
    while topic.available_count > 1 and drawn == sticky:
        drawn = draw_available(sim, topic)
    topic.sticky_partition = drawn


@njit
def _keep_or_draw(sim: Simulation, producer: ProducerState, topic: TopicInfo, now_ns: int) -> int:
    """Keeps a partition for `sticky.partitioning.linger.ms`, as long as it has a leader: librdkafka since 1.6."""
    is_recent = now_ns - topic.drawn_at_ns <= producer.sticky_linger_ns
    if not is_recent or not _is_available(sim, topic, topic.sticky_partition):
        topic.sticky_partition = _draw_twice(sim, topic)
        topic.drawn_at_ns = now_ns
    return topic.sticky_partition


@njit
def _draw_twice(sim: Simulation, topic: TopicInfo) -> int:
    """Draws from all partitions, once more if that one has no leader, as librdkafka does."""
    drawn = draw_index(topic.partition_stream, topic.partition_count)
    if _is_available(sim, topic, drawn):
        return drawn
    return draw_index(topic.partition_stream, topic.partition_count)


@njit
def _is_available(sim: Simulation, topic: TopicInfo, partition: int) -> bool:
    return partition >= 0 and sim.queues[topic.first_queue + partition].connection != NONE
