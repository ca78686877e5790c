"""A run's memory as kernels pass it on: a pointer, which costs less than an array handed from function to function."""

from __future__ import annotations

from typing import Any

import numba as nb
from numba.core import types

from pipeline.compilation import instruction

Typing = Any  # Numba's typing and code generation contexts, and what they hand out, carry no types of their own


def _point_to(_: Typing, words: Typing) -> tuple[Typing, Typing]:
    """Points to the first word of an array of int64; the array must outlive the pointer, and bounds are not looked at."""

    def generate(context: Typing, builder: Typing, signature: Typing, args: Typing) -> Typing:
        return context.make_array(signature.args[0])(context, builder, args[0]).data

    return nb.types.CPointer(types.int64)(words), generate


point_to: Any = instruction(_point_to)
