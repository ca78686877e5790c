"""The other ways to pick a partition: KIP-480, round robin, and those of other clients.

KIP-480 (`StickyPartitionCache`, Kafka 2.4 to 3.2) moves on with every new batch. A record that finds no batch with room
at the sticky partition makes it draw until it is another one; keyed records and explicit partitions do so too. So a
partition whose batches are sent at once is left at once, and a slow broker's partition is kept until a batch is full:
batches come out even, bytes do not. KIP-794 moves on by bytes instead; see `built_in_partitioner`.

References: franz-go `pkg/kgo/partitioner.go`, `producer.go` (`doPartition`); kafka-python `producer/kafka.py` (`send`).
"""

from enum import IntEnum

from pipeline.compilation import compile_module
from pipeline.simulator.engine.client_state import ProducerState, TopicInfo
from pipeline.simulator.engine.primitives import draw_below, draw_index
from pipeline.simulator.engine.state import NONE, Simulation, ThreadState


class Placement(IntEnum):
    """How a producer picks a partition where neither the key nor the record names one; a `Keyless` names it."""

    BUILT_IN = 0  # KIP-794 as released
    BUILT_IN_DRAFT = 1  # KIP-794 as drafted, before KAFKA-14156: it switches on bytes alone
    STICKY = 2  # KIP-480: `DefaultPartitioner` and `UniformStickyPartitioner` of 2.4 to 3.9
    ROUND_ROBIN_TWO_TURN = 3  # `RoundRobinPartitioner` of 2.4 to 3.9.1: two turns without an open batch (KAFKA-9965)
    ROUND_ROBIN = 4  # `RoundRobinPartitioner` since 3.9.2: from 0, a counter for a topic
    ROUND_ROBIN_OLD = 5  # `DefaultPartitioner` of 0.10.2 to 2.3: from a random start, a counter for a topic
    TIMED_STICKY = 6  # librdkafka since 1.6
    RANDOM = 7  # anew for every record: librdkafka before 1.6 or with `sticky.partitioning.linger.ms=0`, and others
    STICKY_NEIGHBOUR = 8  # franz-go's sticky: after a partition drawn twice in a row its neighbour
    UNIFORM_BYTES = 9  # franz-go's default: 64 KiB each, busy ones less often
    LEAST_BACKUP = 10  # franz-go: that with the fewest buffered records, until a batch is opened
    RANDOM_TWO_DRAWS = 11  # kafka-python since 3.0: a record that finds no open batch is drawn a second partition


BUILT_INS = frozenset({Placement.BUILT_IN, Placement.BUILT_IN_DRAFT})  # the accumulator asks them
ASKED_TWICE = ("STICKY", "ROUND_ROBIN_TWO_TURN", "STICKY_NEIGHBOUR", "LEAST_BACKUP", "RANDOM_TWO_DRAWS")
"""Asked again for a record that finds no batch with room."""
BUILT_IN_DRAFT = int(Placement.BUILT_IN_DRAFT)
_STICKY, _TIMED_STICKY, _RANDOM = int(Placement.STICKY), int(Placement.TIMED_STICKY), int(Placement.RANDOM)
_STICKY_NEIGHBOUR, _UNIFORM_BYTES = int(Placement.STICKY_NEIGHBOUR), int(Placement.UNIFORM_BYTES)
_LEAST_BACKUP, _RANDOM_TWO_DRAWS = int(Placement.LEAST_BACKUP), int(Placement.RANDOM_TWO_DRAWS)
_STICKY_KINDS = (_STICKY, _TIMED_STICKY, _STICKY_NEIGHBOUR, _UNIFORM_BYTES, _LEAST_BACKUP)
_RUN_BYTES = 65_536  # of franz-go's default partitioner
_UNIT = 1 << 53  # a whole number below it is exact as a float


def choose_partition(
    sim: Simulation, producer: ProducerState, thread: ThreadState, topic: TopicInfo, now_ns: int
) -> int:
    """The partition for a record, of every partitioner but the built-in one (`partition`)."""
    kind = producer.partitioner
    if kind in (_RANDOM, _RANDOM_TWO_DRAWS):
        return _draw_twice(sim, topic)
    if kind == _TIMED_STICKY:
        _keep_or_draw(sim, producer, topic, now_ns)
    elif kind == _UNIFORM_BYTES:
        _keep_for_bytes(sim, topic, thread.body_bytes)
    elif kind == _LEAST_BACKUP and topic.sticky_partition < 0:
        topic.sticky_partition = _pick_least_backup(sim, topic)
    elif kind == _STICKY and topic.sticky_partition < 0:
        _draw_another(sim, topic)
    elif kind == _STICKY_NEIGHBOUR and topic.sticky_partition < 0:
        _draw_or_neighbour(sim, topic)
    if kind in _STICKY_KINDS:
        return topic.sticky_partition
    counter = topic.counter & 0x7FFFFFFF  # as Java's `toPositive`
    topic.counter += 1
    if topic.available_count == 0:
        return counter % topic.partition_count
    return sim.partitions[topic.first_available + counter % topic.available_count]


