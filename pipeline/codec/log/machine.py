"""Machine instructions that Numba has no word for: unaligned loads of either byte order, prefetching, addresses.

Addresses are uint64. A kernel that uses them checks its bounds itself.
"""

from __future__ import annotations

from llvmlite import ir
from numba.core import cgutils, types

from pipeline.compilation import Generator, Signature, Typing, Value, instruction


@instruction
def load_word(_: Typing, address: Typing) -> tuple[Signature, Generator]:
    """Loads 8 bytes, little-endian, from any address."""

    def generate(_: Typing, builder: Typing, __: Typing, args: Typing) -> Value:
        pointer = builder.inttoptr(args[0], ir.IntType(64).as_pointer())
        return builder.load(pointer, align=1)

    return types.uint64(types.uint64), generate


@instruction
def load_big_word(_: Typing, address: Typing) -> tuple[Signature, Generator]:
    """Loads 8 bytes, big-endian, from any address."""

    def generate(_: Typing, builder: Typing, __: Typing, args: Typing) -> Value:
        pointer = builder.inttoptr(args[0], ir.IntType(64).as_pointer())
        return builder.bswap(builder.load(pointer, align=1))

    return types.uint64(types.uint64), generate


@instruction
def load_byte(_: Typing, address: Typing) -> tuple[Signature, Generator]:
    """Loads a byte as uint64; an index into an array would cost a test for negative numbers."""

    def generate(_: Typing, builder: Typing, __: Typing, args: Typing) -> Value:
        pointer = builder.inttoptr(args[0], ir.IntType(8).as_pointer())
        return builder.zext(builder.load(pointer), ir.IntType(64))

    return types.uint64(types.uint64), generate


@instruction
def prefetch(_: Typing, address: Typing) -> tuple[Signature, Generator]:
    """Asks the CPU to bring a cache line near; any address will do, it need not be valid."""

    def generate(context: Typing, builder: Typing, _: Typing, args: Typing) -> Value:
        narrow = ir.IntType(32)
        pointer = builder.inttoptr(args[0], ir.IntType(8).as_pointer())
        function_type = ir.FunctionType(ir.VoidType(), [pointer.type, narrow, narrow, narrow])
        function = cgutils.get_or_insert_function(builder.module, function_type, "llvm.prefetch.p0")
        builder.call(function, [pointer, narrow(0), narrow(3), narrow(1)])  # for reading, all cache levels, data
        return context.get_dummy_value()

    return types.void(types.uint64), generate


@instruction
def address_of(_: Typing, data: Typing) -> tuple[Signature, Generator]:
    """Returns the address of an array's first byte; `data.ctypes.data` would keep Numba from caching the kernel."""

    def generate(context: Typing, builder: Typing, signature: Typing, args: Typing) -> Value:
        array = context.make_array(signature.args[0])(context, builder, args[0])
        return builder.ptrtoint(array.data, ir.IntType(64))

    return types.uint64(data), generate
