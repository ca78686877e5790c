"""The only place that knows Numba's switches; a kernel is cached under a fingerprint of all modules it is made of, not of its own."""

import functools
import hashlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba as nb
from numba.core import types
from numba.extending import register_jitable

Function = TypeVar("Function", bound=Callable[..., Any])

_ROOT = Path(__file__).parent.parent
_IMPORT = re.compile(r"^from (pipeline[\w.]*) import (\([^)]*\)|.*)", re.MULTILINE)

_INLINED = {
    "forceinline": True,
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
    "error_model": "numpy",
    "_nrt": False,
}

READ_ONLY_BYTES = types.Array(types.uint8, 1, "C", readonly=True)


@functools.cache
def list_imports(source: Path) -> frozenset[Path]:
    paths = set()
    for module, names in _IMPORT.findall(source.read_text()):
        target = _ROOT.joinpath(*module.split("."))
        paths |= {target.with_suffix(".py"), *(target / f"{name}.py" for name in re.findall(r"\w+", names))}
    return frozenset(path for path in paths if path.is_file())


def list_sources(source: Path) -> frozenset[Path]:
    sources, ahead = {Path(__file__)}, {source}
    while ahead:
        sources |= ahead
        ahead = {path for one in ahead for path in list_imports(one)} - sources
    return frozenset(sources)


@functools.cache
def fingerprint_sources(source: Path) -> str:
    """Returns eight hex digits that change with any file that kernels of this one are made of."""
    digest = hashlib.sha256()
    for path in sorted(list_sources(source)):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:8]


def kernel(signatures: object, *, allocates: bool = True) -> Callable[[Function], Function]:
    """Compiles a function called from Python, without the interpreter lock; one that makes no arrays counts no references: 20 times faster."""

    def compile_function(function: Function) -> Function:
        source = Path(function.__code__.co_filename)
        # Numba names its cache files after it
        function.__qualname__ = f"{function.__qualname__}_{fingerprint_sources(source)}"
        switches = {"cache": True, "nogil": True, "error_model": "numpy", "_nrt": allocates}
        return cast("Function", nb.njit(signatures, **switches)(function))

    return compile_function


def njit(function: Function) -> Function:
    """Compiles a function that kernels call, which LLVM inlines; it may change arrays, but neither make nor return any."""
    return cast("Function", nb.njit(function, **_INLINED))


def outlined(function: Function) -> Function:
    """Compiles a function that kernels call, but seldom: its machine code is made once, and not put into each of them."""
    return cast("Function", nb.njit(function, **{**_INLINED, "forceinline": False}))


def portable(function: Function) -> Function:
    """Makes a Python function callable from kernels, too, as `njit` does."""
    return cast("Function", register_jitable(**_INLINED)(function))


def part(function: Function) -> Function:
    """Compiles a function that kernels call."""
    source = Path(function.__code__.co_filename)
    function.__qualname__ = f"{function.__qualname__}_{fingerprint_sources(source)}"
    return cast("Function", nb.njit(function, cache=True))


def inlined(function: Function) -> Function:
    """Marks a function to be put into the kernels that call it."""
    return cast("Function", nb.njit(function, inline="always"))
