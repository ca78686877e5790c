"""From a Java producer's version and configuration to its settings, as `KafkaProducer` and `ProducerConfig` do it.

| version | difference |
|---|---|
| 2.0 | the client itself holds back for a quota's throttle time (KIP-219) |
| 2.1 | `delivery.timeout.ms` (KIP-91); `retries` without end |
| 3.0 | acks=all and idempotence by default (KIP-679); KAFKA-13598 left idempotence off in 3.0.0 and 3.1.0 |
| 3.3 | the built-in partitioner (KIP-794); a drain index for each node |
| 3.7 | retries back off exponentially (KIP-580) |
| 4.0 | linger.ms 5 (KIP-1030); more than 5 in flight is an error, before it switched idempotence off |

References:
    Kafka `clients/producer/{KafkaProducer,ProducerConfig}.java`; tested against those classes of released clients.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.errors import ConfigError
from pipeline.partitioners.registry import find_strategies
from pipeline.partitioners.strategy import parse_version
from pipeline.simulator.clients.client import MS, PLACEMENTS, Family, Settings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pipeline.simulator.clients.client import Compression
    from pipeline.simulator.clients.producer_configs import Value

CLIENT = "kafka-clients"
INFLUENTIAL = frozenset(
    {
        "acks",
        "batch.size",
        "buffer.memory",
        "compression.type",
        "delivery.timeout.ms",
        "enable.idempotence",
        "linger.ms",
        "max.block.ms",
        "max.in.flight.requests.per.connection",
        "max.request.size",
        "partitioner.adaptive.partitioning.enable",
        "partitioner.availability.timeout.ms",
        "partitioner.class",
        "partitioner.ignore.keys",
        "request.timeout.ms",
        "retries",
        "retry.backoff.max.ms",
        "retry.backoff.ms",
        "transactional.id",
    }
)
"""What the simulation follows."""
NOT_SIMULATED = {
    "partitioner.rack.aware": "keyless records would go to leaders of the client's rack",
    "transactional.id": "transactions themselves: only the idempotence they need",
}
"""What would change a real run but not the simulated one, and why."""
_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_MOST_IN_FLIGHT = 5
_IDEMPOTENCE_NOT_BY_DEFAULT = ("3", "3.1")  # 3.0.0 and 3.1.0


def choose_java_strategy(version: str, values: Mapping[str, Value]) -> str:
    """The strategy that a version follows with a configuration.

    Args:
        version: The client's.
        values: By config key, defaults filled in.

    Returns:
        Its name in `pipeline.partitioners`.

    Raises:
        ConfigError: The class is not one the simulator knows, or this version has it no more.
    """
    class_name = values.get("partitioner.class")
    if class_name is None:
        if values.get("partitioner.ignore.keys"):
            return "java-builtin-ignore-keys"
        if values.get("partitioner.adaptive.partitioning.enable") is False:
            return "java-builtin-uniform"
        return find_strategies(CLIENT, version)[0].name
    setting = str(class_name).rpartition(".")[2]
    found = find_strategies(CLIENT, version, setting)
    if found:
        return found[0].name
    known = ("DefaultPartitioner", "UniformStickyPartitioner", "RoundRobinPartitioner")
    if setting in known:
        raise ConfigError(f"partitioner.class: {CLIENT} {version} has no {setting}")
    raise ConfigError(
        f"partitioner.class: {class_name}; expected {', '.join(known[:2])} or {known[2]}. For a class of your own"
        " give `strategy`, the nearest of those the simulator knows"
    )


def resolve_java_settings(
    version: str, values: Mapping[str, Value], given: frozenset[str], strategy: str, compression: Compression | None
) -> Settings:
    """A Java producer's settings.

    Args:
        version: The client's.
        values: By config key, defaults filled in.
        given: The keys that were configured, not defaulted.
        strategy: See `choose_java_strategy`.
        compression: Of this traffic, or None.

    Returns:
        The settings.

    Raises:
        ConfigError: The producer would refuse this configuration.
    """
    number = parse_version(version)
    placement, is_adaptive, ignores_keys = PLACEMENTS[strategy]
    adaptive = values.get("partitioner.adaptive.partitioning.enable")
    is_idempotent = _is_idempotent(version, values, given)
    backoff_ms = _whole(values, "retry.backoff.ms")
    backoff_max_ms = _whole(values, "retry.backoff.max.ms") if number >= (3, 7) else backoff_ms
    retries = _whole(values, "retries")
    return Settings(
        placement=placement,
        is_adaptive=is_adaptive and adaptive is not False,
        availability_timeout_ns=_whole(values, "partitioner.availability.timeout.ms") * MS,
        ignores_keys=ignores_keys
        or (values["partitioner.class"] is None and bool(values.get("partitioner.ignore.keys"))),
        batch_bytes=max(1, _whole(values, "batch.size")),
        linger_ns=_whole(values, "linger.ms") * MS,
        buffer_memory_bytes=_whole(values, "buffer.memory"),
        max_block_ns=_whole(values, "max.block.ms") * MS,
        max_request_bytes=_whole(values, "max.request.size"),
        max_in_flight_count=_whole(values, "max.in.flight.requests.per.connection"),
        acks=_parse_acks(values, is_idempotent=is_idempotent),
        is_idempotent=is_idempotent,
        retry_count=2**31 - 1 if is_idempotent and "retries" not in given else retries,
        backoff_ns=min(backoff_ms, backoff_max_ms) * MS,
        backoff_max_ns=backoff_max_ms * MS,
        backoff_jitter_ppm=200_000 if backoff_max_ms > backoff_ms else 0,
        request_timeout_ns=_whole(values, "request.timeout.ms") * MS,
        delivery_timeout_ns=_resolve_delivery_timeout_ms(values, given) * MS,
        drains_from_shared_index=number < (3, 3),
        throttles_itself=number >= (2,),
        compression=compression,
    )


def check_codec(values: Mapping[str, Value], version: str) -> str:
    """The codec's name, or "none".

    Raises:
        ConfigError: The version has no such codec.
    """
    codec = str(values["compression.type"])
    names = _CODECS if parse_version(version) >= (2, 1) else _CODECS[:-1]
    if codec not in names:
        raise ConfigError(f"compression.type: {codec!r}; expected {', '.join(names[:-1])} or {names[-1]}")
    return codec


def _whole(values: Mapping[str, Value], name: str) -> int:
    return int(values.get(name) or 0)


def _parse_acks(values: Mapping[str, Value], *, is_idempotent: bool) -> int:
    return -1 if is_idempotent or values["acks"] in ("all", "-1") else int(str(values["acks"]))


def _is_idempotent(version: str, values: Mapping[str, Value], given: frozenset[str]) -> bool:
    wants = values["enable.idempotence"] if "enable.idempotence" in given else None
    if values.get("transactional.id") is not None:
        if wants is False:
            raise ConfigError("transactional.id: idempotence is off; expected enable.idempotence true or not set")
        wants = True
    number = parse_version(version)
    has_default = bool(values["enable.idempotence"]) and ".".join(map(str, number)) not in _IDEMPOTENCE_NOT_BY_DEFAULT
    if wants is False or (wants is None and not has_default):
        return False
    lacking = _list_lacking(values, given)
    too_many = _whole(values, "max.in.flight.requests.per.connection") > _MOST_IN_FLIGHT
    if too_many and (wants or (number >= (4,) and not lacking)):
        raise ConfigError(
            f"max.in.flight.requests.per.connection: {values['max.in.flight.requests.per.connection']};"
            f" expected at most {_MOST_IN_FLIGHT} with idempotence"
        )
    if wants and lacking:
        raise ConfigError(f"{lacking}, or enable.idempotence false")
    return not (lacking or too_many)


def _list_lacking(values: Mapping[str, Value], given: frozenset[str]) -> str:
    """What of the configuration rules idempotence out, or ""."""
    if "retries" in given and values["retries"] == 0:
        return "retries: 0; expected 1 or more with idempotence"
    if "acks" in given and values["acks"] not in ("all", "-1"):
        return f"acks: {values['acks']}; expected all with idempotence"
    return ""


def _resolve_delivery_timeout_ms(values: Mapping[str, Value], given: frozenset[str]) -> int:
    """Before 2.1 a batch may wait as long as a request may take; later the whole delivery has its own limit."""
    least_ms = min(2**31 - 1, _whole(values, "linger.ms") + _whole(values, "request.timeout.ms"))
    if "delivery.timeout.ms" not in values:
        return least_ms
    timeout_ms = _whole(values, "delivery.timeout.ms")
    if timeout_ms >= least_ms:
        return timeout_ms
    if "delivery.timeout.ms" in given:
        raise ConfigError(
            f"delivery.timeout.ms: {timeout_ms}; expected at least linger.ms + request.timeout.ms, {least_ms}"
        )
    return least_ms


FAMILY = Family.JAVA
