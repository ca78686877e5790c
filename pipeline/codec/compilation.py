"""The only place that knows Numba's switches; its decorators keep the types that a type checker sees.

A kernel is compiled when its module is imported, for the signature given, and cached beside the module
(`NUMBA_CACHE_DIR` moves the cache, where the installation is read-only). Signatures take read-only arrays: buffers from a
memory map or from Arrow are.

Numba compiles again when a kernel's own file changes, but not when a function it calls or a constant it uses does, in
another file: machine code of yesterday would go on running. So the name under which a kernel is cached holds a
fingerprint of all the sources that can go into one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba as nb
from numba.core import types
from numba.extending import intrinsic

Function = TypeVar("Function", bound=Callable[..., Any])
Typing = Any  # Numba's typing and code generation contexts, and what they hand out, carry no types of their own
Signature = Any
Value = Any  # of LLVM
Generator = Callable[[Typing, Typing, Typing, Typing], Value]  # context, builder, signature, arguments

SOURCES = ("*_kernels.py", "compilation.py", "compression.py", "crc.py", "header_walk.py", "machine.py", "scans.py")

READ_ONLY_BYTES = types.Array(types.uint8, 1, "C", readonly=True)


def fingerprint_sources() -> str:
    """Returns eight hex digits that change with any source a kernel is made of."""
    digest = hashlib.sha256()
    for pattern in SOURCES:
        for path in sorted(Path(__file__).parent.glob(pattern)):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:8]


_FINGERPRINT = fingerprint_sources()


def kernel(signature: object) -> Callable[[Function], Function]:
    """Compiles a function called from Python, which runs without the interpreter lock."""

    def compile_function(function: Function) -> Function:
        return cast("Function", nb.njit(signature, cache=True, nogil=True)(_rename(function)))

    return compile_function


def part(function: Function) -> Function:
    """Compiles a function that kernels call."""
    return cast("Function", nb.njit(_rename(function), cache=True))


def _rename(function: Function) -> Function:
    function.__qualname__ = f"{function.__qualname__}_{_FINGERPRINT}"  # Numba names its cache files after it
    return function


def inlined(function: Function) -> Function:
    """Marks a function to be put into the kernels that call it."""
    return cast("Function", nb.njit(function, inline="always"))


def instruction(function: Callable[..., Any]) -> Callable[..., Any]:
    """Makes a function that generates machine instructions callable from kernels; see `numba.extending.intrinsic`."""
    return cast("Callable[..., Any]", intrinsic(function))
