"""Clocks for kernels: a tree whose every node holds the earliest time below it, so the next event is at the root.

The tree lies in the run's memory from word `tree` on: word 0 is how many leaves it has, a power of two; word 1 is the
root; the two below word n are 2n and 2n + 1; clock c is word leaves + c. A clock without a time shows `NEVER`.
"""

from __future__ import annotations

from typing import Any

from pipeline.compilation import part

Array = Any  # inside a kernel, an array's items are Numba's numbers

NEVER = 1 << 62


@part
def set_clock(memory: Array, tree: int, clock: int, time_ns: int) -> None:
    """Sets a clock to a time, or to `NEVER`."""
    node = memory[tree] + clock
    memory[tree + node] = time_ns
    while node > 1:
        earliest_ns = min(memory[tree + node], memory[tree + (node ^ 1)])
        node >>= 1
        if memory[tree + node] == earliest_ns:
            return
        memory[tree + node] = earliest_ns


@part
def read_clock(memory: Array, tree: int, clock: int) -> int:
    """What a clock shows."""
    return memory[tree + memory[tree] + clock]


@part
def find_earliest(memory: Array, tree: int) -> int:
    """The clock with the earliest time; of several, that of the lowest number."""
    leaf_count = memory[tree]
    time_ns = memory[tree + 1]
    node = 1
    while node < leaf_count:
        node <<= 1
        if memory[tree + node] != time_ns:
            node += 1
    return node - leaf_count
