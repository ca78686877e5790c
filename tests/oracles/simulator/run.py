"""The clocks: what happens next, and who is told. See `pipeline/simulator/scenario/scenario.py` for the rules of order."""

import heapq

from pipeline.simulator.engine.result import SimulationResult
from pipeline.simulator.scenario.measured import settle_run
from pipeline.simulator.scenario.scenario import Scenario
from tests.oracles.simulator.accumulator import NEVER
from tests.oracles.simulator.append import Appender, Outcome
from tests.oracles.simulator.batch import Record
from tests.oracles.simulator.chance import Stream
from tests.oracles.simulator.connection import Connection, Handlers
from tests.oracles.simulator.sender import Sender
from tests.oracles.simulator.sending_thread import SendingThread, Waiting
from tests.oracles.simulator.tally import Tally


def simulate_reference(scenario: Scenario, seed: int, *, traces: bool = False) -> SimulationResult:
    """Simulates a scenario: slowly, and to be read."""
    return _Run(settle_run(scenario, seed), seed, has_traces=traces).run()


class _Clocks:
    """Clocks with one time each; the earliest is next, of several that of the lowest number."""

    def __init__(self, count: int) -> None:
        self._due_ns = [NEVER] * count
        self._heap: list[tuple[int, int]] = []

    def set(self, clock: int, due_ns: int | None) -> None:
        self._due_ns[clock] = NEVER if due_ns is None else due_ns
        if self._due_ns[clock] < NEVER:
            heapq.heappush(self._heap, (self._due_ns[clock], clock))

    def pop(self) -> tuple[int, int] | None:
        """The next time and clock, which then shows none; or None if no clock shows one."""
        while self._heap:
            due_ns, clock = heapq.heappop(self._heap)
            if self._due_ns[clock] == due_ns:
                self._due_ns[clock] = NEVER
                return due_ns, clock
        return None


