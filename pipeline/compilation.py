"""The only place that knows Numba's switches and types; its decorators keep the types that a type checker sees.

A kernel is compiled when its module is imported, for the signatures given, and cached beside the module
(`NUMBA_CACHE_DIR` moves the cache, where the installation is read-only). Signatures take read-only arrays: buffers from
a memory map or from Arrow are.

Numba compiles again when a kernel's own file changes, but not when a function it calls or a constant it uses does, in
another file: machine code of yesterday would go on running. So the name under which a kernel is cached holds a
fingerprint of its module, of the modules of this package it imports, and of those they import.

A record class, with annotations, is a NumPy layout, a Numba type, and what a type checker knows of a kernel's objects.
A kernel never sees an instance of it: an item of a structured array has the same attributes, as a view.
"""

import functools
import hashlib
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Annotated, Any, Protocol, TypeVar, cast, get_args, get_origin, get_type_hints

import numba as nb
import numpy as np
from numba.core import types
from numba.extending import register_jitable
from numpy.typing import NDArray

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


def compile_module(name: str) -> None:
    """Compiles all functions of a module as `njit` does, but those that another decorator has compiled; called at its end."""
    members = vars(sys.modules[name])
    own = [member for member in members.values() if isinstance(member, FunctionType) and member.__module__ == name]
    members.update({function.__name__: njit(function) for function in own})


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


NumbaType = Any
Item = TypeVar("Item")
_SCALARS = {int: np.int64, bool: np.bool_, np.float32: np.float32, np.uint64: np.uint64}


class Items(Protocol[Item]):
    """An array of records or of whole numbers, as kernels use it."""

    def __len__(self) -> int: ...
    def __getitem__(self, number: int) -> Item: ...
    def __setitem__(self, number: int, item: Item) -> None: ...


@functools.cache
def layout_of(record: type) -> np.dtype[Any]:
    """The layout of a record class: what its hints name of `_SCALARS`, record classes, `Annotated` items with a length."""
    if record in _SCALARS:
        return np.dtype(_SCALARS[record])
    fields: list[Any] = [
        (name, np.int64, get_args(hint)[1]) if get_origin(hint) is Annotated else (name, layout_of(hint))
        for name, hint in get_type_hints(record, include_extras=True).items()
        if get_origin(hint) is Annotated or hint in _SCALARS or hasattr(hint, "__annotations__")
    ]
    return np.dtype(fields, align=True)


def type_of(arrays: type) -> NumbaType:
    """Returns the Numba type of a `NamedTuple` of record classes, `Items` of them or of `int`, or with two dimensions an `NDArray`."""
    members = []
    for hint in get_type_hints(arrays).values():
        if get_origin(hint) is np.ndarray:
            members.append(nb.types.Array(nb.types.int64, 2, "C"))
        elif get_origin(hint) is Items:
            members.append(nb.types.Array(nb.from_dtype(layout_of(get_args(hint)[0])), 1, "C"))
        else:
            members.append(nb.from_dtype(layout_of(hint)))
    whole: NumbaType = nb.types.NamedTuple(members, arrays)
    whole.name = arrays.__name__  # it is part of the name of every function compiled for it
    return whole


def make_items(record: type, count: int) -> NDArray[Any]:
    return np.zeros(count, layout_of(record))
