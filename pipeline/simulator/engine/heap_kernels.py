"""Objects from the heap of a run's memory: batches, blocks and requests come from it and go back to lists of free ones."""

from __future__ import annotations

from typing import Any

from pipeline.compilation import part
from pipeline.simulator.engine import layout as at

Array = Any  # inside a kernel, an array's items are Numba's numbers


@part
def take_object(memory: Array, free: int, word_count: int) -> int:
    """A free object, or a new one; its words are what they were.

    The first word of a free object is the next free one.

    Args:
        memory: The run's.
        free: Which list.
        word_count: Of such an object.
    """
    taken = memory[free]
    if taken == at.NONE:
        taken = memory[at.HEAP]
        memory[at.HEAP] = taken + word_count
    else:
        memory[free] = memory[taken]
    return taken
