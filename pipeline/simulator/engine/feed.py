"""Recorded arrivals on their way into a run's memory, block by block: a recording may be far larger than a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pipeline.simulator.engine import layout as at

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pipeline.simulator.engine.run_memory import RunMemory
    from pipeline.simulator.scenario.traffic import Recorded

FED_RECORD_COUNT = 1 << 16
"""Records of a block: 2 MiB."""
ALL_FED = 1 << 62
"""More than any thread sends: nothing is left to be fed."""


class Feed:
    """The recorded arrivals of one thread, of which a block at a time lies in memory.

    Args:
        memory: The run's; the words for a block are taken.
        thread: Index of the thread's first word.
        recorded: What it sends.
        states: For each target, the index of its topic's partitioner.
    """

    def __init__(self, memory: RunMemory, thread: int, recorded: Recorded, states: Sequence[int]) -> None:
        self._thread, self._recorded = thread, recorded
        self._states = np.array(states, np.int64)
        self._record_count = min(memory.fed_record_count, len(recorded.due_ns))
        self._block = memory.take(self._record_count * at.RECORDED_WORDS)
        self.fill(memory)

    def fill(self, memory: RunMemory) -> None:
        """Puts the record that is due and those after it into memory."""
        words, thread, recorded = memory.words, self._thread, self._recorded
        first = int(words[thread + at.THREAD_TICKS])
        records = slice(first, first + self._record_count)
        due_ns = recorded.due_ns[records]
        rows = words[self._block : self._block + len(due_ns) * at.RECORDED_WORDS].reshape(-1, at.RECORDED_WORDS)
        rows[:, at.RECORDED_DUE] = due_ns
        rows[:, at.RECORDED_BODY_BYTES] = recorded.body_bytes[records]
        rows[:, at.RECORDED_PARTITION] = recorded.partition[records]
        rows[:, at.RECORDED_STATE] = self._states[recorded.target[records]]
        # where the first of all would lie
        words[thread + at.THREAD_RECORDED] = self._block - first * at.RECORDED_WORDS
        is_last = first + len(due_ns) >= len(recorded.due_ns)
        words[thread + at.THREAD_FED_COUNT] = ALL_FED if is_last else first + len(due_ns)


def feed_threads(memory: RunMemory) -> None:
    """Feeds every thread with recorded arrivals."""
    for feed in memory.feeds:
        feed.fill(memory)
