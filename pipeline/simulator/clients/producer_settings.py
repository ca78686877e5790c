"""From a client, its version and its configuration to a producer's settings, as the client itself resolves them.

| Java version | difference |
|---|---|
| 2.0 | the client itself holds back for a quota's throttle time (KIP-219) |
| 2.1 | `delivery.timeout.ms` (KIP-91); `retries` without end |
| 3.0 | acks=all and idempotence by default (KIP-679); KAFKA-13598 left idempotence off in 3.0.0 and 3.1.0 |
| 3.3 | the built-in partitioner (KIP-794); a drain index for each node |
| 3.7 | retries back off exponentially (KIP-580) |
| 4.0 | linger.ms 5 (KIP-1030); more than 5 in flight is an error, before it switched idempotence off |
| 4.4 | `partitioner.rack.aware` (KIP-1123), which demands a `client.rack` |

librdkafka's `linger.ms` is 5 since 1.5 (0.5 before), a batch may hold 1 MB and 10,000 messages, a million requests may
be in flight (5 with idempotence), keyless messages stay on a partition for `sticky.partitioning.linger.ms`, and
idempotence is off unless asked for. Others batch as Java does, but franz-go and Sarama in batches of 1 MB; Sarama,
aiokafka and an idempotent kafka-python have one batch of a partition in flight.

References: Kafka `KafkaProducer.java`, `ProducerConfig.java`, tested against released clients; librdkafka
`CONFIGURATION.md`, `rdkafka_conf.c` (`rd_kafka_conf_finalize`); franz-go `pkg/kgo/{config,sink}.go`; Sarama
`async_producer.go`, `produce_set.go`; kafka-python `producer/sender.py`; aiokafka `producer/message_accumulator.py`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pipeline.partitioners.clients.java import RACK_AWARE
from pipeline.partitioners.registry import STRATEGIES, find_strategies
from pipeline.simulator.clients.client import HASHED_ALWAYS, MS, PLACEMENTS, ClientFamily, Compression, Settings
from pipeline.simulator.clients.producer_configs import (
    JAVA,
    LIBRDKAFKA,
    ProducerConfiguration,
    WrongSettingError,
    join_options,
    read_configuration,
)

_AMPLE = 1 << 40  # bytes
_OTHERS = {
    "franz-go": Settings(buffer_memory_bytes=_AMPLE, max_request_bytes=100 << 20),
    "sarama": Settings(
        buffer_memory_bytes=_AMPLE, max_request_bytes=100 << 20, acks=1, is_idempotent=False, mutes_partitions=True
    ),
    "kafka-python": Settings(buffer_memory_bytes=_AMPLE),
    "aiokafka": Settings(buffer_memory_bytes=_AMPLE, max_in_flight_count=1, acks=1, drains_ready_only=True),
}
"""What does not follow from their configurations."""
_JAVA_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_JAVA_CLASSES = ("DefaultPartitioner", "UniformStickyPartitioner", "RoundRobinPartitioner")
_IDEMPOTENCE_NOT_BY_DEFAULT = ((3,), (3, 1))  # 3.0.0 and 3.1.0
_IN_FLIGHT = "max.in.flight.requests.per.connection"
_MOST_IN_FLIGHT = 5  # of an idempotent producer: brokers keep the sequence numbers of its last 5 batches
_MOST_STICKY_MS = 900_000
_MOST_INT = 2**31 - 1


@dataclass(frozen=True)
class ResolvedProducer:
    family: ClientFamily
    settings: Settings
    strategy: str  # what it follows, by name
    notes: tuple[str, ...]  # what of the configuration has no effect here, in sentences


def resolve_producer(
    client: str,
    version: str,
    config: Mapping[str, str | None],
    *,
    strategy: str | None = None,
    compression: Compression | None = None,
) -> ResolvedProducer:
    """Resolves a configuration as its client does, or with another strategy; `ConfigError` for what it would refuse."""
    read = read_configuration(client, version, config)
    if client in _OTHERS:
        return _resolve_other(read, strategy)
    codec_name = "compression.type" if client == JAVA else "compression.codec"
    codec, java_codecs = str(read.values[codec_name]), _JAVA_CODECS if read.number >= (2, 1) else _JAVA_CODECS[:-1]
    if client == JAVA and codec not in java_codecs:
        raise read.refuse(codec_name, join_options(java_codecs))
    chosen = strategy or (_choose_java_strategy(read) if client == JAVA else _choose_librdkafka_strategy(read))
    known = [name for name in (*PLACEMENTS, *HASHED_ALWAYS) if name.startswith("java") == (client == JAVA)]
    if chosen not in known:
        problem = f"{chosen}: the simulator does not follow it for {client}; expected {join_options(known)}"
        raise WrongSettingError("strategy", problem)
    if codec != "none" and compression is None:
        problem = f"{codec} needs compression_ratio: compressed bytes per uncompressed byte of these records"
        raise WrongSettingError(read.given.get(codec_name, codec_name), problem)
    fields = _resolve_java(read, chosen) if client == JAVA else _resolve_librdkafka(read, chosen)
    settings = Settings(**fields, compression=None if codec == "none" else compression)
    family = ClientFamily.JAVA if client == JAVA else ClientFamily.LIBRDKAFKA
    notes = read.notes
    if client == JAVA and "client.rack" in read.given and not settings.client_rack:
        notes = (*notes, "client.rack: without effect on partitions, as partitioner.rack.aware is not in use")
    return ResolvedProducer(family, settings, chosen, notes)


def _resolve_other(read: ProducerConfiguration, strategy: str | None) -> ResolvedProducer:
    known = {
        name: one.keyless
        for name, one in STRATEGIES.items()
        if one.client == read.client and one.keyless and any(use.covers(read.version) for use in one.uses)
    }
    chosen = strategy or find_strategies(read.client, read.version)[0].name
    if chosen not in known or not known[chosen].placement:
        followed = [name for name, keyless in known.items() if keyless.placement]
        problem = f"{chosen}: the simulator does not follow it for {read.client}; expected {join_options(followed)}"
        raise WrongSettingError("strategy", problem)
    fields = read.fields()
    fields["batch_bytes"] = max(1, fields["batch_bytes"])
    fields |= {"placement": known[chosen].placement, "ignores_keys": STRATEGIES[chosen].hash is None}
    if read.values.get("RackAwarePartitioning"):  # without a rack: as if it were not set
        fields["client_rack"] = read.values.get("Rack") or ""
    settings = replace(_OTHERS[read.client], **fields)
    notes = (*read.notes, f"{read.client}'s threads are taken to cost what the Java client's do")
    return ResolvedProducer(ClientFamily.JAVA, settings, chosen, notes)


def _choose_java_strategy(read: ProducerConfiguration) -> str:
    class_name = read.values.get("partitioner.class")
    if class_name is None:
        if read.values.get("partitioner.ignore.keys"):
            return "java-builtin-ignore-keys"
        if read.values.get("partitioner.rack.aware"):
            return RACK_AWARE
        if read.values.get("partitioner.adaptive.partitioning.enable") is False:
            return "java-builtin-uniform"
        return find_strategies(JAVA, read.version)[0].name
    setting = str(class_name).rpartition(".")[2]
    strategies = find_strategies(JAVA, read.version, setting)
    if strategies:
        return strategies[0].name
    if setting in _JAVA_CLASSES:
        raise WrongSettingError("partitioner.class", f"{JAVA} {read.version} has no {setting}")
    advice = "For a class of your own give `strategy`, the nearest of those the simulator knows"
    raise read.refuse("partitioner.class", f"{join_options(_JAVA_CLASSES)}. {advice}")


def _resolve_java(read: ProducerConfiguration, strategy: str) -> dict[str, Any]:
    values, number = read.values, read.number
    placement, is_adaptive, ignores_keys = PLACEMENTS[strategy]
    is_idempotent = _is_idempotent(read)
    is_set = bool(read.values.get("partitioner.rack.aware"))
    rack = str(read.values.get("client.rack") or "")
    if (is_set or strategy == RACK_AWARE) and not rack.strip():
        expected = "the client's rack, as its brokers name theirs: partitioner.rack.aware demands it"
        raise read.refuse("client.rack", expected)
    is_built_in = placement == "BUILT_IN" and read.values["partitioner.class"] is None
    # before 2.1 a batch may wait as long as a request may take; later the whole delivery has its own limit
    least_ms = min(_MOST_INT, read.whole("linger.ms") + read.whole("request.timeout.ms"))
    if "delivery.timeout.ms" in read.given and read.whole("delivery.timeout.ms") < least_ms:
        raise read.refuse("delivery.timeout.ms", f"at least linger.ms + request.timeout.ms, {least_ms}")
    return {
        **read.fields(),
        **read.backoff((3, 7)),
        "placement": placement,
        "is_adaptive": is_adaptive and values.get("partitioner.adaptive.partitioning.enable") is not False,
        "client_rack": rack if strategy == RACK_AWARE or (is_set and is_built_in) else "",
        "ignores_keys": ignores_keys
        or (values["partitioner.class"] is None and bool(values.get("partitioner.ignore.keys"))),
        "batch_bytes": max(1, read.whole("batch.size")),
        "acks": -1 if is_idempotent or values["acks"] in ("all", "-1") else int(str(values["acks"])),
        "is_idempotent": is_idempotent,
        "retry_count": _MOST_INT if is_idempotent and "retries" not in read.given else read.whole("retries"),
        "delivery_timeout_ns": max(least_ms, read.whole("delivery.timeout.ms")) * MS,
        "drains_from_shared_index": number < (3, 3),
        "throttles_itself": number >= (2,),
        "is_transactional": values.get("transactional.id") is not None,
        "adds_partitions": values.get("transactional.id") is not None and number < (4,),
    }


def _is_idempotent(read: ProducerConfiguration) -> bool:
    values, given = read.values, read.given
    wants = values["enable.idempotence"] if "enable.idempotence" in given else None
    if values.get("transactional.id") is not None:
        if wants is False:
            problem = "idempotence is off; expected enable.idempotence true or not set"
            raise WrongSettingError("transactional.id", problem)
        wants = True
    has_default = bool(values["enable.idempotence"]) and read.number not in _IDEMPOTENCE_NOT_BY_DEFAULT
    if wants is False or (wants is None and not has_default):
        return False
    no_retries = "retries" in given and values["retries"] == 0
    few_acks = "acks" in given and values["acks"] not in ("all", "-1")
    too_many = read.whole(_IN_FLIGHT) > _MOST_IN_FLIGHT
    if too_many and (wants or (read.number >= (4,) and not no_retries and not few_acks)):
        raise read.refuse(_IN_FLIGHT, f"at most {_MOST_IN_FLIGHT} with idempotence")
    if wants and no_retries:
        raise read.refuse("retries", "1 or more with idempotence, or enable.idempotence false")
    if wants and few_acks:
        raise read.refuse("acks", "all with idempotence, or enable.idempotence false")
    return not (no_retries or few_acks or too_many)


def _choose_librdkafka_strategy(read: ProducerConfiguration) -> str:
    partitioner = str(read.values["partitioner"])
    is_sticky = read.number >= (1, 6) and _resolve_sticky_ms(read) > 0
    return f"{LIBRDKAFKA}-{partitioner}" + ("-1.5" if partitioner.endswith("random") and not is_sticky else "")


def _resolve_librdkafka(read: ProducerConfiguration, strategy: str) -> dict[str, Any]:
    placement, is_adaptive, ignores_keys = PLACEMENTS.get(strategy, ("RANDOM", False, False))
    is_idempotent = bool(read.values["enable.idempotence"]) or bool(read.values.get("transactional.id"))
    request_bytes = read.whole("message.max.bytes")
    in_flight, acks = read.whole(_IN_FLIGHT), read.values["request.required.acks"]
    if is_idempotent and in_flight > _MOST_IN_FLIGHT and _IN_FLIGHT in read.given:
        raise read.refuse(_IN_FLIGHT, f"at most {_MOST_IN_FLIGHT} with idempotence")
    if is_idempotent and acks not in (-1, "all") and "request.required.acks" in read.given:
        raise read.refuse("request.required.acks", "all with idempotence")
    return {
        **read.fields(),
        **read.backoff((2, 3)),
        "placement": placement,
        "is_adaptive": is_adaptive,
        "ignores_keys": ignores_keys,
        "sticky_linger_ns": _resolve_sticky_ms(read) * MS,
        "batch_bytes": min(request_bytes, read.whole("batch.size") if read.number >= (1, 5) else request_bytes),
        "buffer_memory_bytes": read.whole("queue.buffering.max.kbytes") * 1024,
        "max_block_ns": 0,
        "max_in_flight_count": min(in_flight, _MOST_IN_FLIGHT) if is_idempotent else in_flight,
        "acks": -1 if is_idempotent or acks == "all" else min(int(acks or 0), 1),
        "is_idempotent": is_idempotent,
        "is_transactional": bool(read.values.get("transactional.id")),
        "adds_partitions": bool(read.values.get("transactional.id")),
        "delivery_timeout_ns": (read.whole("message.timeout.ms") or _MOST_INT) * MS,
    }


def _resolve_sticky_ms(read: ProducerConfiguration) -> int:
    """Twice `linger.ms` unless given, whatever the table's default says."""
    if "sticky.partitioning.linger.ms" in read.given:
        return read.whole("sticky.partitioning.linger.ms")
    return min(_MOST_STICKY_MS, int(2 * float(read.values["queue.buffering.max.ms"] or 0)))
