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
