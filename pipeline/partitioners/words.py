"""Machine instructions that Numba has no word for: loads from addresses, aligned or not.

Addresses are uint64. An array handed from function to function costs more than hashing a short key, and four bytes
loaded one by one cost eleven instructions. A kernel that uses these checks its bounds itself.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

Typing = Any  # Numba's typing and code generation contexts, and what they hand out, carry no types of their own


def _address_of(_: Typing, data: Typing) -> tuple[Typing, Typing]:
    """Returns the address of an array's first byte; `data.ctypes.data` would keep Numba from caching the kernel."""

    def generate(context: Typing, builder: Typing, signature: Typing, args: Typing) -> Typing:
        array = context.make_array(signature.args[0])(context, builder, args[0])
        return builder.ptrtoint(array.data, ir.IntType(64))

    return types.uint64(data), generate


def _load_word(_: Typing, address: Typing) -> tuple[Typing, Typing]:
    """Loads 4 bytes, little-endian, from any address, as uint32."""

    def generate(_: Typing, builder: Typing, __: Typing, args: Typing) -> Typing:
        return builder.load(builder.inttoptr(args[0], ir.IntType(32).as_pointer()), align=1)

    return types.uint32(types.uint64), generate


def _load_byte(_: Typing, address: Typing) -> tuple[Typing, Typing]:
    """Loads a byte as uint32."""

    def generate(_: Typing, builder: Typing, __: Typing, args: Typing) -> Typing:
        byte = builder.load(builder.inttoptr(args[0], ir.IntType(8).as_pointer()))
        return builder.zext(byte, ir.IntType(32))

    return types.uint32(types.uint64), generate


address_of: Any = intrinsic(_address_of)
load_word: Any = intrinsic(_load_word)
load_byte: Any = intrinsic(_load_byte)
