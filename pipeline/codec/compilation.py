"""The only place that knows Numba's switches; its decorators keep the types that a type checker sees.

A kernel is compiled when its module is imported, for the signature given, and cached beside the module
(`NUMBA_CACHE_DIR` moves the cache, where the installation is read-only). Signatures take read-only arrays: buffers from a
memory map or from Arrow are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba as nb
from numba.core import types
from numba.extending import intrinsic

Function = TypeVar("Function", bound=Callable[..., Any])
Typing = Any  # Numba's typing and code generation contexts, and what they hand out, carry no types of their own
Signature = Any
Value = Any  # of LLVM
Generator = Callable[[Typing, Typing, Typing, Typing], Value]  # context, builder, signature, arguments

READ_ONLY_BYTES = types.Array(types.uint8, 1, "C", readonly=True)


def kernel(signature: object) -> Callable[[Function], Function]:
    """Compiles a function called from Python, which runs without the interpreter lock."""
    return cast("Callable[[Function], Function]", nb.njit(signature, cache=True, nogil=True))


def part(function: Function) -> Function:
    """Compiles a function that kernels call."""
    return cast("Function", nb.njit(function, cache=True))


def inlined(function: Function) -> Function:
    """Marks a function to be put into the kernels that call it."""
    return cast("Function", nb.njit(function, inline="always"))


def instruction(function: Callable[..., Any]) -> Callable[..., Any]:
    """Makes a function that generates machine instructions callable from kernels; see `numba.extending.intrinsic`."""
    return cast("Callable[..., Any]", intrinsic(function))
