"""The two checksums of Kafka's log: CRC-32C for magic 2, CRC-32 for magic 0 and 1.

For whole buffers the C libraries serve; over many small batches the kernels in `crc_kernels` do, which is why their
lookup tables are made here, where Numba is not needed.

References:
    RFC 3720 appendix B.4 (CRC-32C); Kafka `DefaultRecordBatch.computeChecksum`, `LegacyRecord.computeChecksum`.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import google_crc32c
import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

CRC32C_POLYNOMIAL = 0x82F63B78  # Castagnoli, bits reversed
CRC32_POLYNOMIAL = 0xEDB88320  # IEEE 802.3, bits reversed


def crc32c(data: bytes) -> int:
    """Computes CRC-32C.

    >>> hex(crc32c(b"123456789"))
    '0xe3069283'
    """
    return int(google_crc32c.value(data))


def crc32(data: bytes) -> int:
    """Computes CRC-32 (IEEE).

    >>> hex(crc32(b"123456789"))
    '0xcbf43926'
    """
    return zlib.crc32(data)


def slicing_tables(polynomial: int) -> NDArray[np.uint32]:
    """Makes the eight tables (8, 256) of the slicing-by-8 algorithm for a reversed polynomial."""
    tables = np.zeros((8, 256), np.uint32)
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = (value >> 1) ^ (polynomial if value & 1 else 0)
        tables[0, byte] = value
    for step in range(1, 8):
        previous = tables[step - 1]
        tables[step] = (previous >> np.uint32(8)) ^ tables[0][previous & np.uint32(0xFF)]
    return tables


def shift_tables(polynomial: int, zero_bytes: int) -> NDArray[np.uint32]:
    """Makes tables (4, 256) that carry a checksum over `zero_bytes` zeros: one lookup per byte of the checksum, xored.

    Two checksums of neighbouring blocks combine so: shift the first by the second's length, then xor.

    References:
        M. Adler, `crc32_combine` of zlib: the operator of one zero bit, squared again and again.
    """
    operator = [polynomial] + [1 << bit for bit in range(31)]
    power = 8 * zero_bytes
    shifted = [1 << bit for bit in range(32)]
    while power:
        if power & 1:
            shifted = [_multiply(operator, column) for column in shifted]
        operator = [_multiply(operator, column) for column in operator]
        power >>= 1
    return np.array([[_multiply(shifted, byte << shift) for byte in range(256)] for shift in (0, 8, 16, 24)], np.uint32)


def _multiply(operator: list[int], vector: int) -> int:
    product = 0
    for column in operator:
        if vector & 1:
            product ^= column
        vector >>= 1
    return product
