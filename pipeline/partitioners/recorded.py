"""Strategies over keys that are known by their stored hashes only: what a replay can ask, and the families it distinguishes.

Strategies that hash alike and mask alike cannot be distinguished by where keys went, whatever their names: they are one
family. Where a strategy needs something that is not stored, it is refused rather than guessed.
"""

from dataclasses import dataclass

from pipeline.errors import ConfigError
from pipeline.partitioners.hashes import HashName, Mask
from pipeline.partitioners.registry import STRATEGIES
from pipeline.partitioners.strategy import Availability, KeyForm, KeyRule, Strategy, choose_partition

HASH_COLUMNS: dict[HashName, str] = {
    HashName.MURMUR2: "murmur2",
    HashName.CRC32: "crc32",
    HashName.FNV1A: "fnv1a",
    HashName.MURMUR3: "murmur3",
    HashName.JAVA_STRING: "java_string",
    HashName.KAFKAJS_MURMUR2: "kafkajs_legacy",
}
"""Columns of `silver.key_hashes`, by the hash they hold."""


@dataclass(frozen=True, order=True)
class KeyFunction:
    """Hash, mask and text rule that choose the partition of a key with bytes."""

    hash_column: str
    mask: Mask
    is_text: bool = False


@dataclass(frozen=True)
class StrategyFamily:
    """Strategies that put every key with bytes in the same place; the one that represents them first."""

    name: str
    function: KeyFunction
    strategies: tuple[str, ...]


_LEADING = {
    (HashName.MURMUR2, Mask.SIGN_BIT): ("java-compatible", "java-builtin"),
    (HashName.CRC32, Mask.NOTHING): ("librdkafka-consistent", "librdkafka-consistent"),
    (HashName.CRC32, Mask.SIGN_BIT): ("sarama-abs-first", "sarama-abs-first"),
    (HashName.CRC32, Mask.MAGNITUDE): ("sarama-custom-crc", "sarama-custom-crc"),
    (HashName.FNV1A, Mask.MAGNITUDE): ("sarama-hash", "sarama-hash"),
    (HashName.FNV1A, Mask.SIGN_BIT): ("sarama-reference-hash", "sarama-reference-hash"),
    (HashName.FNV1A, Mask.NOTHING): ("sarama-hash-unsigned", "sarama-hash-unsigned"),
    (HashName.JAVA_STRING, Mask.MAGNITUDE_OR_ZERO): ("scala-default", "scala-default"),
}
"""The name people know a family by and the strategy that represents it; others go by their first strategy."""
_RANKS = {name: rank for rank, (name, _) in enumerate(_LEADING.values())}


def is_replayable(strategy: Strategy) -> bool:
    """Whether a built-in strategy's choices follow from stored hashes."""
    return (
        strategy.hash in HASH_COLUMNS
        and strategy.form in {KeyForm.BYTES, KeyForm.TEXT}
        and strategy.availability is Availability.ALL
    )


def key_function_of(strategy: Strategy) -> KeyFunction:
    """Returns what a replay needs of a built-in strategy.

    Raises:
        ConfigError: Its choices do not follow from the key, or from hashes that are not stored.
    """
    if strategy.hash is None:
        raise ConfigError(f"strategy {strategy.name} does not look at keys: recorded keys say nothing about it")
    if not is_replayable(strategy):
        reason = (
            f"strategy {strategy.name} needs {strategy.hash.value} over {strategy.form.value}, among "
            f"{strategy.availability.value}; that is not stored, only {', '.join(HASH_COLUMNS.values())} of the bytes are"
        )
        raise ConfigError(reason)
    return KeyFunction(HASH_COLUMNS[strategy.hash], strategy.mask, strategy.form is KeyForm.TEXT)


def choose_for_no_key(strategy: Strategy, partition_count: int) -> int | None:
    """Returns the partition of records without a key, if all go to one; else None.

    >>> from pipeline.partitioners.registry import find_strategy
    >>> choose_for_no_key(find_strategy("librdkafka-consistent"), 12)
    0
    >>> choose_for_no_key(find_strategy("java-builtin"), 12) is None
    True
    """
    return None if strategy.null_key is KeyRule.REFUSED else choose_partition(strategy, None, partition_count)


def list_families() -> tuple[StrategyFamily, ...]:
    """Every family that stored hashes can show, the best known first; of each, the strategy that represents it first."""
    members: dict[KeyFunction, list[Strategy]] = {}
    for strategy in STRATEGIES.values():
        if is_replayable(strategy):
            members.setdefault(key_function_of(strategy), []).append(strategy)
    families = [_family(function, strategies) for function, strategies in members.items()]
    return tuple(sorted(families, key=lambda family: (_RANKS.get(family.name, len(_RANKS)), family.name)))


def _family(function: KeyFunction, strategies: list[Strategy]) -> StrategyFamily:
    hash_name = next(name for name, column in HASH_COLUMNS.items() if column == function.hash_column)
    first = min(strategy.name for strategy in strategies)
    name, leading = _LEADING.get((hash_name, function.mask), (first, first))
    ordered = sorted(
        strategies, key=lambda strategy: (strategy.name != leading, not strategy.is_default, strategy.name)
    )
    return StrategyFamily(name, function, tuple(strategy.name for strategy in ordered))
