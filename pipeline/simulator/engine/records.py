"""Record classes: one annotated class is a NumPy layout, a Numba type, and what a type checker knows of a kernel's objects.

A kernel never sees an instance of such a class: an item of a structured array has the same attributes, as a view.
"""

import functools
from typing import Annotated, Any, Protocol, TypeVar, get_args, get_origin, get_type_hints

import numba as nb
import numpy as np
from numpy.typing import NDArray

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
    """The layout of a record class with hints from `_SCALARS`, record classes, or `Annotated` items with a length."""
    if record in _SCALARS:
        return np.dtype(_SCALARS[record])
    fields: list[Any] = [
        (name, np.int64, get_args(hint)[1]) if get_origin(hint) is Annotated else (name, layout_of(hint))
        for name, hint in get_type_hints(record, include_extras=True).items()
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
