"""Mask and remainder over columns of hashes in one pass, as a Numba kernel; `masks` is the reference."""

from __future__ import annotations

from typing import Any

import numba as nb
from numba.core import types

from pipeline.compilation import kernel

Array = Any  # inside a kernel, an array's items are Numba's numbers

SIGN_BIT, NOTHING, MAGNITUDE, MAGNITUDE_OR_ZERO = range(4)
"""The masks, as numbers."""

_HASHES = types.Array(types.uint32, 1, "C", readonly=True)
_PARTITIONS = types.Array(types.int32, 1, "C")


@kernel(types.void(_HASHES, types.int64, types.int64, _PARTITIONS))
def take_modulos(hashes: Array, mask: int, partition_count: int, partitions: Array) -> None:
    """Masks hashes and writes their remainders.

    A division takes longer than a short key's hash; the quotient by the reciprocal is off by one at most, because
    hashes are exact in a double, and several go side by side.

    Args:
        hashes: Unsigned values.
        mask: By its number.
        partition_count: 1 or more.
        partitions: Takes the remainders.
    """
    reciprocal = 1.0 / partition_count
    for row in range(len(hashes)):
        value = nb.int64(hashes[row])
        if mask == SIGN_BIT:
            value &= 0x7FFFFFFF
        elif mask != NOTHING:
            value = abs(nb.int64(nb.int32(hashes[row])))
            if mask == MAGNITUDE_OR_ZERO:
                value &= 0x7FFFFFFF
        rest = value - nb.int64(nb.float64(value) * reciprocal) * partition_count
        if rest < 0:
            rest += partition_count
        elif rest >= partition_count:
            rest -= partition_count
        partitions[row] = rest
