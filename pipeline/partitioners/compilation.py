"""Numba's switches for this room; its decorators keep the types that a type checker sees.

A kernel is compiled when its module is imported, for the signature given, and cached beside the module
(`NUMBA_CACHE_DIR` moves the cache). Signatures take read-only arrays: Arrow's buffers are.

Numba compiles again when a kernel's own file changes, but not when a function it calls or a constant it uses does, in
another file. So the name under which a kernel is cached holds a fingerprint of all the sources that can go into one;
`pipeline.codec.compilation` does the same for its room, which this one does not see.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba as nb
from numba.core import types

Function = TypeVar("Function", bound=Callable[..., Any])

SOURCES = ("*_kernels.py", "compilation.py", "hashes.py", "words.py")

READ_ONLY_BYTES = types.Array(types.uint8, 1, "C", readonly=True)
READ_ONLY_MASK = types.Array(types.boolean, 1, "C", readonly=True)


def fingerprint_sources() -> str:
    """Returns eight hex digits that change with any source a kernel is made of."""
    digest = hashlib.sha256()
    for pattern in SOURCES:
        for path in sorted(Path(__file__).parent.glob(pattern)):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:8]


_FINGERPRINT = fingerprint_sources()


def kernel(signatures: object) -> Callable[[Function], Function]:
    """Compiles a function called from Python, which runs without the interpreter lock."""

    def compile_function(function: Function) -> Function:
        return cast("Function", nb.njit(signatures, cache=True, nogil=True)(_rename(function)))

    return compile_function


def part(function: Function) -> Function:
    """Compiles a function that kernels call."""
    return cast("Function", nb.njit(_rename(function), cache=True))


def inlined(function: Function) -> Function:
    """Marks a function to be put into the kernels that call it."""
    return cast("Function", nb.njit(function, inline="always"))


def _rename(function: Function) -> Function:
    function.__qualname__ = f"{function.__qualname__}_{_FINGERPRINT}"  # Numba names its cache files after it
    return function
