"""The sender: a thread of the client that sleeps in its poll, and once awake makes turns (`Sender.runOnce`).

A turn, all at one moment:

1. handle the responses that arrived: acknowledge batches, or put them back; free their memory;
2. close connections whose oldest request is older than `request.timeout.ms`;
3. find the brokers with something to send (`Accumulator.find_ready`), leave out those that cannot be sent to;
4. send each of the others one request (librdkafka: one for each partition that is ready);
5. give up batches older than `delivery.timeout.ms`;
6. poll: not at all if there was a broker to send to, else until waiting alone makes something ready.

It then is busy for what the turn cost. A call (`wakeup`) while busy makes the poll return at once; a call or a response
while it sleeps wakes it, which takes its time. More calls before the next turn are free.
"""

from dataclasses import dataclass, field

from pipeline.simulator.clients.client import MS, ClientFamily
from pipeline.simulator.scenario.scenario import Scenario
from tests.oracles.simulator.accumulator import NEVER, Accumulator, Ready
from tests.oracles.simulator.batch import Batch
from tests.oracles.simulator.chance import Stream
from tests.oracles.simulator.connection import Request
from tests.oracles.simulator.link import Link
from tests.oracles.simulator.tally import Tally

_MAX_DOUBLINGS = 20


@dataclass
class Turn:
    """What a turn did that others must know."""

    requests: list[tuple[int, Request]] = field(default_factory=list)  # sent now, with the broker each goes to
    # brokers the client connects to, with the time from now that it takes
    connecting: list[tuple[int, int]] = field(default_factory=list)
    cut: list[int] = field(default_factory=list)  # brokers whose connection was closed
    granted: list[int] = field(default_factory=list)  # threads that got the memory they waited for
    committed: list[int] = field(default_factory=list)  # threads whose commit is done


@dataclass
class Coordination:
    """What a producer owes the coordinator of its transactions."""

    partitions: set[int] = field(default_factory=set)  # of the transaction that is open
    has_new: bool = False  # some of them the coordinator was not told
    request: Request | None = None  # that it has not answered
    is_ending: bool = False  # it is an `EndTxn`
    committing: int = -1  # the thread that commits
    refused_until_ns: int = 0  # the transaction before is not complete until then
    retry_at_ns: int = 0  # when a refused request is sent again


