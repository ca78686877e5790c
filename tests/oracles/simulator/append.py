"""How a record gets into a batch, and where the partitioner is asked (`KafkaProducer.doSend`, `RecordAccumulator.append`).

Three ways, by partitioner:

- built-in (KIP-794): the accumulator asks, and may ask again while it appends;
- sticky (KIP-480, franz-go's), least backup, and the round robin and the random choice with the defect: the producer asks, tries, gives up if a batch had to be opened,
  tells the partitioner, asks a second time, and then opens a batch if it still must;
- all others: the producer asks once.
"""

from dataclasses import dataclass, replace

from pipeline.simulator.clients.client import ClientFamily
from pipeline.simulator.engine.batches import estimate_batch_bytes
from tests.oracles.simulator.accumulator import Accumulator
from tests.oracles.simulator.batch import Record
from tests.oracles.simulator.chance import Stream
from tests.oracles.simulator.franz_go import RUN_BYTES, draw_by_backup, draw_or_neighbour, pick_least_backup
from tests.oracles.simulator.kip_480 import NONE, find_sticky, rotate_sticky
from tests.oracles.simulator.kip_794 import StickyRun, draw_partition, is_run_over
from tests.oracles.simulator.round_robin import take_turn
from tests.oracles.simulator.timed_sticky import TimedRun, draw_twice, keep_or_draw

_BUILT_IN = {"BUILT_IN", "BUILT_IN_DRAFT"}
_TWO_QUESTIONS = {"STICKY", "ROUND_ROBIN_TWO_TURN", "STICKY_NEIGHBOUR", "LEAST_BACKUP", "RANDOM_TWO_DRAWS"}
_OLD_START_BITS = 31


@dataclass(frozen=True)
class Outcome:
    """What came of an attempt to append a record."""

    partition: int  # within the topic: where it is; if not appended, the one chosen, or -1 where that is still open
    needed_bytes: int = 0  # 0 if it is appended; else the memory to come back with
    unused_bytes: int = 0  # memory it came with and did not need
    wakes_sender: bool = False  # a batch was opened or is full


