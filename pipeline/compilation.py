"""The only place that knows Numba's switches; its decorators keep the types that a type checker sees.

A kernel is compiled when its module is imported, for the signatures given, and cached beside the module
(`NUMBA_CACHE_DIR` moves the cache, where the installation is read-only). Signatures take read-only arrays: buffers from a
memory map or from Arrow are.

Numba compiles again when a kernel's own file changes, but not when a function it calls or a constant it uses does, in
another file: machine code of yesterday would go on running. So the name under which a kernel is cached holds a
fingerprint of all the sources that can go into one: those that `SOURCES` lists for the room the kernel is in.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba as nb
from numba.core import types
from numba.extending import intrinsic

Function = TypeVar("Function", bound=Callable[..., Any])
Typing = Any  # Numba's typing and code generation contexts, and what they hand out, carry no types of their own
Value = Any  # of LLVM
Generator = Callable[[Typing, Typing, Typing, Typing], Value]  # context, builder, signature, arguments

_PIPELINE = Path(__file__).parent
_PARTITIONERS = ("partitioners/*_kernels.py", "partitioners/hashes.py")

SOURCES = {
    "calibration": ("calibration/*_kernels.py",),
    "codec": (
        "codec/*/*_kernels.py",
        "codec/log/scans.py",
        "codec/records/record_scan.py",
    ),
    "partitioners": _PARTITIONERS,
    "replay": ("replay/*_kernels.py", *_PARTITIONERS),
    "simulator": (
        "simulator/engine/*_kernels.py",
        "simulator/engine/layout.py",
        "simulator/engine/compression_estimate.py",
        "simulator/engine/latency_histogram.py",
        "simulator/engine/random_stream.py",
        "simulator/engine/record_size.py",
        *_PARTITIONERS,
    ),
}
"""By room: the files, as patterns, whose text can end in its kernels' machine code; this one is always among them."""

READ_ONLY_BYTES = types.Array(types.uint8, 1, "C", readonly=True)


def list_sources(room: str) -> tuple[Path, ...]:
    """The files that a room's kernels are made of."""
    found = {path for pattern in SOURCES[room] for path in _PIPELINE.glob(pattern)}
    return (Path(__file__), *sorted(found))


@functools.cache
def fingerprint_sources(room: str) -> str:
    """Returns eight hex digits that change with any source a kernel of the room is made of."""
    digest = hashlib.sha256()
    for path in list_sources(room):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:8]


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


def instruction(function: Callable[..., Any]) -> Callable[..., Any]:
    """Makes a function that generates machine instructions callable from kernels; see `numba.extending.intrinsic`."""
    return cast("Callable[..., Any]", intrinsic(function))


def _rename(function: Function) -> Function:
    room = function.__module__.split(".")[1]
    # Numba names its cache files after it
    function.__qualname__ = f"{function.__qualname__}_{fingerprint_sources(room)}"
    return function