class Sender:
    """The sender of one producer."""

    def __init__(self, scenario: Scenario, number: int, seed: int, tally: Tally) -> None:
        self.accumulator = Accumulator(scenario, number)
        self.links = [Link() for _ in scenario.brokers]
        self.due_ns = NEVER
        self._number = number
        self._producer = scenario.producers[number]
        self._settings = self._producer.settings
        self._costs = self._producer.costs
        self._tally = tally
        self._wake = Stream(seed, "wake", number)
        self._response_wake = Stream(seed, "response wake", number)
        self._backoff = Stream(seed, "backoff", number)
        self._busy_until_ns = 0
        self.is_called = False  # since the last turn: more calls are free
        self._is_waking = False
        self._coordination = Coordination()

    def begin_commit(self, thread: int, now_ns: int) -> None:
        """A thread calls `commitTransaction`."""
        self._coordination.committing = thread
        self.accumulator.is_flushing = True
        self.call(now_ns, now_ns)

    def note_partition(self, partition: int) -> None:
        """A partition got a record."""
        if self._settings.adds_partitions and partition not in self._coordination.partitions:
            self._coordination.partitions.add(partition)
            self._coordination.has_new = True

    def call(self, now_ns: int, returned_ns: int) -> None:
        """A thread calls `wakeup`, which returns later; the first call since the last turn counts."""
        if not self.is_called:
            self.is_called = True
            self._rouse(now_ns, returned_ns, is_response=False)

    def receive(self, broker: int, request: Request, now_ns: int) -> None:
        """A response arrives in the socket."""
        self.links[broker].arrived.append(request)
        self._rouse(now_ns, now_ns, is_response=True)

    def connect(self, broker: int, now_ns: int) -> None:
        """A connection is ready."""
        self.links[broker].is_connected, self.links[broker].is_connecting = True, False
        self._rouse(now_ns, now_ns, is_response=True)

    def _rouse(self, now_ns: int, roused_ns: int, *, is_response: bool) -> None:
        if now_ns < self._busy_until_ns:
            self.due_ns = min(self.due_ns, self._busy_until_ns)
        elif not self._is_waking:
            self._is_waking = True
            stream, distribution = (
                (self._response_wake, self._costs.response_wake_ns)
                if is_response
                else (self._wake, self._costs.wake_ns)
            )
            self.due_ns = min(self.due_ns, roused_ns + stream.draw(distribution))

    def take_turn(self, now_ns: int) -> Turn:
        """Makes a turn; `due_ns` says when the next one is."""
        self.is_called = self._is_waking = False
        self._tally.count_turn(self._number)
        turn = Turn()
        for broker in range(len(self.links)):
            self._handle_responses(broker, now_ns, turn)
            self._cut_if_late(broker, now_ns, turn)
        until_ns = self._coordinate(now_ns, turn)
        ready = self.accumulator.find_ready(now_ns) if until_ns is None else Ready((), until_ns)
        sendable = [broker for broker in ready.brokers if self._can_send(broker, now_ns, turn)]
        for broker in sendable:
            self._send(broker, now_ns, turn)
        self._expire(now_ns, turn)
        produced = sum(1 for _, request in turn.requests if request.batches)
        self._busy_until_ns = now_ns + self._costs.loop_ns + produced * self._costs.request_ns
        self.due_ns = self._busy_until_ns
        if not sendable:
            self.due_ns = self._find_poll_end_ns(now_ns, ready.brokers, ready.next_check_ns)
        return turn

    def _coordinate(self, now_ns: int, turn: Turn) -> int | None:
        """Asks the coordinator what is owed to it; until when nothing else is sent, or None."""
        own, broker = self._coordination, self._producer.coordinator
        if own.request is not None:
            return NEVER
        ends = self.accumulator.is_flushing and self.is_idle
        if not own.has_new and not ends:
            return None
        if now_ns < own.retry_at_ns:
            return own.retry_at_ns
        if self._is_connected_to(broker, now_ns, turn):
            own.request = Request([], now_ns, now_ns + self._costs.transit_ns, 0)
            own.is_ending, own.has_new = not own.has_new, False
            turn.requests.append((broker, own.request))
            self.links[broker].in_flight.append(own.request)
        elif self._is_throttled(broker, now_ns):
            return self.links[broker].throttled_until_ns
        return NEVER

    def _hear_coordinator(self, request: Request, now_ns: int, turn: Turn, *, is_error: bool) -> None:
        own = self._coordination
        own.request = None
        if is_error:
            own.has_new = not own.is_ending
            own.retry_at_ns = now_ns + self._settings.backoff_ns
        elif own.is_ending:
            self.accumulator.is_flushing = False
            own.partitions.clear()
            own.refused_until_ns = now_ns + self._costs.markers_ns
            turn.committed.append(own.committing)
        elif request.arrived_ns < own.refused_until_ns:
            own.has_new, own.retry_at_ns = True, now_ns + 20 * MS

    def _find_poll_end_ns(self, now_ns: int, waiting: tuple[int, ...], next_check_ns: int) -> int:
        """When the poll ends by itself; its timeout is counted from the clock the turn began with."""
        ends_ns = [next_check_ns, self.accumulator.find_next_expiry_ns()]
        ends_ns += [self.links[broker].throttled_until_ns for broker in waiting if self._is_throttled(broker, now_ns)]
        ends_ns += [self._find_timeout_ns(link) for link in self.links if link.in_flight]
        end_ns = min(ends_ns)
        if end_ns >= NEVER:
            return NEVER
        timeout_ns = max(
            self.accumulator.round_time(end_ns + self._round_up_ns) - self.accumulator.round_time(now_ns), 0
        )
        return self._busy_until_ns + timeout_ns + (self._costs.timer_ns if timeout_ns else 0)

    @property
    def _round_up_ns(self) -> int:
        return MS - 1 if self._producer.family is ClientFamily.JAVA else 0

    def _is_throttled(self, broker: int, now_ns: int) -> bool:
        return now_ns < self.links[broker].throttled_until_ns

    def _find_timeout_ns(self, link: Link) -> int:
        """The first moment at which the oldest request is late: more than `request.timeout.ms` old, by the client's clock."""
        sent_ns = self.accumulator.round_time(link.in_flight[0].sent_ns)
        return sent_ns + self._settings.request_timeout_ns + (MS if self._producer.family is ClientFamily.JAVA else 1)

    def _can_send(self, broker: int, now_ns: int, turn: Turn) -> bool:
        can_send = self._is_connected_to(broker, now_ns, turn)
        self.accumulator.note_node(broker, now_ns, can_drain=can_send)
        return can_send

    def _is_connected_to(self, broker: int, now_ns: int, turn: Turn) -> bool:
        link = self.links[broker]
        if not link.is_connected and not link.is_connecting:
            link.is_connecting = True
            turn.connecting.append((broker, self._costs.connect_ns))
        return link.can_send(now_ns, self._settings.max_in_flight_count)

    def _send(self, broker: int, now_ns: int, turn: Turn) -> None:
        if self._producer.family is ClientFamily.LIBRDKAFKA:
            groups = [[batch] for batch in self.accumulator.take_ready(broker, now_ns)]
        else:
            groups = [self.accumulator.drain(broker, now_ns)]
        for batches in groups:
            if not batches:
                continue
            request = Request(
                batches, now_ns, now_ns + self._costs.transit_ns, sum(batch.size_bytes for batch in batches)
            )
            if not self._settings.adds_partitions and request.arrived_ns < self._coordination.refused_until_ns:
                request.retry_ns = 20 * MS
            turn.requests.append((broker, request))
            self.links[broker].in_flight.append(request)
            if self._settings.acks == 0:
                self.links[broker].arrived.append(request)
            self._tally.count_request(self._number, broker, request, len(self.links[broker].in_flight))

    def _handle_responses(self, broker: int, now_ns: int, turn: Turn) -> None:
        link = self.links[broker]
        arrived, link.arrived = link.arrived, []
        for request in arrived:
            link.in_flight.remove(request)
            if self._settings.throttles_itself:
                link.throttled_until_ns = max(link.throttled_until_ns, now_ns + request.throttle_ns)
            if request is self._coordination.request:
                self._hear_coordinator(request, now_ns, turn, is_error=request.is_error)
                continue
            self._tally.count_response(self._number, broker, request, now_ns)
            for batch in request.batches:
                self._settle(batch, now_ns, turn, is_error=request.is_error or batch in request.refused)

    def _cut_if_late(self, broker: int, now_ns: int, turn: Turn) -> None:
        link = self.links[broker]
        if not link.in_flight or self.accumulator.round_time(now_ns) < self._find_timeout_ns(link):
            return
        late, link.in_flight = link.in_flight, []
        link.is_connected, link.is_connecting = False, True
        turn.cut.append(broker)
        turn.connecting.append((broker, self._settings.reconnect_backoff_ns + self._costs.connect_ns))
        self._tally.count_timeouts(self._number, broker, len(late))
        for request in late:
            if request is self._coordination.request:
                self._hear_coordinator(request, now_ns, turn, is_error=True)
            for batch in request.batches:
                self._settle(batch, now_ns, turn, is_error=True)

    def _settle(self, batch: Batch, now_ns: int, turn: Turn, *, is_error: bool) -> None:
        """Acknowledges a batch, puts it back, or gives it up."""
        queue = self.accumulator.queues[batch.queue_number - self.accumulator.first_queue]
        queue.is_muted = False
        if batch.is_done:
            return
        is_expired = self.accumulator.find_expiry_ns(batch) <= self.accumulator.round_time(now_ns)
        if is_error and not is_expired and batch.attempt_count < self._settings.retry_count:
            self._tally.count_retry(batch)
            self.accumulator.put_back(batch, now_ns, self._draw_backoff_ms(batch.attempt_count))
        else:
            self._finish(batch, now_ns, turn, is_failed=is_error)

    def _draw_backoff_ms(self, attempt_count: int) -> int:
        settings = self._settings
        backoff_ns = min(settings.backoff_ns << min(attempt_count, _MAX_DOUBLINGS), settings.backoff_max_ns)
        if settings.backoff_jitter_ppm:
            jitter_ppm = settings.backoff_jitter_ppm
            percent_ppm = self._backoff.draw_between(1_000_000 - jitter_ppm, 1_000_000 + jitter_ppm)
            backoff_ns = min(backoff_ns * percent_ppm // 1_000_000, settings.backoff_max_ns)
        return backoff_ns // MS

    def _expire(self, now_ns: int, turn: Turn) -> None:
        for batch in self.accumulator.take_expired(now_ns):
            self._finish(batch, now_ns, turn, is_failed=True)
        for link in self.links:
            for request in link.in_flight:
                for batch in request.batches:
                    is_expired = self.accumulator.find_expiry_ns(batch) <= self.accumulator.round_time(now_ns)
                    if is_expired and not batch.is_done:
                        self._finish(batch, now_ns, turn, is_failed=True)

    def _finish(self, batch: Batch, now_ns: int, turn: Turn, *, is_failed: bool) -> None:
        self.accumulator.finish(batch)
        self._tally.count_batch(self._number, batch, now_ns, is_failed=is_failed)
        turn.granted += self.accumulator.pool.release(batch.claimed_bytes)

    @property
    def is_idle(self) -> bool:
        """Nothing waits, and nothing is in flight."""
        return not self.accumulator.has_waiting and not any(link.in_flight for link in self.links)