class Appender:
    """Puts one topic's records into a producer's batches; keeps the partitioner's state for the topic."""

    def __init__(self, accumulator: Accumulator, topic: int, stream: Stream) -> None:
        self._accumulator = accumulator
        self._settings = accumulator.settings
        self._topic = topic
        self._start = accumulator.partition_starts[topic]
        self._partition_count = len(accumulator.topics[topic].leaders)
        available = accumulator.topics[topic].available
        in_rack = tuple(partition for partition in available if accumulator.is_in_rack(self._start + partition))
        self._led, self._available = available, in_rack or available
        self._draw = stream.draw_index
        self._stream = stream
        self._sticky = self._last = NONE
        self._run_bytes = 0
        self._run: StickyRun | None = None
        self._timed = TimedRun()
        self._turns = 0
        if self._settings.placement == "ROUND_ROBIN_OLD":
            self._turns = self._draw(1 << _OLD_START_BITS)

    def append(self, record: Record, now_ns: int) -> Outcome:
        """Appends a record, unless it needs memory that is not there."""
        if self._accumulator.producer.family is ClientFamily.LIBRDKAFKA:
            return self._append_queued(record, self._choose(record, now_ns), now_ns, 0)
        if record.partition < 0 and self._settings.placement in _BUILT_IN:
            return self._append_built_in(record, now_ns, 0)
        partition = self._choose(record, now_ns)
        if self._settings.placement not in _TWO_QUESTIONS:
            return self._append_chosen(record, partition, now_ns, 0)
        if self._accumulator.try_append(self._start + partition, record, now_ns) is not None:
            return self._conclude(partition)
        self._tell_of_new_batch(partition)
        return self._append_chosen(record, self._choose(record, now_ns), now_ns, 0)

    def append_with_memory(self, record: Record, partition: int, now_ns: int, buffer_bytes: int) -> Outcome:
        """Appends a record that waited for memory: to the partition chosen before, or -1 where the built-in one asks."""
        if self._accumulator.producer.family is ClientFamily.LIBRDKAFKA:
            return self._append_queued(record, partition, now_ns, buffer_bytes)
        if partition < 0:
            return self._append_built_in(record, now_ns, buffer_bytes)
        return self._append_chosen(record, partition, now_ns, buffer_bytes)

    def _append_built_in(self, record: Record, now_ns: int, buffer_bytes: int) -> Outcome:
        """KIP-794: the sticky partition may change before, between and after the two attempts."""
        while True:
            run = self._run = self._run or StickyRun(self._draw_partition())
            queue_number = self._start + run.partition
            if self._has_moved_on(run):
                continue
            added_bytes = self._accumulator.try_append(queue_number, record, now_ns)
            if added_bytes is not None:
                self._count_bytes(run, added_bytes, may_switch=self._accumulator.queues[queue_number].is_all_full)
                return self._conclude(run.partition, unused_bytes=buffer_bytes)
            if not buffer_bytes:
                buffer_bytes = self._measure_buffer(record)
                if not self._accumulator.pool.allocate(buffer_bytes):
                    return Outcome(-1, needed_bytes=buffer_bytes)
            if self._has_moved_on(run):
                continue
            added_bytes = self._accumulator.open_batch(queue_number, record, now_ns, buffer_bytes)
            self._count_bytes(run, added_bytes, may_switch=self._accumulator.queues[queue_number].is_all_full)
            return self._conclude(run.partition, has_opened=True)

    def _has_moved_on(self, run: StickyRun) -> bool:
        """If all batches are full by now, the partitioner is asked again (`partitionChanged`)."""
        queue = self._accumulator.queues[self._start + run.partition]
        queue.is_made = True
        if queue.is_all_full:
            self._count_bytes(run, 0, may_switch=True)
        return self._run is not run

    def _count_bytes(self, run: StickyRun, added_bytes: int, *, may_switch: bool) -> None:
        """Counts what an append added, and moves on if it is time (`updatePartitionInfo`)."""
        produced_bytes = run.produced_bytes + added_bytes
        is_draft = self._settings.placement == "BUILT_IN_DRAFT"
        if is_run_over(produced_bytes, self._settings.batch_bytes, may_switch=may_switch, is_draft=is_draft):
            self._run = StickyRun(self._draw_partition())
        elif added_bytes:
            self._run = replace(run, produced_bytes=produced_bytes)

    def _draw_partition(self) -> int:
        stats = self._accumulator.load_stats[self._topic]
        return draw_partition(stats, self._available, self._partition_count, self._draw)

    def _append_chosen(self, record: Record, partition: int, now_ns: int, buffer_bytes: int) -> Outcome:
        queue_number = self._start + partition
        self._accumulator.queues[queue_number].is_made = True
        if self._accumulator.try_append(queue_number, record, now_ns) is not None:
            return self._conclude(partition, unused_bytes=buffer_bytes)
        if not buffer_bytes:
            buffer_bytes = self._measure_buffer(record)
            if not self._accumulator.pool.allocate(buffer_bytes):
                return Outcome(partition, needed_bytes=buffer_bytes)
        self._accumulator.open_batch(queue_number, record, now_ns, buffer_bytes)
        return self._conclude(partition, has_opened=True)

    def _append_queued(self, record: Record, partition: int, now_ns: int, buffer_bytes: int) -> Outcome:
        """librdkafka: memory is claimed for each record, not for a batch."""
        queue_number = self._start + partition
        if not buffer_bytes and not self._accumulator.pool.allocate(record.body_bytes):
            return Outcome(partition, needed_bytes=record.body_bytes)
        if self._accumulator.try_append(queue_number, record, now_ns) is not None:
            self._accumulator.queues[queue_number].batches[-1].claimed_bytes += record.body_bytes
            return self._conclude(partition)
        self._accumulator.open_batch(queue_number, record, now_ns, record.body_bytes)
        return self._conclude(partition, has_opened=True)

    def _measure_buffer(self, record: Record) -> int:
        return max(self._settings.batch_bytes, estimate_batch_bytes(record.body_bytes))

    def _conclude(self, partition: int, *, unused_bytes: int = 0, has_opened: bool = False) -> Outcome:
        self._accumulator.queues[self._start + partition].buffered_count += 1
        batches = self._accumulator.queues[self._start + partition].batches
        wakes_sender = has_opened or len(batches) > 1 or batches[-1].is_full
        return Outcome(partition, unused_bytes=unused_bytes, wakes_sender=wakes_sender)

    def _choose(self, record: Record, now_ns: int) -> int:
        """Asks the partitioner."""
        if record.partition >= 0:
            return record.partition
        match self._settings.placement:
            case "STICKY":
                self._sticky = find_sticky(self._sticky, self._available, self._partition_count, self._draw)
                return self._sticky
            case "STICKY_NEIGHBOUR" | "UNIFORM_BYTES" | "LEAST_BACKUP":
                return self._choose_as_franz_go(record)
            case "TIMED_STICKY":
                self._timed = keep_or_draw(
                    self._timed,
                    now_ns,
                    self._settings.sticky_linger_ns,
                    self._led,
                    partition_count=self._partition_count,
                    draw=self._draw,
                )
                return self._timed.partition
            case "RANDOM" | "RANDOM_TWO_DRAWS":
                return draw_twice(self._led, self._partition_count, self._draw)  # no client that draws so knows racks
            case _:
                self._turns += 1
                return take_turn(self._turns - 1, self._available, self._partition_count)

    def _choose_as_franz_go(self, record: Record) -> int:
        placement = self._settings.placement
        choices = self._available or range(self._partition_count)
        backups = [self._accumulator.queues[self._start + choice].buffered_count for choice in choices]
        self._run_bytes += record.body_bytes
        if placement == "UNIFORM_BYTES" and self._run_bytes >= RUN_BYTES:
            self._run_bytes, self._sticky = record.body_bytes, NONE
        if self._sticky == NONE and placement == "STICKY_NEIGHBOUR":
            self._sticky = draw_or_neighbour(self._last, choices, self._draw)
        elif self._sticky == NONE and placement == "LEAST_BACKUP":
            self._sticky = pick_least_backup(choices, backups, self._draw)
        elif self._sticky == NONE:
            fraction = self._stream.draw_between(0, (1 << 53) - 1) / (1 << 53)
            self._sticky = draw_by_backup(choices, backups, fraction)
        return self._sticky

    def _tell_of_new_batch(self, partition: int) -> None:
        """Tells the partitioner that a record found no batch with room there (`onNewBatch`)."""
        if self._settings.placement in {"STICKY_NEIGHBOUR", "LEAST_BACKUP"}:
            self._last, self._sticky = self._sticky, NONE
        if self._settings.placement == "STICKY":
            self._sticky = rotate_sticky(self._sticky, partition, self._available, self._partition_count, self._draw)
