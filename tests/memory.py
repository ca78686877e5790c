"""Memory that a test's call takes at most, as Python counts it."""

import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def tracing_memory() -> Iterator[Callable[[], int]]:
    """Yields what tells the most bytes that were in use since."""
    tracemalloc.start()
    try:
        yield lambda: tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