def draw_available(sim: Simulation, topic: TopicInfo) -> int:
    if topic.available_count == 0:
        return draw_index(topic.partition_stream, topic.partition_count)
    return sim.partitions[topic.first_available + draw_index(topic.partition_stream, topic.available_count)]


def on_new_batch(sim: Simulation, producer: ProducerState, topic: TopicInfo, partition: int) -> None:
    """A partition will get a new batch (`onNewBatch`): KIP-480 moves on if it is the sticky one, franz-go always."""
    sticky = topic.sticky_partition
    if producer.partitioner == _STICKY and (sticky < 0 or sticky == partition):
        _draw_another(sim, topic)
    elif producer.partitioner in (_STICKY_NEIGHBOUR, _LEAST_BACKUP):
        topic.last_partition, topic.sticky_partition = sticky, -1


def _draw_another(sim: Simulation, topic: TopicInfo) -> None:
    sticky = topic.sticky_partition
    if topic.available_count == 1:
        topic.sticky_partition = sim.partitions[topic.first_available]
        return
    drawn = draw_available(sim, topic)
    while topic.available_count > 1 and drawn == sticky:
        drawn = draw_available(sim, topic)
    topic.sticky_partition = drawn


def _count_choices(topic: TopicInfo) -> int:
    """How many partitions a client chooses from that leaves leaderless ones out: all where none has a leader."""
    return topic.available_count or topic.partition_count


def _find_choice(sim: Simulation, topic: TopicInfo, place: int) -> int:
    return sim.partitions[topic.first_available + place] if topic.available_count else place


def _draw_or_neighbour(sim: Simulation, topic: TopicInfo) -> None:
    """Draws a partition; where that is the one before, takes the next. After two new batches in a row none was before."""
    count = _count_choices(topic)
    place = draw_index(topic.partition_stream, count)
    if _find_choice(sim, topic, place) == topic.last_partition:
        place = (place + 1) % count
    topic.sticky_partition = _find_choice(sim, topic, place)


def _pick_least_backup(sim: Simulation, topic: TopicInfo) -> int:
    """The partition with the fewest records that are not done; from the last on, each of equals as likely."""
    picked, equals, least = -1, 0, 0
    for index in range(_count_choices(topic) - 1, -1, -1):
        partition = _find_choice(sim, topic, index)
        backup = sim.queues[topic.first_queue + partition].record_count
        if picked < 0 or backup < least:
            picked, equals, least = partition, 1, backup
        elif backup == least:
            equals += 1
            if draw_index(topic.partition_stream, equals) == 0:
                picked = partition
    return picked


def _keep_for_bytes(sim: Simulation, topic: TopicInfo, body_bytes: int) -> None:
    """Keeps a partition for 64 KiB, then draws, with weights of 1 / (records that are not done + 1)."""
    topic.produced_bytes += body_bytes
    if topic.produced_bytes >= _RUN_BYTES:
        topic.produced_bytes = body_bytes
        topic.sticky_partition = -1
    if topic.sticky_partition >= 0:
        return
    count = _count_choices(topic)
    total = 0.0
    for index in range(count - 1, -1, -1):
        total += _weigh(sim, topic, index)
    left = total * (draw_below(topic.partition_stream, _UNIT) / _UNIT)
    index = count - 1
    left -= _weigh(sim, topic, index)
    while left > 0 and index > 0:
        index -= 1
        left -= _weigh(sim, topic, index)
    topic.sticky_partition = _find_choice(sim, topic, index)


def _weigh(sim: Simulation, topic: TopicInfo, place: int) -> float:
    return 1 / (sim.queues[topic.first_queue + _find_choice(sim, topic, place)].record_count + 1)


def _keep_or_draw(sim: Simulation, producer: ProducerState, topic: TopicInfo, now_ns: int) -> None:
    """Keeps a partition for `sticky.partitioning.linger.ms`, as long as it has a leader: librdkafka since 1.6."""
    is_recent = now_ns - topic.drawn_at_ns <= producer.sticky_linger_ns
    if not is_recent or not _is_available(sim, topic, topic.sticky_partition):
        topic.sticky_partition = _draw_twice(sim, topic)
        topic.drawn_at_ns = now_ns


def _draw_twice(sim: Simulation, topic: TopicInfo) -> int:
    """Draws from all partitions, once more if that one has no leader, as librdkafka does."""
    drawn = draw_index(topic.partition_stream, topic.partition_count)
    if _is_available(sim, topic, drawn):
        return drawn
    return draw_index(topic.partition_stream, topic.partition_count)


def _is_available(sim: Simulation, topic: TopicInfo, partition: int) -> bool:
    return partition >= 0 and sim.queues[topic.first_queue + partition].connection != NONE


compile_module(__name__)
