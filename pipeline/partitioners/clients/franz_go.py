"""franz-go (Go), and `rpk topic produce`.

`SaramaHasher` is not Sarama's choice but the unsigned remainder (librdkafka's, for CRC-32) on 64-bit machines; on
32-bit ones, and as `SaramaCompatHasher` (1.16) everywhere, it is Sarama's. A nil key is no key, an empty slice is hashed.

Where KIP-480 draws until the partition is another one, `StickyPartitioner` takes the neighbour of a partition drawn twice
in a row, which is then twice as likely. Unlike KIP-794, `UniformBytesPartitioner` weighs by 1 / (buffered records + 1) and
does not wait for a batch to be full.

From 1.22 `RackAwarePartitioning` with `Rack` shows any partitioner only the writable partitions led in the client's rack, where
there are any and the record needs no consistent one (KIP-1123).

References:
    franz-go `pkg/kgo/partitioner.go`; its pull request 1347.
"""

from pipeline.partitioners.hashes import HashName, Mask
from pipeline.partitioners.strategy import Keyless, Strategy, Use

_STICKY = Keyless(
    "one writable partition until a batch is full or sent, then another; never the same twice",
    simulated="it moves on with a new batch, which only the producer's buffers know",
    placement="STICKY_NEIGHBOUR",
)
_UNIFORM = Keyless(
    "64 KiB to one writable partition, then another, busy ones less often",
    simulated="it weighs partitions by buffered records, which only the producer's buffers know",
    placement="UNIFORM_BYTES",
)
_LEAST_BACKUP = Keyless(
    "the writable partition with the fewest buffered records, until a batch is full or sent",
    simulated="it looks at buffered records, which only the producer knows",
    placement="LEAST_BACKUP",
)
_IN_TURN = Keyless("0, 1, 2 … over writable partitions", placement="ROUND_ROBIN")


def _strategy(
    name: str, setting: str, hash_name: HashName | None, mask: Mask = Mask.SIGN_BIT, keyless: Keyless = _STICKY
) -> Strategy:
    source = "pkg/kgo/partitioner.go"
    return Strategy(f"franz-go-{name}", "franz-go", (Use(setting),), source, hash_name, mask, keyless=keyless)


STRATEGIES = (
    Strategy(
        name="franz-go-default",
        client="franz-go",
        uses=(
            Use("UniformBytesPartitioner(65536, true, true, nil)", since="1.5.3", is_default=True),
            Use("StickyKeyPartitioner(nil)", before="1.5.3", is_default=True),
            Use("StickyKeyPartitioner(nil)", since="1.5.3"),
        ),
        source="pkg/kgo/partitioner.go",
        hash=HashName.MURMUR2,
        keyless=_UNIFORM,
    ),
    _strategy("sarama-hasher", "SaramaHasher(fnv32a)", HashName.FNV1A, Mask.NOTHING),
    _strategy("sarama-hasher-crc32", "SaramaHasher(crc32)", HashName.CRC32, Mask.NOTHING),
    _strategy("sarama-compat-hasher", "SaramaCompatHasher(fnv32a)", HashName.FNV1A, Mask.MAGNITUDE),
    _strategy("sarama-compat-hasher-crc32", "SaramaCompatHasher(crc32)", HashName.CRC32, Mask.MAGNITUDE),
    _strategy("kafka-hasher-crc32", "KafkaHasher(crc32)", HashName.CRC32),
    _strategy("kafka-hasher-fnv1a", "KafkaHasher(fnv32a)", HashName.FNV1A),
    _strategy("sticky", "StickyPartitioner()", None),
    _strategy("least-backup", "LeastBackupPartitioner()", None, keyless=_LEAST_BACKUP),
    _strategy("round-robin", "RoundRobinPartitioner()", None, keyless=_IN_TURN),
)
