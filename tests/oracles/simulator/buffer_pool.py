"""`buffer.memory`: who gets some, and who waits (`BufferPool`)."""

from collections import deque


class BufferPool:
    """Memory of one producer. Who waits first gets first; nobody overtakes."""

    def __init__(self, total_bytes: int) -> None:
        self.total_bytes = total_bytes
        self.free_bytes = total_bytes
        self._waiters: deque[tuple[int, int]] = deque()

    @property
    def is_exhausted(self) -> bool:
        """Somebody waits; all partitions count as sendable then."""
        return bool(self._waiters)

    def allocate(self, size_bytes: int) -> bool:
        """Takes memory if there is enough and no thread waits."""
        if self._waiters or self.free_bytes < size_bytes:
            return False
        self.free_bytes -= size_bytes
        return True

    def wait(self, thread: int, size_bytes: int) -> None:
        """A thread queues up."""
        self._waiters.append((thread, size_bytes))

    def give_up(self, thread: int) -> list[int]:
        """A thread waits no more; returns the threads that go on in its stead."""
        self._waiters = deque(waiter for waiter in self._waiters if waiter[0] != thread)
        return self._serve()

    def release(self, size_bytes: int) -> list[int]:
        """Gives memory back; returns the threads that got theirs."""
        self.free_bytes += size_bytes
        return self._serve()

    def _serve(self) -> list[int]:
        served = []
        while self._waiters and self._waiters[0][1] <= self.free_bytes:
            thread, size_bytes = self._waiters.popleft()
            self.free_bytes -= size_bytes
            served.append(thread)
        return served