class _Run:
    """All parts of a run, wired."""

    def __init__(self, scenario: Scenario, seed: int, *, has_traces: bool) -> None:
        self._scenario = scenario
        self._tally = Tally(scenario, seed, has_traces=has_traces)
        producers = range(len(scenario.producers))
        self._broker_count = len(scenario.brokers)
        self._senders = [Sender(scenario, number, seed, self._tally) for number in producers]
        handlers = [Handlers(broker.handler_count) for broker in scenario.brokers]
        self._connections = [
            Connection(broker, handlers[index], producer.settings, seed, number * self._broker_count + index)
            for number, producer in enumerate(scenario.producers)
            for index, broker in enumerate(scenario.brokers)
        ]
        topic_count = len(scenario.topics)
        self._appenders = [
            [
                Appender(
                    self._senders[number].accumulator, topic, Stream(seed, "partition", number * topic_count + topic)
                )
                for topic in range(topic_count)
            ]
            for number in producers
        ]
        self._owners = [number for number in producers for _ in scenario.producers[number].traffic]
        traffic = [traffic for producer in scenario.producers for traffic in producer.traffic]
        self._threads = [
            SendingThread(traffic[thread], scenario.producers[owner].settings, seed, thread)
            for thread, owner in enumerate(self._owners)
        ]
        self._wake_calls = [Stream(seed, "wake call", thread) for thread in range(len(self._threads))]
        self._metadata_at_ns: list[int | None] = [None for _ in producers]
        self._first_sender = len(self._connections)
        self._first_thread = self._first_sender + len(self._senders)
        self._clocks = _Clocks(self._first_thread + len(self._threads))

    def run(self) -> SimulationResult:
        """From the first event to the last."""
        for number, thread in enumerate(self._threads):
            self._clocks.set(self._first_thread + number, thread.start())
        for producer in range(len(self._senders)):
            self._close_if_done(producer, 0)
        now_ns = 0
        while (event := self._clocks.pop()) is not None:
            now_ns, clock = event
            if clock < self._first_sender:
                self._on_response(clock, now_ns)
            elif clock < self._first_thread:
                self._on_sender(clock - self._first_sender, now_ns)
            else:
                self._on_thread(clock - self._first_thread, now_ns)
        return self._tally.freeze(now_ns)

    def _set_sender(self, producer: int) -> None:
        self._clocks.set(self._first_sender + producer, self._senders[producer].due_ns)

    def _on_response(self, number: int, now_ns: int) -> None:
        """A connection is ready, or a response arrives."""
        producer, broker = divmod(number, self._broker_count)
        sender = self._senders[producer]
        if not sender.links[broker].is_connected:
            sender.connect(broker, now_ns)
        else:
            request, next_ns = self._connections[number].answer(now_ns)
            self._clocks.set(number, next_ns)
            if self._scenario.producers[producer].settings.acks != 0:
                sender.receive(broker, request, now_ns)
        self._set_sender(producer)

    def _on_sender(self, producer: int, now_ns: int) -> None:
        """The sender makes a turn."""
        sender = self._senders[producer]
        turn = sender.take_turn(now_ns)
        first = producer * self._broker_count
        for broker, request in turn.requests:
            arrives_ns = self._connections[first + broker].submit(request)
            if arrives_ns is not None:
                self._clocks.set(first + broker, arrives_ns)
        for broker in turn.cut:
            self._connections[first + broker].cut()
        for broker, takes_ns in turn.connecting:
            self._clocks.set(first + broker, now_ns + takes_ns)
        self._grant(turn.granted, now_ns)
        for thread in turn.committed:
            self._clocks.set(self._first_thread + thread, now_ns)
        if sender.accumulator.is_closing and sender.is_idle:
            sender.due_ns = NEVER
        self._set_sender(producer)

    def _grant(self, threads: list[int], now_ns: int) -> None:
        """Threads got the memory they waited for, and go on."""
        for thread in threads:
            waiting = self._threads[thread].waiting
            if waiting is not None:
                waiting.is_granted = True
                self._clocks.set(self._first_thread + thread, now_ns)

    def _on_thread(self, number: int, now_ns: int) -> None:
        """A record is due, or a thread that waited goes on."""
        thread = self._threads[number]
        producer = self._owners[number]
        waiting, thread.waiting = thread.waiting, None
        if thread.is_committing:
            thread.is_committing = False
            self._go_on(number, now_ns, now_ns, now_ns)
        elif waiting is None and thread.begins_commit():
            self._senders[producer].begin_commit(number, now_ns)
            self._set_sender(producer)
        elif waiting is None:
            self._send(number, now_ns)
        elif waiting.needed_bytes == 0:
            self._append(number, waiting.record, now_ns)
        else:
            self._tally.count_blocked(producer, now_ns - waiting.since_ns)
            if waiting.is_granted:
                appender = self._appenders[producer][waiting.record.topic]
                outcome = appender.append_with_memory(waiting.record, waiting.partition, now_ns, waiting.needed_bytes)
                self._conclude(number, waiting.record, outcome, now_ns)
            else:
                self._grant(self._senders[producer].accumulator.pool.give_up(number), now_ns)
                self._refuse(number, waiting.record, now_ns)

    def _send(self, number: int, now_ns: int) -> None:
        """`send()` is called; the producer's first call fetches metadata, for which all others wait too."""
        producer = self._owners[number]
        thread = self._threads[number]
        if self._metadata_at_ns[producer] is None:
            self._metadata_at_ns[producer] = now_ns + self._scenario.producers[producer].costs.metadata_ns
        created_ns = max(now_ns, self._metadata_at_ns[producer] or 0)
        record = thread.take_record(now_ns, created_ns)
        self._tally.count_send(producer, now_ns)
        if created_ns > now_ns:
            thread.waiting = Waiting(record, -1, 0, now_ns)
            self._clocks.set(self._first_thread + number, created_ns)
        else:
            self._append(number, record, now_ns)

    def _append(self, number: int, record: Record, now_ns: int) -> None:
        if self._threads[number].is_too_large(record):
            self._refuse(number, record, now_ns)
            return
        outcome = self._appenders[self._owners[number]][record.topic].append(record, now_ns)
        self._conclude(number, record, outcome, now_ns)

    def _conclude(self, number: int, record: Record, outcome: Outcome, now_ns: int) -> None:
        """A record is in a batch, or its thread waits for memory."""
        producer = self._owners[number]
        sender = self._senders[producer]
        pool = sender.accumulator.pool
        costs = self._scenario.producers[producer].costs
        if outcome.needed_bytes:
            pool.wait(number, outcome.needed_bytes)
            self._threads[number].waiting = Waiting(record, outcome.partition, outcome.needed_bytes, now_ns)
            max_block_ns = self._scenario.producers[producer].settings.max_block_ns
            self._clocks.set(self._first_thread + number, max(record.sent_at_ns + max_block_ns, now_ns))
            return
        if outcome.unused_bytes:
            self._grant(pool.release(outcome.unused_bytes), now_ns)
        partition = self._scenario.partition_starts[record.topic] + outcome.partition
        queue_number = sender.accumulator.first_queue + partition
        self._tally.count_append(producer, queue_number, now_ns, pool.total_bytes - pool.free_bytes)
        sender.note_partition(partition)
        returned_ns = now_ns + costs.append_ns
        if outcome.wakes_sender and not sender.is_called:
            returned_ns += self._wake_calls[number].draw(costs.wake_call_ns)
            sender.call(now_ns, returned_ns)
            self._set_sender(producer)
        self._go_on(number, record.sent_at_ns, returned_ns, now_ns)

    def _refuse(self, number: int, record: Record, now_ns: int) -> None:
        producer = self._owners[number]
        self._tally.count_refused(producer)
        self._go_on(number, record.sent_at_ns, now_ns + self._scenario.producers[producer].costs.append_ns, now_ns)

    def _go_on(self, number: int, sent_ns: int, returned_ns: int, now_ns: int) -> None:
        """`send()` returns; the thread's next record, or the end."""
        self._clocks.set(self._first_thread + number, self._threads[number].go_on(sent_ns, returned_ns))
        self._close_if_done(self._owners[number], now_ns)

    def _close_if_done(self, producer: int, now_ns: int) -> None:
        """Once all its threads have ended, a producer is closed: everything that waits is sent."""
        is_done = all(
            thread.is_done for thread, owner in zip(self._threads, self._owners, strict=True) if owner == producer
        )
        sender = self._senders[producer]
        if is_done and not sender.accumulator.is_closing:
            sender.accumulator.is_closing = True
            sender.call(now_ns, now_ns)
            self._set_sender(producer)
