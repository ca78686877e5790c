"""A producer's queues, and what of them is ready to be sent (`RecordAccumulator`).

Times the client compares are whole milliseconds of its clock, as in the real one: a batch made at 0.9 ms has waited for
1 ms at 1.0 ms. librdkafka compares microseconds; here it compares nanoseconds.
"""

from collections import deque
from dataclasses import dataclass, field

import numpy as np

from pipeline.simulator.clients.client import MS, ClientFamily
from pipeline.simulator.engine.batches import FIRST_RATIO, estimate_batch_bytes, update_ratio
from pipeline.simulator.scenario.scenario import Producer, Scenario
from tests.oracles.simulator.batch import Batch, Record
from tests.oracles.simulator.buffer_pool import BufferPool
from tests.oracles.simulator.kip_794 import LoadStats, weigh_queues

NEVER = 1 << 62


@dataclass
class Queue:
    """A partition queue: batches of one partition that wait to be sent."""

    leader: int  # index of the partition's broker, or -1
    is_made: bool = False  # it has been asked for once: only then does the client know it
    batches: deque[Batch] = field(default_factory=deque)  # oldest first; the newest may be open
    batch_count: int = 0  # batches made so far
    is_muted: bool = False  # a batch of it is in flight, and a second one may not be
    buffered_count: int = 0  # records that are not done
    # if idempotent: batches that were sent and are not done, by their first sending
    sent: list[Batch] = field(default_factory=list)

    @property
    def is_all_full(self) -> bool:
        """Nothing waits, or the newest batch is full (`allBatchesFull`)."""
        return not self.batches or self.batches[-1].is_full


@dataclass
class NodeTimes:
    """When a broker last had something to be sent, and when it last could be sent to, in milliseconds."""

    ready_ms: int
    drain_ms: int


@dataclass(frozen=True)
class Ready:
    """What `Accumulator.find_ready` found."""

    brokers: tuple[int, ...]  # with something to be sent, rising
    next_check_ns: int  # when something may become ready by waiting alone, or `NEVER`


