"""Checksums; oracles: RFC 3720 B.4, zlib, google-crc32c. The kernels for machines without the instruction run here too."""

from __future__ import annotations

import random

import numpy as np
import pytest

from pipeline.codec.log import crc_kernels
from pipeline.codec.log.crc import CRC32C_POLYNOMIAL, crc32, crc32c, shift_tables

RFC_3720 = [
    (bytes(32), 0x8A9136AA),
    (b"\xff" * 32, 0x62A8AB43),
    (bytes(range(32)), 0x46DD794E),
    (bytes(range(31, -1, -1)), 0x113FDB5C),
]
LENGTHS = [0, 1, 7, 8, 9, 61, 255, 767, 768, 769, 1536, 4099, 12287, 12288, 12289, 30_000]
BYTES = random.Random(1).randbytes(40_000)


@pytest.mark.parametrize(("data", "crc"), RFC_3720)
def test_published_vectors(data, crc):
    array = np.frombuffer(data, np.uint8)
    assert crc32c(data) == crc
    assert crc_kernels.crc32c_by_tables(array, 0, len(data)) == crc
    assert crc_kernels.crc32c_kernel(array, 0, len(data)) == crc


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("start", [0, 3])
def test_kernels_agree_with_libraries_at_every_block_edge(start, length):
    array, part = np.frombuffer(BYTES, np.uint8), BYTES[start : start + length]
    assert crc_kernels.crc32c_kernel(array, start, start + length) == crc32c(part)
    assert crc_kernels.crc32c_by_tables(array, start, start + length) == crc32c(part)
    assert crc_kernels.crc32_by_tables(array, start, start + length) == crc32(part)


def test_this_machine_uses_its_instruction():
    chosen = crc_kernels.crc32c_by_instruction if crc_kernels.has_crc32c_instruction() else crc_kernels.crc32c_by_tables
    assert crc_kernels.crc32c_kernel is chosen


def test_shift_tables_append_zeros():
    """A state carried over 1000 zeros by tables is the state after 1000 zeros; inversion taken off on both sides."""
    tables = shift_tables(CRC32C_POLYNOMIAL, 1000)
    state = crc32c(b"partition") ^ 0xFFFFFFFF
    shifted = 0
    for index in range(4):
        shifted ^= int(tables[index, state >> 8 * index & 0xFF])
    assert shifted == crc32c(b"partition" + bytes(1000)) ^ 0xFFFFFFFF
