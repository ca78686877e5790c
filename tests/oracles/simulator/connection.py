"""A connection as the broker serves it: one request at a time, the others wait in the socket.

So several requests in flight hide latency but do not add to what a slow broker takes. A response that a quota holds back
goes out at once and names the throttle time; the connection is then deaf for so long.
"""

from bisect import bisect_right
from collections import deque
from dataclasses import dataclass, field

from pipeline.simulator.clients.client import SECOND, Settings
from pipeline.simulator.distributions import Steps
from pipeline.simulator.scenario.scenario import SimulatedBroker
from tests.oracles.simulator.batch import Batch
from tests.oracles.simulator.chance import Stream

QUOTA_SAMPLE_COUNT = 11
QUOTA_SAMPLE_NS = SECOND


@dataclass(eq=False)
class Request:
    """A Produce request."""

    batches: list[Batch]  # at most one for each partition
    sent_ns: int  # when the client sent it
    arrived_ns: int  # when it is at the broker
    size_bytes: int  # of its batches
    is_error: bool = False  # it is answered with an error: nothing of it was written
    # its batches that alone were refused: an earlier one of the partition is missing (idempotence)
    refused: list[Batch] = field(default_factory=list)
    throttle_ns: int = 0  # that the response names
    retry_ns: int = 0  # that the broker waits for the transaction before (KIP-890)


def value_at(steps: Steps, time_ns: int) -> int:
    return steps.values[bisect_right(steps.starts_ns, time_ns) - 1]


class Handlers:
    """A broker's request handlers: when each is free again; none at all is no limit."""

    def __init__(self, count: int) -> None:
        self._free_at_ns = [0] * count

    def take(self, now_ns: int, service_ns: int) -> int:
        """Takes the handler that is free first, and returns when the service begins."""
        if not self._free_at_ns:
            return now_ns
        handler = self._free_at_ns.index(min(self._free_at_ns))
        start_ns = max(now_ns, self._free_at_ns[handler])
        self._free_at_ns[handler] = start_ns + service_ns
        return start_ns


class Quota:
    """Kafka's rate of one client over samples of a second each (`Rate`, `SampledStat`)."""

    def __init__(self, bytes_per_s: int) -> None:
        self._bytes_per_s = bytes_per_s
        self._samples: deque[tuple[int, int]] = deque()

    def charge(self, size_bytes: int, now_ns: int) -> int:
        """Counts bytes, and returns the throttle time in nanoseconds."""
        if not self._bytes_per_s:
            return 0
        if not self._samples or now_ns - self._samples[-1][0] >= QUOTA_SAMPLE_NS:
            self._samples.append((now_ns, 0))
        start_ns, sum_bytes = self._samples[-1]
        self._samples[-1] = (start_ns, sum_bytes + size_bytes)
        while now_ns - self._samples[0][0] >= QUOTA_SAMPLE_COUNT * QUOTA_SAMPLE_NS:
            self._samples.popleft()
        # samples that are not there yet count as full seconds without bytes
        elapsed_ns = now_ns - self._samples[0][0]
        missing_count = max(QUOTA_SAMPLE_COUNT - 1 - elapsed_ns // QUOTA_SAMPLE_NS, 0)
        window_ns = elapsed_ns + missing_count * QUOTA_SAMPLE_NS
        total_bytes = sum(sample_bytes for _, sample_bytes in self._samples)
        excess_ns = total_bytes * SECOND // self._bytes_per_s - window_ns
        return max(excess_ns, 0)


class Connection:
    """One producer's connection to one broker."""

    def __init__(self, broker: SimulatedBroker, handlers: Handlers, settings: Settings, seed: int, number: int) -> None:
        self._broker = broker
        self._handlers = handlers
        self._acks = settings.acks
        self._quota = Quota(broker.quota_bytes_per_s)
        self._service = Stream(seed, "service", number)
        self._oversleep = Stream(seed, "oversleep", number)
        self._replica_wait = Stream(seed, "replica wait", number)
        self._error = Stream(seed, "error", number)
        self._queue: deque[Request] = deque()
        self._idle_since_ns = 0
        self._deaf_until_ns = 0

    def submit(self, request: Request) -> int | None:
        """Takes a request from the client; returns when its response arrives, or None if others are before it."""
        self._queue.append(request)
        return self._serve(request.arrived_ns) if len(self._queue) == 1 else None

    def answer(self, now_ns: int) -> tuple[Request, int | None]:
        """The response that arrives now; and when the next one will, or None."""
        request = self._queue.popleft()
        request.throttle_ns = self._quota.charge(request.size_bytes, now_ns)
        self._deaf_until_ns = now_ns + request.throttle_ns
        return request, self._serve(now_ns) if self._queue else None

    def cut(self) -> None:
        """The client closes the connection: what waits in it is lost."""
        self._queue.clear()

    def _serve(self, now_ns: int) -> int:
        request = self._queue[0]
        heard_ns = max(now_ns, request.arrived_ns, self._deaf_until_ns)
        service_ns = self._draw_service_ns(request, heard_ns)
        start_ns = self._handlers.take(heard_ns, service_ns)
        request.is_error = self._fails(start_ns)
        if not request.is_error:
            request.refused = [batch for batch in request.batches if not batch.is_in_sequence]
            for batch in request.batches:
                batch.is_written = batch.is_written or batch not in request.refused
        done_ns = start_ns + service_ns
        self._idle_since_ns = done_ns
        delay_ns = value_at(self._broker.delay_ns, done_ns)
        if delay_ns and request.batches:
            done_ns += delay_ns + self._oversleep.draw(self._broker.oversleep_ns)
        done_ns += request.retry_ns
        if self._acks < 0 and not request.is_error:
            done_ns += self._replica_wait.draw(self._broker.replica_wait_ns)
        return done_ns

    def _draw_service_ns(self, request: Request, now_ns: int) -> int:
        service = self._broker.service
        request_ns = service.request_ns
        for idle_from_ns, idle_request_ns in service.idle:
            if idle_from_ns <= now_ns - self._idle_since_ns:
                request_ns = idle_request_ns
        service_ns = self._service.draw(request_ns)
        service_ns += max(len(request.batches) - 1, 0) * service.partition_ns
        service_ns += request.size_bytes * service.kib_ns // 1024
        if now_ns < service.warm_up_ns:
            excess_percent = (service.warm_up_percent - 100) * (service.warm_up_ns - now_ns) // service.warm_up_ns
            service_ns += service_ns * excess_percent // 100
        return service_ns

    def _fails(self, now_ns: int) -> bool:
        for window in self._broker.errors:
            if window.start_ns <= now_ns < window.end_ns:
                return self._error.draw_chance(window.chance_ppm)
        return False
