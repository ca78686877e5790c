"""A thread of the application that calls `send()`: one record after the other, blocked while memory is full."""

from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate

from pipeline.simulator.clients.client import Settings
from pipeline.simulator.engine.batches import estimate_batch_bytes, measure_body_bytes
from pipeline.simulator.scenario.scenario import COMMIT, KEYLESS, Recorded, Target, Traffic
from tests.oracles.simulator.arrivals import start_clock
from tests.oracles.simulator.batch import Record
from tests.oracles.simulator.chance import Stream


@dataclass
class Waiting:
    """A record that waits for metadata or memory."""

    record: Record  # the record
    partition: int  # chosen, or -1 where the built-in partitioner is asked again
    needed_bytes: int  # that it waits for; 0 is metadata
    since_ns: int  # when it began to
    is_granted: bool = False  # it got the memory


class SendingThread:
    """What a thread sends next, and when."""

    def __init__(self, traffic: Traffic, settings: Settings, seed: int, number: int) -> None:
        self._traffic = traffic
        self._settings = settings
        self._number = number
        self._clock = start_clock(traffic, Stream(seed, "gap", number))
        self._sizes = Stream(seed, "value size", number)
        self._targets = Stream(seed, "target", number)
        self._weights = list(accumulate(target.weight for target in traffic.targets))
        self._sent_count = 0
        self.waiting: Waiting | None = None
        self.is_committing = False
        self.is_done = False

    def start(self) -> int | None:
        """When its first record is due, or None."""
        return self._check_end(self._clock.first())

    def begins_commit(self) -> bool:
        """What is due is a commit; it is begun."""
        arrivals = self._traffic.arrivals
        if not isinstance(arrivals, Recorded) or int(arrivals.target[self._sent_count]) != COMMIT:
            return False
        self._sent_count += 1
        self.is_committing = True
        return True

    def take_record(self, now_ns: int, created_ns: int) -> Record:
        """The record that is due now; its CreateTime is later if metadata is to be fetched first."""
        arrivals = self._traffic.arrivals
        place = self._sent_count
        self._sent_count += 1
        if isinstance(arrivals, Recorded):
            target = self._traffic.targets[int(arrivals.target[place])]
            partition, body_bytes = int(arrivals.partition[place]), int(arrivals.body_bytes[place])
            return Record(self._number, target.topic, partition, body_bytes, now_ns, created_ns)
        target = self._choose_target()
        value_bytes = self._sizes.draw(self._traffic.value_bytes)
        is_placed = target.is_explicit or not self._settings.ignores_keys
        partition = target.partition if is_placed else KEYLESS
        body_bytes = measure_body_bytes(target.key_bytes, value_bytes)
        return Record(self._number, target.topic, partition, body_bytes, now_ns, created_ns)

    def _choose_target(self) -> Target:
        if len(self._weights) == 1:
            return self._traffic.targets[0]
        drawn = self._targets.draw_between(0, self._weights[-1] - 1)
        return self._traffic.targets[bisect_right(self._weights, drawn)]

    def is_too_large(self, record: Record) -> bool:
        """The client refuses it at once."""
        size_bytes = estimate_batch_bytes(record.body_bytes)
        return size_bytes > min(self._settings.max_request_bytes, self._settings.buffer_memory_bytes)

    def go_on(self, sent_ns: int, returned_ns: int) -> int | None:
        """When the thread sends again after a `send()`, or None if that was the last."""
        if 0 < self._traffic.record_count <= self._sent_count:
            return self._check_end(None)
        due_ns = self._clock.next(sent_ns, returned_ns)
        return self._check_end(None if due_ns is None else max(due_ns, returned_ns))

    def _check_end(self, due_ns: int | None) -> int | None:
        if due_ns is None or 0 < self._traffic.end_ns <= due_ns:
            self.is_done = True
            return None
        return due_ns
