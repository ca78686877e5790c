"""Integers of texts and JSON as Kafka has them: whole, and no larger than its types."""

from pipeline.model.log import is_partition_number


def int64(value: object) -> int:
    """A signed integer of 64 bits, of offsets, sizes and times; an error for anything else.

    >>> int64("5"), int64(-1)
    (5, -1)
    """
    return _bounded(value, 64)


def int32(value: object) -> int:
    """A signed integer of 32 bits, of brokers and epochs; an error for anything else."""
    return _bounded(value, 32)


def partition_number(value: object) -> int:
    """The number of a partition that a topic may have; an error for anything else."""
    if not is_partition_number(number := int32(value)):
        raise ValueError
    return number


def _bounded(value: object, bits: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise TypeError
    number = int(value)
    if not -1 << bits - 1 <= number < 1 << bits - 1:
        raise ValueError
    return number
