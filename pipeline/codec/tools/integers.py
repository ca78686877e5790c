"""Integers of texts and JSON as Kafka has them: whole, and no larger than its types."""


def int64(value: object) -> int:
    """A signed integer of 64 bits, of offsets, sizes and times; an error for anything else.

    >>> int64("5"), int64(-1)
    (5, -1)
    """
    return _bounded(value, 64)


def int32(value: object) -> int:
    """A signed integer of 32 bits, of partitions, brokers and epochs; an error for anything else."""
    return _bounded(value, 32)


def _bounded(value: object, bits: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise TypeError
    number = int(value)
    if not -1 << bits - 1 <= number < 1 << bits - 1:
        raise ValueError
    return number
