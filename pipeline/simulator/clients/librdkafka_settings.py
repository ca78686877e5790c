"""From librdkafka's version and configuration to a producer's settings.

Differences from the Java client that a run shows: `linger.ms` is 5 since 1.5 (0.5 before), a batch may hold 1 MB and
10,000 messages, a million requests may be in flight (5 with idempotence), keyless messages stay on a partition for
`sticky.partitioning.linger.ms`, and idempotence is off unless asked for.

References:
    librdkafka `CONFIGURATION.md`, `INTRODUCTION.md`, `rdkafka_conf.c` (`rd_kafka_conf_finalize`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.errors import ConfigError
from pipeline.partitioners.strategy import Placement, parse_version
from pipeline.simulator.clients.client import MS, PLACEMENTS, Family, Settings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pipeline.simulator.clients.client import Compression
    from pipeline.simulator.clients.producer_configs import Value

CLIENT = "librdkafka"
FAMILY = Family.LIBRDKAFKA
INFLUENTIAL = frozenset(
    {
        "batch.num.messages",
        "batch.size",
        "compression.codec",
        "enable.idempotence",
        "max.in.flight.requests.per.connection",
        "message.max.bytes",
        "message.send.max.retries",
        "message.timeout.ms",
        "partitioner",
        "queue.buffering.max.kbytes",
        "queue.buffering.max.ms",
        "request.required.acks",
        "request.timeout.ms",
        "retry.backoff.max.ms",
        "retry.backoff.ms",
        "sticky.partitioning.linger.ms",
        "transactional.id",
    }
)
"""What the simulation follows, by the names that others are aliases of."""
NOT_SIMULATED = {
    "queue.buffering.backpressure.threshold": "batches would grow while requests wait to be written",
    "queue.buffering.max.messages": "produce() would fail once as many messages are queued",
    "queuing.strategy": "lifo would send the newest first",
    "transactional.id": "transactions themselves: only the idempotence they need",
}
"""What would change a real run but not the simulated one, and why."""
_MOST_IN_FLIGHT = 5
_STICKY_SINCE = (1, 6)
_MOST_STICKY_MS = 900_000
_BATCH_SIZE_SINCE = (1, 5)


def choose_librdkafka_strategy(version: str, values: Mapping[str, Value], given: frozenset[str]) -> str:
    """The strategy that a version follows with a configuration.

    Args:
        version: The client's.
        values: By config key, defaults filled in.
        given: The keys that were configured, not defaulted.

    Returns:
        Its name in `pipeline.partitioners`.
    """
    name = f"{CLIENT}-{values['partitioner']}"
    is_sticky = parse_version(version) >= _STICKY_SINCE and _resolve_sticky_ms(values, given) > 0
    is_drawn = str(values["partitioner"]).endswith("random")
    return f"{name}-1.5" if is_drawn and not is_sticky else name


def resolve_librdkafka_settings(
    version: str, values: Mapping[str, Value], given: frozenset[str], strategy: str, compression: Compression | None
) -> Settings:
    """A librdkafka producer's settings.

    Args:
        version: The client's.
        values: By config key, defaults filled in, under the names that others are aliases of.
        given: The keys that were configured, not defaulted.
        strategy: See `choose_librdkafka_strategy`.
        compression: Of this traffic, or None.

    Returns:
        The settings.

    Raises:
        ConfigError: librdkafka would refuse this configuration.
    """
    number = parse_version(version)
    placement, is_adaptive, ignores_keys = PLACEMENTS.get(strategy, (Placement.RANDOM, False, False))
    is_idempotent = bool(values["enable.idempotence"]) or bool(values.get("transactional.id"))
    backoff_ms = _whole(values, "retry.backoff.ms")
    backoff_max_ms = _whole(values, "retry.backoff.max.ms") if number >= (2, 3) else backoff_ms
    request_bytes = _whole(values, "message.max.bytes")
    return Settings(
        placement=placement,
        is_adaptive=is_adaptive,
        ignores_keys=ignores_keys,
        sticky_linger_ns=_resolve_sticky_ms(values, given) * MS,
        batch_bytes=min(request_bytes, _whole(values, "batch.size") if number >= _BATCH_SIZE_SINCE else request_bytes),
        batch_record_count=_whole(values, "batch.num.messages"),
        linger_ns=round(float(values["queue.buffering.max.ms"] or 0) * MS),
        buffer_memory_bytes=_whole(values, "queue.buffering.max.kbytes") * 1024,
        max_block_ns=0,
        max_request_bytes=request_bytes,
        max_in_flight_count=_resolve_in_flight(values, given, is_idempotent=is_idempotent),
        acks=_resolve_acks(values, given, is_idempotent=is_idempotent),
        is_idempotent=is_idempotent,
        retry_count=_whole(values, "message.send.max.retries"),
        backoff_ns=min(backoff_ms, backoff_max_ms) * MS,
        backoff_max_ns=backoff_max_ms * MS,
        backoff_jitter_ppm=200_000 if backoff_max_ms > backoff_ms else 0,
        request_timeout_ns=_whole(values, "request.timeout.ms") * MS,
        delivery_timeout_ns=(_whole(values, "message.timeout.ms") or 2**31 - 1) * MS,
        throttles_itself=True,
        compression=compression,
    )


def _whole(values: Mapping[str, Value], name: str) -> int:
    return int(values.get(name) or 0)


def _resolve_sticky_ms(values: Mapping[str, Value], given: frozenset[str]) -> int:
    """Twice `linger.ms` unless given, whatever the table's default says."""
    if "sticky.partitioning.linger.ms" in given:
        return _whole(values, "sticky.partitioning.linger.ms")
    return min(_MOST_STICKY_MS, int(2 * float(values["queue.buffering.max.ms"] or 0)))


def _resolve_in_flight(values: Mapping[str, Value], given: frozenset[str], *, is_idempotent: bool) -> int:
    name = "max.in.flight.requests.per.connection"
    count = _whole(values, name)
    if is_idempotent and count > _MOST_IN_FLIGHT:
        if name in given:
            raise ConfigError(f"{name}: {count}; expected at most {_MOST_IN_FLIGHT} with idempotence")
        return _MOST_IN_FLIGHT
    return count


def _resolve_acks(values: Mapping[str, Value], given: frozenset[str], *, is_idempotent: bool) -> int:
    name = "request.required.acks"
    acks = -1 if values[name] == "all" else _whole(values, name)
    if is_idempotent and acks != -1:
        if name in given:
            raise ConfigError(f"{name}: {acks}; expected all with idempotence")
        return -1
    return min(acks, 1)