class Accumulator:
    """The queues of one producer."""

    def __init__(self, scenario: Scenario, number: int) -> None:
        self.producer: Producer = scenario.producers[number]
        self.settings = self.producer.settings
        self.topics = scenario.topics
        self.partition_starts = scenario.partition_starts
        self.first_queue = number * len(scenario.leaders)
        self.queues = [Queue(leader) for leader in scenario.leaders]
        self._racks = [broker.rack for broker in scenario.brokers]
        self.pool = BufferPool(self.settings.buffer_memory_bytes)
        self.load_stats: list[LoadStats | None] = [None] * len(self.topics)
        self.is_closing = False
        self.is_flushing = False
        self.node_times: dict[int, NodeTimes] = {}
        self._ratios: list[np.float32] = [FIRST_RATIO] * len(self.topics)
        self._drain_indexes = [0] * len(scenario.brokers)
        self._shared_drain_index = 0

    def round_time(self, time_ns: int) -> int:
        """The clock as the client reads it: whole milliseconds in Java."""
        return time_ns // MS * MS if self.producer.family is ClientFamily.JAVA else time_ns

    def try_append(self, partition: int, record: Record, now_ns: int) -> int | None:
        """Puts a record into the newest batch, and returns the bytes added; None if there is no room, and it is closed."""
        batches = self.queues[partition].batches
        if not batches:
            return None
        if not batches[-1].has_room(record):
            batches[-1].is_closed = True
            return None
        return batches[-1].append(record, now_ns)

    def open_batch(self, partition: int, record: Record, now_ns: int, buffer_bytes: int) -> int:
        """Opens a batch with a record, and returns its bytes; the memory is already allocated."""
        queue = self.queues[partition]
        batch = Batch(
            queue_number=self.first_queue + partition,
            number=queue.batch_count,
            created_ns=now_ns,
            capacity_bytes=max(self.settings.batch_bytes, estimate_batch_bytes(record.body_bytes)),
            claimed_bytes=buffer_bytes,
            compression=self.settings.compression,
            ratio=self._ratios[record.topic],
            record_limit=self.settings.batch_record_count,
            last_attempt_ms=now_ns // MS,
        )
        queue.batch_count += 1
        queue.batches.append(batch)
        return batch.append(record, now_ns)

    def find_ready(self, now_ns: int) -> Ready:
        """Finds the brokers with something to be sent, and makes the tables by which KIP-794 draws."""
        brokers: set[int] = set()
        next_check_ns = NEVER
        for topic in range(len(self.topics)):
            partitions = range(self.partition_starts[topic], self.partition_starts[topic + 1])
            for partition in partitions:
                check_ns = self._check_partition(partition, now_ns, brokers)
                next_check_ns = min(next_check_ns, check_ns)
            if self.settings.is_adaptive:
                self.load_stats[topic] = self._weigh(partitions)
        return Ready(tuple(sorted(brokers)), next_check_ns)

    def _check_partition(self, partition: int, now_ns: int, brokers: set[int]) -> int:
        queue = self.queues[partition]
        if not queue.batches or queue.leader < 0 or queue.is_muted or queue.leader in brokers:
            return NEVER
        head = queue.batches[0]
        waited_ns = max(self.round_time(now_ns) - self._last_attempt_ns(head), 0)
        rests = self._is_resting(head, now_ns)
        wait_ns = head.backoff_ms * MS if rests else self.settings.linger_ns
        is_full = len(queue.batches) > 1 or head.is_full
        if not rests and (is_full or waited_ns >= wait_ns or self.pool.is_exhausted or self.is_sending_all):
            brokers.add(queue.leader)
            return NEVER
        return self.round_time(now_ns) + max(wait_ns - waited_ns, 0)

    @property
    def is_sending_all(self) -> bool:
        """The producer is closed, or commits."""
        return self.is_closing or self.is_flushing

    def _is_ready(self, partition: int, now_ns: int) -> bool:
        ready: set[int] = set()
        self._check_partition(partition, now_ns, ready)
        return bool(ready)

    def _last_attempt_ns(self, batch: Batch) -> int:
        return batch.last_attempt_ms * MS if batch.attempt_count else self.round_time(batch.created_ns)

    def _is_resting(self, batch: Batch, now_ns: int) -> bool:
        return batch.attempt_count > 0 and now_ns // MS - batch.last_attempt_ms < batch.backoff_ms

    def _weigh(self, partitions: range) -> LoadStats | None:
        """The table of a topic (`partitionReady`, `updatePartitionLoadStats`).

        A partition whose broker kept data waiting for too long is left out by stepping back an index. If the next one has
        nothing queued, it overwrites only the partition there, and so inherits the length of the one left out. One
        with an empty queue is never left out.
        """
        if not all(self.queues[partition].is_made for partition in partitions):
            return None
        lengths = [0] * len(partitions)
        numbers = [0] * len(partitions)
        kept = 0
        for number, partition in enumerate(partitions):
            queue = self.queues[partition]
            if queue.leader < 0:
                continue
            numbers[kept] = number
            if queue.batches:
                lengths[kept] = len(queue.batches)
                if self._is_kept_waiting(queue.leader):
                    continue
            kept += 1
        in_rack = [self.is_in_rack(partitions[number]) for number in numbers[:kept]]
        return weigh_queues(lengths[:kept], numbers[:kept], len(partitions), in_rack)

    def is_in_rack(self, partition: int) -> bool:
        """The producer is rack-aware, and the partition has a leader in its rack."""
        leader, rack = self.queues[partition].leader, self.settings.client_rack
        return leader >= 0 and rack != "" and self._racks[leader] == rack

    def _is_kept_waiting(self, broker: int) -> bool:
        times = self.node_times.get(broker)
        timeout_ms = self.settings.availability_timeout_ns // MS
        return timeout_ms > 0 and times is not None and times.ready_ms - times.drain_ms > timeout_ms

    def note_node(self, broker: int, now_ns: int, *, can_drain: bool) -> None:
        """Notes that a broker has something to be sent, and whether it could be."""
        now_ms = now_ns // MS
        times = self.node_times.setdefault(broker, NodeTimes(now_ms, now_ms))
        times.ready_ms = now_ms
        if can_drain:
            times.drain_ms = now_ms

    def drain(self, broker: int, now_ns: int) -> list[Batch]:
        """Takes the head batch of every partition the broker leads, as far as they fit a request, ready or not.

        The order goes round: it begins with the partition that came last the time before. Until 3.2 all brokers share
        one index, and begin after the last.
        """
        partitions = [p for p, queue in enumerate(self.queues) if queue.leader == broker]
        is_shared = self.settings.drains_from_shared_index
        start = (self._shared_drain_index if is_shared else self._drain_indexes[broker]) % len(partitions)
        if is_shared:
            self._shared_drain_index = start
        drained: list[Batch] = []
        size_bytes = 0
        for step in range(len(partitions)):
            index = (start + step) % len(partitions)
            if is_shared:
                self._shared_drain_index = (index + 1) % len(partitions)
            else:
                self._drain_indexes[broker] = index
            queue = self.queues[partitions[index]]
            if queue.is_muted or not queue.batches or self._is_resting(queue.batches[0], now_ns):
                continue
            if self.settings.drains_ready_only and not self._is_ready(partitions[index], now_ns):
                continue
            head = queue.batches[0]
            if drained and size_bytes + head.estimate_bytes() > self.settings.max_request_bytes:
                break
            if not head.is_next:
                break
            self._take(queue, now_ns)
            size_bytes += head.size_bytes
            drained.append(head)
        return drained

    def take_ready(self, broker: int, now_ns: int) -> list[Batch]:
        """librdkafka: takes the head batches that are ready themselves, each for a request of its own."""
        taken = []
        for partition, queue in enumerate(self.queues):
            if queue.leader != broker:
                continue
            if self._is_ready(partition, now_ns) and queue.batches[0].is_next:
                taken.append(queue.batches[0])
                self._take(queue, now_ns)
        return taken

    def _take(self, queue: Queue, now_ns: int) -> None:
        batch = queue.batches.popleft()
        if self.settings.is_idempotent and batch.earlier is None:
            batch.earlier = list(queue.sent)
            queue.sent.append(batch)
        observed = batch.close()
        if observed is not None:
            topic = batch.records[0][0].topic
            self._ratios[topic] = update_ratio(self._ratios[topic], observed)
        batch.send_count += 1
        batch.drained_ns = (batch.drained_ns[0] if batch.drained_ns[0] >= 0 else now_ns, now_ns)
        if self.settings.mutes_partitions or self.settings.max_in_flight_count == 1:
            queue.is_muted = True

    def put_back(self, batch: Batch, now_ns: int, backoff_ms: int) -> None:
        """Queues a batch that came back with an error: first, or if idempotent after those first sent before it."""
        batch.attempt_count += 1
        batch.last_attempt_ms = now_ns // MS
        batch.backoff_ms = backoff_ms
        queue = self.queues[batch.queue_number - self.first_queue]
        earlier = batch.earlier or ()
        queue.batches.insert(sum(waiting in earlier for waiting in queue.batches), batch)

    def finish(self, batch: Batch) -> None:
        """Forgets a batch that is acknowledged or given up; its memory is still to be released."""
        batch.is_done = True
        self.queues[batch.queue_number - self.first_queue].buffered_count -= len(batch.records)
        if batch.earlier is not None:
            self.queues[batch.queue_number - self.first_queue].sent.remove(batch)
            batch.earlier = []

    def take_expired(self, now_ns: int) -> list[Batch]:
        """Takes queued batches that are older than `delivery.timeout.ms`."""
        expired = []
        for queue in self.queues:
            while queue.batches and self.find_expiry_ns(queue.batches[0]) <= self.round_time(now_ns):
                expired.append(queue.batches.popleft())
        return expired

    def find_expiry_ns(self, batch: Batch) -> int:
        return self.round_time(batch.created_ns) + self.settings.delivery_timeout_ns

    def find_next_expiry_ns(self) -> int:
        """When the first queued batch expires, or `NEVER`."""
        return min((self.find_expiry_ns(queue.batches[0]) for queue in self.queues if queue.batches), default=NEVER)

    @property
    def has_waiting(self) -> bool:
        """Some batch waits to be sent."""
        return any(queue.batches for queue in self.queues)
