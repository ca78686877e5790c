"""The built-in partitioner of Kafka 3.3 and later (`BuiltInPartitioner`, KIP-794): it moves on after `batch.size`.

`tests/oracles/simulator/kip_794.py` has its rules, plainly. Kafka makes a table of queues' weights at every `ready()`
(`updatePartitionLoadStats`). Here it is made when a partition is drawn, from the sizes at that `ready()`: a queue keeps
the size it had from its first change after it. Where all partitions take part only those with batches are looked at (a
bit set has them); the empty ones between two of them weigh as much as the longest queue plus 1.

A rack-aware one (Kafka 4.4, KIP-1123) draws from partitions led in its rack, if any takes part; their weights are by
the longest queue among them, but whether the queues differ at all is asked of all.
"""

from pipeline.compilation import compile_module
from pipeline.simulator.engine.client_state import PartitionQueue, ProducerState, TopicInfo
from pipeline.simulator.engine.partitioners import BUILT_IN_DRAFT, draw_available
from pipeline.simulator.engine.primitives import draw_index, find_next
from pipeline.simulator.engine.state import NEVER, NONE, Simulation

_ALIKE = -1  # the queues give no reason to prefer one


def is_time_to_switch(producer: ProducerState, topic: TopicInfo, enable_switch: bool) -> bool:
    """The sticky partition has had its bytes; `enable_switch`: its queue is empty, or its newest batch full."""
    sticky_bytes = max(producer.batch_bytes, 1)
    if producer.partitioner == BUILT_IN_DRAFT:
        return topic.produced_bytes >= sticky_bytes
    return topic.produced_bytes >= (sticky_bytes if enable_switch else 2 * sticky_bytes)


def next_partition(sim: Simulation, producer: ProducerState, topic: TopicInfo) -> None:
    """Draws the sticky partition, the present one perhaps (`nextPartition`)."""
    drawn = _ALIKE
    if topic.has_load_stats and topic.partition_count > 1:
        if topic.is_led and producer.availability_timeout_ms == 0 and not producer.is_rack_aware:
            drawn = _draw_by_busy_queues(sim, producer, topic)
        else:
            drawn = _draw_by_load_stats(sim, producer, topic)
    if drawn == _ALIKE:
        drawn = draw_available(sim, topic)
    topic.sticky_partition = drawn
    topic.produced_bytes = 0


def keep_queue_size(producer: ProducerState, queue: PartitionQueue) -> None:
    """Keeps the size a queue had at the last `ready()`; to be called before it changes."""
    if queue.changed_at != producer.ready_count:
        queue.changed_at = producer.ready_count
        queue.length_at_ready = queue.length


def _queue_size(producer: ProducerState, queue: PartitionQueue) -> int:
    return queue.length_at_ready if queue.changed_at == producer.ready_count else queue.length


def _draw_by_busy_queues(sim: Simulation, producer: ProducerState, topic: TopicInfo) -> int:
    """Draws where all partitions take part: walks from one queue with batches to the next."""
    busy = producer.queues_at_ready
    first = topic.first_queue - producer.first_queue
    end = first + topic.partition_count
    busy_count, total, shortest, longest = 0, 0, NEVER, 0
    member = find_next(sim, busy, first - 1)
    while 0 <= member < end:
        size = _queue_size(producer, sim.queues[producer.first_queue + member])
        busy_count += 1
        total += size
        shortest = min(shortest, size)
        longest = max(longest, size)
        member = find_next(sim, busy, member)
    if busy_count < topic.partition_count:
        shortest = 0
    if shortest == longest:
        return _ALIKE
    most = longest + 1  # the weight of an empty queue
    weight = draw_index(topic.partition_stream, most * topic.partition_count - total)
    partition = 0  # what is left of the weight counts from here on
    member = find_next(sim, busy, first - 1)
    while 0 <= member < end:
        empty_weight = (member - first - partition) * most
        if weight < empty_weight:
            break
        own_weight = most - _queue_size(producer, sim.queues[producer.first_queue + member])
        if weight < empty_weight + own_weight:
            return member - first
        weight -= empty_weight + own_weight
        partition = member - first + 1
        member = find_next(sim, busy, member)
    return partition + weight // most


def _draw_by_load_stats(sim: Simulation, producer: ProducerState, topic: TopicInfo) -> int:
    """Draws by the table, where partitions have no leader or brokers may be left out."""
    count = _update_partition_load_stats(sim, producer, topic)
    if count == 0:
        return _ALIKE
    shortest, longest, total = _sum_queue_sizes(sim, count)
    if count == topic.partition_count and shortest == longest:
        return _ALIKE
    if producer.is_rack_aware:
        in_rack = _keep_in_rack(sim, topic, count)
        if in_rack:
            count = in_rack
            _, longest, total = _sum_queue_sizes(sim, count)
    weight = draw_index(topic.partition_stream, (longest + 1) * count - total)
    place = 0
    while weight >= longest + 1 - sim.queue_sizes[place]:
        weight -= longest + 1 - sim.queue_sizes[place]
        place += 1
    return sim.partition_ids[place]


def _sum_queue_sizes(sim: Simulation, count: int) -> tuple[int, int, int]:
    shortest, longest, total = NEVER, 0, 0
    for index in range(count):
        shortest = min(shortest, sim.queue_sizes[index])
        longest = max(longest, sim.queue_sizes[index])
        total += sim.queue_sizes[index]
    return shortest, longest, total


def _keep_in_rack(sim: Simulation, topic: TopicInfo, count: int) -> int:
    """Moves the listed partitions that are led in the producer's rack to the front, and returns how many they are."""
    kept = 0
    for index in range(count):
        queue = sim.queues[topic.first_queue + sim.partition_ids[index]]
        if sim.connections[queue.connection].is_in_rack:
            sim.partition_ids[kept] = sim.partition_ids[index]
            sim.queue_sizes[kept] = sim.queue_sizes[index]
            kept += 1
    return kept


def _update_partition_load_stats(sim: Simulation, producer: ProducerState, topic: TopicInfo) -> int:
    """Lists partitions that take part and their queues' sizes; as in Kafka, one left out leaves its to the next."""
    for index in range(topic.partition_count):
        sim.queue_sizes[index] = 0
    count = 0
    for partition in range(topic.partition_count):
        queue = sim.queues[topic.first_queue + partition]
        if queue.connection == NONE:
            continue
        sim.partition_ids[count] = partition
        size = _queue_size(producer, queue)
        if size:
            sim.queue_sizes[count] = size
        if size == 0 or not sim.connections[queue.connection].is_kept_waiting:
            count += 1
    return count


compile_module(__name__)
