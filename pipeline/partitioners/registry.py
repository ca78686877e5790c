"""All strategies by name, or client, version and setting; user-defined ones; families that stored hashes show.

    def by_customer(key: bytes, partition_count: int) -> int: ...

is a user-defined one, a Python callable or Numba function over a key's bytes. The answer must follow from the key and
the count alone: what needs the value, the topic or the cluster cannot be computed again from recorded keys. A record
without a key is never asked about. What the function raises is not caught: its traceback is what its author needs.

Strategies that hash alike and mask alike cannot be distinguished by where keys went, whatever their names: they are one
family. Where a strategy needs something that is not stored, it is refused rather than guessed.
"""

import difflib
import hashlib
import importlib
import inspect
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pipeline.errors import ConfigError, InputError
from pipeline.partitioners.clients.go_clients import FRANZ_GO, KAFKA_GO, SARAMA
from pipeline.partitioners.clients.java import JAVA, JAVA_STRING, PULSAR, SCALA
from pipeline.partitioners.clients.librdkafka import LIBRDKAFKA
from pipeline.partitioners.clients.other_clients import NODE, PYTHON, REDPANDA, RUST
from pipeline.partitioners.hashes import HashName, Mask
from pipeline.partitioners.strategy import Availability, KeyForm, KeyRule, Strategy, Use, choose_partition

CLIENT_STRATEGIES = (
    *(*FRANZ_GO, *JAVA, *JAVA_STRING, *KAFKA_GO, *LIBRDKAFKA, *NODE),
    *(*PULSAR, *PYTHON, *REDPANDA, *RUST, *SARAMA, *SCALA),
)
STRATEGIES = {strategy.name: strategy for strategy in CLIENT_STRATEGIES}


def find_strategy(name: str) -> Strategy:
    """The strategy of that name, or the user's own, `module:name`; `ConfigError` names the most similar ones."""
    if is_custom(name):
        return load_custom(name)
    if name in STRATEGIES:
        return STRATEGIES[name]
    similar = difflib.get_close_matches(name.lower(), STRATEGIES, n=5, cutoff=0.5)
    parts = [known for known in STRATEGIES if name.lower() in known]
    near = list(dict.fromkeys([*parts[:5], *similar]))
    raise ConfigError(f"no strategy {name}; {'near: ' + ', '.join(near) if near else '--strategies lists them all'}")


def find_strategies(client: str, version: str, setting: str | None = None) -> tuple[Strategy, ...]:
    """The strategies of a client version: for a setting (the client's own configuration value), or by default."""
    return tuple(
        strategy
        for strategy in STRATEGIES.values()
        if strategy.client == client
        and any(
            use.covers(version) and (use.is_default if setting is None else use.setting == setting)
            for use in strategy.uses
        )
    )


CLIENT = "user-defined"
_NOT_AT_HAND = frozenset({"value", "value_bytes", "valueBytes", "record", "message", "headers", "topic", "cluster"})


def is_custom(name: str) -> bool:
    return ":" in name


def load_custom(name: str) -> Strategy:
    """Imports a user's function of key and partition count, `module:name` (else `ConfigError`), as a strategy."""
    module_name, _, function_name = name.partition(":")
    try:
        module = importlib.import_module(module_name)
    except (ImportError, ValueError) as error:
        raise ConfigError(f"strategy {name}: {error}; expected a module on PYTHONPATH") from error
    function = getattr(module, function_name, None)
    if not callable(function):
        raise ConfigError(f"strategy {name}: {module_name} has no function {function_name or '(no name)'}")
    parameters = inspect.signature(getattr(function, "py_func", function)).parameters.values()
    required = [
        parameter.name
        for parameter in parameters
        if parameter.default is parameter.empty
        and parameter.kind not in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD}
    ]
    if wanted := [parameter for parameter in required if parameter in _NOT_AT_HAND]:
        raise ConfigError(
            f"strategy {name} needs {', '.join(wanted)}; only the key and the partition count are recorded"
        )
    if len(required) != 2:
        raise ConfigError(f"strategy {name} takes ({', '.join(required)}); expected a key and a partition count")
    # the version of a user's functions: 16 hex digits that change with the file they are in
    version = hashlib.sha256(Path(module.__file__).read_bytes()).hexdigest()[:16] if module.__file__ else "unknown"
    return Strategy(name, CLIENT, (Use(name),), f"{name}, version {version}", function=function)


def check_determinism(strategy: Strategy, keys: Iterable[bytes], partition_count: int) -> None:
    for key in keys:
        first, second = (choose_partition(strategy, key, partition_count) for _ in range(2))
        if first != second:
            reason = f"{strategy.name} returned {first}, then {second} for one key; expected a function of the key"
            raise InputError(reason, first_bytes=key)


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
    hash_column: str
    mask: Mask
    is_text: bool = False


@dataclass(frozen=True)
class StrategyFamily:
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
    return (
        strategy.hash in HASH_COLUMNS
        and strategy.form in {KeyForm.BYTES, KeyForm.TEXT}
        and strategy.availability is Availability.ALL
    )


def key_function_of(strategy: Strategy) -> KeyFunction:
    """What a replay needs of a built-in strategy; `ConfigError` where its choices do not follow from stored hashes."""
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
    return None if strategy.null_key is KeyRule.REFUSED else choose_partition(strategy, None, partition_count)


def list_families() -> tuple[StrategyFamily, ...]:
    """Every family that stored hashes can show, the best known first; of each, the strategy that represents it first."""
    members: dict[KeyFunction, list[Strategy]] = {}
    for strategy in STRATEGIES.values():
        if is_replayable(strategy):
            members.setdefault(key_function_of(strategy), []).append(strategy)
    families = []
    for function, strategies in members.items():
        hash_name = next(name for name, column in HASH_COLUMNS.items() if column == function.hash_column)
        first = min(strategy.name for strategy in strategies)
        name, leading = _LEADING.get((hash_name, function.mask), (first, first))
        ordered = sorted((one.name != leading, not one.is_default, one.name) for one in strategies)
        families.append(StrategyFamily(name, function, tuple(strategy for _, _, strategy in ordered)))
    return tuple(sorted(families, key=lambda family: (_RANKS.get(family.name, len(_RANKS)), family.name)))
