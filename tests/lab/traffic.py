"""What the capture's clients do: topics, producers and the group, as values.

Topics with three or twelve partitions lead partition ``i`` from broker ``i % 3``.
"""

from dataclasses import dataclass, field

KEYLESS_RATE_PER_S = 500
KEYLESS_BYTES = 300
SEGMENT_BYTES = 16 * 1024 * 1024
DEFAULT_LINGER_MS = {"3.2.3": 0, "3.9.1": 0, "4.1.1": 5, "librdkafka": 5}
CODECS = ("gzip", "snappy", "lz4", "zstd")
SLOW_BROKER = 1
SLOW_MS = 20
GROUP = "clicks-readers"
GROUP_TOPIC = "clicks"
GROUP_MEMBERS = ("clicks-reader-a", "clicks-reader-b")


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic and where its replicas lie: one tuple of broker ids per partition, preferred leader first."""

    name: str
    placement: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class PerfLoad:
    """Keyless records from the perf tool of one client version, with that version's defaults."""

    topic: str
    client_version: str

    @property
    def client_id(self) -> str:
        """As metrics show it."""
        return f"{self.topic}-producer"


@dataclass(frozen=True, slots=True)
class KeyedStream:
    """One stream of `KeyedLoad.java`; the fields are its arguments."""

    topic: str
    keys: str
    rate_per_s: float
    value_bytes: int
    settings: dict[str, str] = field(default_factory=dict)

    @property
    def client_id(self) -> str:
        """As metrics show it."""
        return f"{self.topic}-producer"

    def format_argument(self) -> str:
        """The stream as `KeyedLoad.java` reads it."""
        pairs = {
            "topic": self.topic,
            "client.id": self.client_id,
            "keys": self.keys,
            "rate": self.rate_per_s,
            "bytes": self.value_bytes,
            **self.settings,
        }
        return ";".join(f"{key}={value}" for key, value in pairs.items())


def _spread(partitions: int, replicas: int = 1) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple((partition + i) % 3 for i in range(replicas)) for partition in range(partitions))


PERF_LOADS = (
    PerfLoad("orders", "3.2.3"),  # KIP-480 sticky, linger 0
    PerfLoad("refunds", "3.9.1"),  # built-in partitioner, linger 0
    PerfLoad("payments", "4.1.1"),  # built-in partitioner, linger 5
)

# One Java process per entry; the last is an application with several producers.
KEYED_PROCESSES: dict[str, tuple[KeyedStream, ...]] = {
    "clicks": (KeyedStream("clicks", "user-:400:1.2", 50, 200),),
    "regions": (KeyedStream("regions", "region-:24:0", 20, 200, {"place": "range"}),),
    "audit": (KeyedStream("audit", "actor-:3000:0", 20, 200),),
    "jobs": (
        *(
            KeyedStream(f"codec-{codec}", "item-:300:0", 6, 400, {"compression.type": codec, "linger.ms": "3000"})
            for codec in CODECS
        ),
        KeyedStream(
            "ledger", "account-:300:0", 10, 200, {
                "transactional.id": "ledger",
                "transaction.records": "20",
                "max.in.flight.requests.per.connection": "1",  # or the first batches of a transaction overtake
            },
        ),
    ),
}  # fmt: skip
LIBRDKAFKA_RATE_PER_S = 20

TOPICS = (
    *(Topic(load.topic, _spread(3)) for load in PERF_LOADS),
    Topic("clicks", _spread(12)),
    Topic("devices", _spread(12)),
    Topic("regions", _spread(12)),
    Topic("audit", _spread(6, replicas=3)),
    *(Topic(f"codec-{codec}", _spread(3)) for codec in CODECS),
    Topic("ledger", _spread(3)),
)
