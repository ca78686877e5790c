"""Checksum kernels over many batches: the CPU's CRC-32C instruction where there is one, lookup tables elsewhere.

Three parts of a buffer go through the instruction side by side, because it takes three cycles and one can start every
cycle; the three checksums are then combined by tables.

References:
    V. Gopal et al., *Fast CRC Computation for iSCSI Polynomial Using CRC32 Instruction*, Intel 2011.
"""

from __future__ import annotations

import platform
from typing import Any

import llvmlite.binding as llvm
import numba as nb
from llvmlite import ir
from numba.core import cgutils, config, types

from pipeline.codec.log.crc import CRC32_POLYNOMIAL, CRC32C_POLYNOMIAL, shift_tables, slicing_tables
from pipeline.codec.log.machine import address_of, load_word, prefetch
from pipeline.compilation import Generator, Signature, Typing, Value, instruction, part

LONG_BLOCK_BYTES = 4096
SHORT_BLOCK_BYTES = 256
_CACHE_LINE_BYTES = 64
_INVERT = 0xFFFFFFFF
_CRC32C_TABLES = slicing_tables(CRC32C_POLYNOMIAL)
_CRC32_TABLES = slicing_tables(CRC32_POLYNOMIAL)
_LONG_SHIFT = shift_tables(CRC32C_POLYNOMIAL, LONG_BLOCK_BYTES)
_SHORT_SHIFT = shift_tables(CRC32C_POLYNOMIAL, SHORT_BLOCK_BYTES)

Array = Any  # inside a kernel, an array's items are Numba's numbers


def has_crc32c_instruction() -> bool:
    """Tells whether the code Numba makes for this machine may use a CRC-32C instruction."""
    if config.CPU_NAME is not None or config.CPU_FEATURES is not None:
        return False  # NUMBA_CPU_NAME=generic and the like: code for another machine
    feature = {"x86_64": "sse4.2", "amd64": "sse4.2", "aarch64": "crc", "arm64": "crc"}.get(platform.machine().lower())
    return feature is not None and bool(llvm.get_host_cpu_features().get(feature, False))


@instruction
def _crc_word(_: Typing, state: Typing, word: Typing) -> tuple[Signature, Generator]:
    """Feeds 8 bytes into a CRC-32C by the CPU's instruction."""

    def generate(_: Typing, builder: Typing, __: Typing, args: Typing) -> Value:
        wide, narrow = ir.IntType(64), ir.IntType(32)
        if platform.machine().lower() in {"aarch64", "arm64"}:
            function_type = ir.FunctionType(narrow, [narrow, wide])
            function = cgutils.get_or_insert_function(builder.module, function_type, "llvm.aarch64.crc32cx")
            return builder.zext(builder.call(function, [builder.trunc(args[0], narrow), args[1]]), wide)
        function_type = ir.FunctionType(wide, [wide, wide])
        function = cgutils.get_or_insert_function(builder.module, function_type, "llvm.x86.sse42.crc32.64.64")
        return builder.call(function, args)

    return types.uint64(types.uint64, types.uint64), generate


@part
def _shift(tables: Array, state: int) -> int:
    state = nb.uint32(state)
    low = tables[0, state & 0xFF] ^ tables[1, (state >> 8) & 0xFF]
    return nb.uint64(low ^ tables[2, (state >> 16) & 0xFF] ^ tables[3, state >> 24])


@part
def _crc_three_blocks(state: int, address: int, block_bytes: int, shift_table: Array) -> int:
    second, third = nb.uint64(0), nb.uint64(0)
    block = nb.uint64(block_bytes)
    for line in range(0, block_bytes, _CACHE_LINE_BYTES):
        first = address + nb.uint64(line)
        # The next three blocks: the CPU does not see by itself that there are three streams (a third of the time).
        for stream in range(3, 6):
            prefetch(first + nb.uint64(stream) * block)
        for word in range(0, _CACHE_LINE_BYTES, 8):
            at = first + nb.uint64(word)
            state = _crc_word(state, load_word(at))
            second = _crc_word(second, load_word(at + block))
            third = _crc_word(third, load_word(at + nb.uint64(2) * block))
    state = _shift(shift_table, state) ^ second
    return _shift(shift_table, state) ^ third


@part
def crc32c_by_instruction(data: Array, start: int, end: int) -> int:
    """CRC-32C of `data[start:end]`; only where `has_crc32c_instruction()`."""
    address = address_of(data) + nb.uint64(start)
    left = end - start
    state = nb.uint64(_INVERT)
    while left >= 3 * LONG_BLOCK_BYTES:
        state = _crc_three_blocks(state, address, LONG_BLOCK_BYTES, _LONG_SHIFT)
        address += nb.uint64(3 * LONG_BLOCK_BYTES)
        left -= 3 * LONG_BLOCK_BYTES
    while left >= 3 * SHORT_BLOCK_BYTES:
        state = _crc_three_blocks(state, address, SHORT_BLOCK_BYTES, _SHORT_SHIFT)
        address += nb.uint64(3 * SHORT_BLOCK_BYTES)
        left -= 3 * SHORT_BLOCK_BYTES
    while left >= 8:
        state = _crc_word(state, load_word(address))
        address += nb.uint64(8)
        left -= 8
    narrow = nb.uint32(state)
    for index in range(end - left, end):
        narrow = (narrow >> nb.uint32(8)) ^ _CRC32C_TABLES[0, (narrow ^ data[index]) & 0xFF]
    return narrow ^ nb.uint32(_INVERT)


@part
def _crc_by_tables(tables: Array, data: Array, start: int, end: int) -> int:
    state = nb.uint32(_INVERT)
    index = start
    while index + 8 <= end:
        low = state ^ (
            nb.uint32(data[index])
            | nb.uint32(data[index + 1]) << 8
            | nb.uint32(data[index + 2]) << 16
            | nb.uint32(data[index + 3]) << 24
        )
        state = (
            tables[7, low & 0xFF]
            ^ tables[6, (low >> 8) & 0xFF]
            ^ tables[5, (low >> 16) & 0xFF]
            ^ tables[4, (low >> 24) & 0xFF]
            ^ tables[3, data[index + 4]]
            ^ tables[2, data[index + 5]]
            ^ tables[1, data[index + 6]]
            ^ tables[0, data[index + 7]]
        )
        index += 8
    for last in range(index, end):
        state = nb.uint32(state >> nb.uint32(8)) ^ tables[0, (state ^ data[last]) & 0xFF]
    return nb.uint32(state) ^ nb.uint32(_INVERT)


@part
def crc32c_by_tables(data: Array, start: int, end: int) -> int:
    """CRC-32C of `data[start:end]` by slicing-by-8."""
    return _crc_by_tables(_CRC32C_TABLES, data, start, end)


@part
def crc32_by_tables(data: Array, start: int, end: int) -> int:
    """CRC-32 (IEEE) of `data[start:end]` by slicing-by-8."""
    return _crc_by_tables(_CRC32_TABLES, data, start, end)


crc32c_kernel = crc32c_by_instruction if has_crc32c_instruction() else crc32c_by_tables
