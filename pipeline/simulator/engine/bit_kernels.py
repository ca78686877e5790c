"""Marks for kernels: a bit for each lane or broker of a producer, so that a turn looks only at those that matter."""

from __future__ import annotations

from typing import Any

import numba as nb
from llvmlite import ir
from numba.core import types

from pipeline.compilation import instruction, part

Array = Any  # inside a kernel, an array's items are Numba's numbers
Typing = Any  # Numba's typing and code generation contexts, and what they hand out, carry no types of their own

_SHIFT, _MASK = 5, 31
WORD_BITS = 1 << _SHIFT
"""Marks in a word: half of it, so that no sign gets in the way."""


def _trailing_zeros(_: Typing, value: Typing) -> tuple[Typing, Typing]:
    """Counts the zero bits below an int64's lowest one; 64 for 0."""

    def generate(_: Typing, builder: Typing, __: Typing, args: Typing) -> Typing:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.int64), generate


count_trailing_zeros: Any = instruction(_trailing_zeros)


@part
def set_mark(memory: Array, marks: int, number: int) -> None:
    """Sets a number's mark."""
    memory[marks + (number >> _SHIFT)] |= nb.int64(1) << (number & _MASK)


@part
def clear_mark(memory: Array, marks: int, number: int) -> None:
    """Takes a number's mark away."""
    memory[marks + (number >> _SHIFT)] &= ~(nb.int64(1) << (number & _MASK))


@part
def find_mark(memory: Array, marks: int, word_count: int, number: int) -> int:
    """The first number with a mark, from one on; -1 if there is none."""
    word = number >> _SHIFT
    if word >= word_count:
        return -1
    rest = memory[marks + word] >> (number & _MASK)
    if rest:
        return number + count_trailing_zeros(rest)
    for later in range(word + 1, word_count):
        if memory[marks + later]:
            return later * WORD_BITS + count_trailing_zeros(memory[marks + later])
    return -1
