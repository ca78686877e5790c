"""A producer client: its settings, what its threads cost (all times in nanoseconds), and what racks do to it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from pipeline.model.number_text import join_names
from pipeline.partitioners.registry import STRATEGIES
from pipeline.simulator.distributions import ALIKE, Distribution

MS = 1_000_000
SECOND = 1_000_000_000


class ClientFamily(IntEnum):
    JAVA = 0
    LIBRDKAFKA = 1  # a request carries one partition; a partition waits for its own linger only


@dataclass(frozen=True)
class Compression:
    ratio_ppm: int  # compressed bytes of a batch's records per million uncompressed ones
    overhead_bytes: int = 0  # the codec's own frame in every batch, as far as it makes none larger than it was


@dataclass(frozen=True)
class ThreadCosts:
    """CPU time of the client's two kinds of thread; for measured values see `measured.py`."""

    append_ns: int = 1_000  # `send()` that joins a batch, from one record to the next
    wake_call_ns: Distribution = field(default_factory=Distribution)  # added to it where it wakes the sender
    # from that call's return until the sender, asleep in its poll, looks at its queues; 0 where it did before the
    # call returned, because the two threads share a core
    wake_ns: Distribution = field(default_factory=Distribution)
    response_wake_ns: Distribution = field(default_factory=Distribution)  # from a response's arrival until it looks
    loop_ns: int = 1  # one `runOnce` of the sender; at least 1
    request_ns: int = 0  # added to it for each request it sends
    transit_ns: int = 0  # from a `runOnce` until its requests are at the broker
    timer_ns: int = 0  # how much longer than asked a poll sleeps
    metadata_ns: int = 0  # how long the first `send()` waits for metadata
    connect_ns: int = 0  # from the first wish to send to a broker until the connection is ready
    markers_ns: int = 0  # from a commit's answer until its markers are written: the next transaction waits for them
    run_to_run_ppm: Distribution = ALIKE  # factor between two runs, parts per million; see `measured.py`


@dataclass(frozen=True)
class Settings:
    """A producer's configuration; a name without its unit is Kafka's (`linger_ns` is `linger.ms`)."""

    placement: str = "BUILT_IN"  # the partitioner, by name in `engine/partitioners.py`
    is_adaptive: bool = True  # `partitioner.adaptive.partitioning.enable`
    availability_timeout_ns: int = 0  # `partitioner.availability.timeout.ms`; 0 is off
    client_rack: str = ""  # `client.rack` where `partitioner.rack.aware` is true, else ""
    ignores_keys: bool = False  # `partitioner.ignore.keys`, or a partitioner that looks at no key
    sticky_linger_ns: int = 10 * MS  # librdkafka's `sticky.partitioning.linger.ms`
    batch_bytes: int = 16_384  # `batch.size`
    batch_record_count: int = 0  # librdkafka's `batch.num.messages`; 0 is no limit
    linger_ns: int = 0
    buffer_memory_bytes: int = 33_554_432
    max_block_ns: int = 60 * SECOND
    max_request_bytes: int = 1_048_576
    max_in_flight_count: int = 5
    acks: int = -1  # 0, 1, or -1 for all
    is_idempotent: bool = True  # `enable.idempotence`
    retry_count: int = 2_147_483_647  # `retries`
    backoff_ns: int = 100 * MS  # `retry.backoff.ms`
    backoff_max_ns: int = SECOND  # `retry.backoff.max.ms` from 3.7; before, the same as `backoff_ns`
    backoff_jitter_ppm: int = 200_000  # 200,000 from 3.7, before 0
    request_timeout_ns: int = 30 * SECOND
    delivery_timeout_ns: int = 120 * SECOND
    drains_from_shared_index: bool = False  # all nodes share one drain index: before 3.3
    throttles_itself: bool = True  # it holds back for the throttle time a response names: from 2.0
    reconnect_backoff_ns: int = 50 * MS  # `reconnect.backoff.ms`
    mutes_partitions: bool = False  # one batch of a partition in flight at most; always with one request in flight
    drains_ready_only: bool = False  # a request takes no batch that could wait longer
    is_transactional: bool = False  # `transactional.id` is set
    adds_partitions: bool = False  # to a transaction by a request of its own: librdkafka, and Java before 4.0 (KIP-890)
    compression: Compression | None = None


_REPLAYED = ("kafka-clients", "librdkafka")
PLACEMENTS: dict[str, tuple[str, bool, bool]] = {
    name: (strategy.keyless.placement, strategy.keyless.is_adaptive, strategy.hash is None)
    for name, strategy in STRATEGIES.items()
    if strategy.keyless is not None and strategy.keyless.placement and strategy.client in _REPLAYED
}
"""By name of a strategy that replays follow: its placement, whether it is adaptive, whether it ignores keys."""
HASHED_ALWAYS = tuple(name for name, s in STRATEGIES.items() if s.client == "librdkafka" and s.keyless is None)
"""Strategies that hash a missing key too, so that no record is left for a keyless placement."""


ANY_RACK = "*"  # `client.rack` of a producer whose rack is not known: a replay draws one for each run
_NAMED_COUNT = 5  # racks or brokers that a sentence names


def describe_racks(client_rack: str, racks: Mapping[int, str]) -> str:
    """Says where a producer's rack keeps it from nothing, or brokers from it; "" where all is as expected."""
    known = sorted({rack for rack in racks.values() if rack})
    without = sorted(broker_id for broker_id, rack in racks.items() if not rack)
    as_before = "choose as if they were not rack-aware"
    if not known:
        return f"no broker has a rack: rack-aware producers {as_before}"
    if client_rack not in known:
        return f"no broker is in rack {client_rack} (there are {join_names(known, _NAMED_COUNT)}): its producers {as_before}"
    if without:
        brokers, have, them = ("broker", "has", "it") if len(without) == 1 else ("brokers", "have", "them")
        passing = f"pass {them} over while another broker in their rack leads a partition"
        return f"{brokers} {join_names(without, _NAMED_COUNT)} {have} no rack: rack-aware producers {passing}"
    return f"all brokers are in rack {known[0]}: rack-aware producers {as_before}" if len(known) == 1 else ""
