"""From a hash to a partition: what each client does about the top bit, then the remainder.

A mask takes the unsigned 32-bit hash (an int, or NumPy's array of int64) and returns a number that is not negative.

Go's and C's "remainder of the signed hash, then turned positive" is the remainder of `mask_magnitude`: the sign of a
remainder is that of the dividend, its size does not depend on signs.
"""

from enum import Enum
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Hash = TypeVar("Hash", int, NDArray[np.int64])


def to_signed(value: Hash) -> Hash:
    """The value as Java's int, Go's int32 and C's int32_t show it."""
    return (value ^ 0x80000000) - 0x80000000


def mask_sign_bit(value: Hash) -> Hash:
    """Without the top bit: Kafka's `toPositive`, which is not the magnitude."""
    return value & 0x7FFFFFFF


def mask_nothing(value: Hash) -> Hash:
    """Returns the hash unchanged, as unsigned."""
    return value


def mask_magnitude(value: Hash) -> Hash:
    """Without the sign; the smallest int gives 2^31."""
    return abs(to_signed(value))


def mask_magnitude_or_zero(value: Hash) -> Hash:
    """Without the sign; the smallest int, which has no positive twin in Java, gives 0 (Kafka's `Utils.abs`)."""
    return abs(to_signed(value)) & 0x7FFFFFFF


class Mask(Enum):
    """The masks by name."""

    SIGN_BIT = "sign bit"
    NOTHING = "nothing"
    MAGNITUDE = "magnitude"
    MAGNITUDE_OR_ZERO = "magnitude or zero"

    def apply(self, value: Hash) -> Hash:
        """Makes a hash, or an array of hashes, not negative."""
        if self is Mask.SIGN_BIT:
            return mask_sign_bit(value)
        if self is Mask.MAGNITUDE:
            return mask_magnitude(value)
        if self is Mask.MAGNITUDE_OR_ZERO:
            return mask_magnitude_or_zero(value)
        return mask_nothing(value)


def take_modulo(value: Hash, partition_count: int) -> Hash:
    """The partition of a masked hash.

    >>> take_modulo(mask_sign_bit(-798503068 & 0xFFFFFFFF), 12)
    4
    """
    return value % partition_count


def place_hashes(hashes: NDArray[np.uint32], mask: Mask, partition_count: int) -> NDArray[np.int32]:
    """The partitions of hashes, 10 ns each."""
    return take_modulo(mask.apply(hashes.astype(np.int64)), partition_count).astype(np.int32)
