"""A user's strategies, as `keys.strategies` names them: the file that a team writes."""

import random


def by_number(key: bytes, partition_count: int) -> int:
    """By business key: the digits that end the key, in blocks of a hundred."""
    digits = key.rpartition(b"-")[2]
    return int(digits) // 100 % partition_count if digits.isdigit() else 0


def by_address_range(key: bytes, partition_count: int) -> int:
    """By range of an IPv4 address."""
    return int(key.split(b".", 1)[0]) * partition_count // 256


def at_random(key: bytes, partition_count: int) -> int:
    """Not a function of the key."""
    return random.randrange(partition_count)


def beyond(key: bytes, partition_count: int) -> int:
    """One too far."""
    return partition_count
