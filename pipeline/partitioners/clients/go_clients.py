"""Clients in Go: franz-go (and `rpk topic produce`), Sarama, segmentio/kafka-go.

franz-go's `SaramaHasher` is the unsigned remainder (librdkafka's, for CRC-32) on 64-bit machines; on 32-bit ones, and
as `SaramaCompatHasher` (1.16) everywhere, it is Sarama's. A nil key is no key, an empty slice is hashed. Its
`StickyPartitioner` takes the neighbour of a partition drawn twice in a row, which is then twice as likely;
`UniformBytesPartitioner` weighs by 1 / (buffered records + 1) and does not wait for a batch to be full. From 1.22
`RackAwarePartitioning` shows any partitioner only writable partitions led in the client's rack (KIP-1123).

Of Sarama `StringEncoder("")` and `ByteEncoder(nil)` are keys of no bytes; before 1.50 it had no murmur2: set-ups called
Java-compatible used the reference hash, which is FNV-1a. kafka-go is round robin for every record unless set.

References: franz-go `pkg/kgo/partitioner.go`, its pull request 1347; Sarama `partitioner.go`,
`async_producer.go#partitionMessage`; kafka-go `balancer.go`, before commit c2af8e7 not Sarama's with the top bit set.
"""

from dataclasses import replace

from pipeline.partitioners.hashes import HashName, Mask
from pipeline.partitioners.strategy import Keyless, KeyRule, Strategy, Use

_STICKY = Keyless(
    "one writable partition until a batch is full or sent, then another; never the same twice",
    simulated="it moves on with a new batch, which only the producer's buffers know", placement="STICKY_NEIGHBOUR",
)  # fmt: skip  # a table: short fields share a line
_UNIFORM = Keyless(
    "64 KiB to one writable partition, then another, busy ones less often",
    simulated="it weighs partitions by buffered records, which only the producer's buffers know",
    placement="UNIFORM_BYTES",
)
_LEAST_BACKUP = Keyless(
    "the writable partition with the fewest buffered records, until a batch is full or sent",
    simulated="it looks at buffered records, which only the producer knows", placement="LEAST_BACKUP",
)  # fmt: skip  # a table: short fields share a line
_WRITABLE_IN_TURN = Keyless("0, 1, 2 … over writable partitions", placement="ROUND_ROBIN")


def _franz_go(
    name: str, setting: str, hash_name: HashName | None, mask: Mask = Mask.SIGN_BIT, keyless: Keyless = _STICKY
) -> Strategy:
    source = "pkg/kgo/partitioner.go"
    return Strategy(f"franz-go-{name}", "franz-go", (Use(setting),), source, hash_name, mask, keyless=keyless)


FRANZ_GO = (
    Strategy(
        name="franz-go-default", client="franz-go",
        uses=(
            Use("UniformBytesPartitioner(65536, true, true, nil)", since="1.5.3", is_default=True),
            Use("StickyKeyPartitioner(nil)", before="1.5.3", is_default=True),
            Use("StickyKeyPartitioner(nil)", since="1.5.3"),
        ),
        source="pkg/kgo/partitioner.go", hash=HashName.MURMUR2, keyless=_UNIFORM,
    ),
    _franz_go("sarama-hasher", "SaramaHasher(fnv32a)", HashName.FNV1A, Mask.NOTHING),
    _franz_go("sarama-hasher-crc32", "SaramaHasher(crc32)", HashName.CRC32, Mask.NOTHING),
    _franz_go("sarama-compat-hasher", "SaramaCompatHasher(fnv32a)", HashName.FNV1A, Mask.MAGNITUDE),
    _franz_go("sarama-compat-hasher-crc32", "SaramaCompatHasher(crc32)", HashName.CRC32, Mask.MAGNITUDE),
    _franz_go("kafka-hasher-crc32", "KafkaHasher(crc32)", HashName.CRC32),
    _franz_go("kafka-hasher-fnv1a", "KafkaHasher(fnv32a)", HashName.FNV1A),
    _franz_go("sticky", "StickyPartitioner()", None),
    _franz_go("least-backup", "LeastBackupPartitioner()", None, keyless=_LEAST_BACKUP),
    _franz_go("round-robin", "RoundRobinPartitioner()", None, keyless=_WRITABLE_IN_TURN),
)  # fmt: skip  # a table: short fields share a line


_WRITABLE_RANDOM = Keyless("random over writable partitions", placement="RANDOM")


def _sarama(name: str, setting: str, hash_name: HashName | None, mask: Mask, *, since: str = "") -> Strategy:
    use = Use(setting, since=since, is_default=name == "hash")
    source = f"partitioner.go, {setting}"
    return Strategy(f"sarama-{name}", "sarama", (use,), source, hash_name, mask, keyless=_WRITABLE_RANDOM)


_HASH = _sarama("hash", "NewHashPartitioner", HashName.FNV1A, Mask.MAGNITUDE)
_CUSTOM = "NewCustomHashPartitioner(crc32.NewIEEE)"

SARAMA = (
    _HASH,
    replace(
        _HASH, name="sarama-hash-nil-encoder", uses=(Use("NewHashPartitioner, keys as ByteEncoder(nil)"),),
        null_key=KeyRule.HASHED, keyless=None,
    ),
    _sarama("reference-hash", "NewReferenceHashPartitioner", HashName.FNV1A, Mask.SIGN_BIT),
    _sarama("crc", "NewConsistentCRCHashPartitioner", HashName.CRC32, Mask.NOTHING, since="1.41"),
    _sarama("murmur2", "NewMurmur2Partitioner", HashName.MURMUR2, Mask.SIGN_BIT, since="1.50"),
    _sarama("abs-first", "NewCustomPartitioner(WithAbsFirst, crc32.NewIEEE)", HashName.CRC32, Mask.SIGN_BIT),
    _sarama("hash-unsigned", "NewCustomPartitioner(WithHashUnsigned, fnv.New32a)", HashName.FNV1A, Mask.NOTHING),
    _sarama("custom-crc", _CUSTOM, HashName.CRC32, Mask.MAGNITUDE),
    _sarama("random", "NewRandomPartitioner", None, Mask.NOTHING),
    replace(_sarama("round-robin", "NewRoundRobinPartitioner", None, Mask.NOTHING), keyless=_WRITABLE_IN_TURN),
)  # fmt: skip  # a table: short fields share a line


_IN_TURN = Keyless("round robin over all partitions from 0", placement="ROUND_ROBIN")
_RANDOM = Keyless("random over all partitions", placement="RANDOM")
_LEAST_BYTES = Keyless("the partition with the fewest bytes so far, the lowest of equals")


def _kafka_go(
    name: str, setting: str, hash_name: HashName | None, mask: Mask = Mask.NOTHING, keyless: Keyless | None = _RANDOM
) -> Strategy:
    null_key = KeyRule.HASHED if keyless is None else KeyRule.KEYLESS
    return Strategy(
        name=f"kafka-go-{name}",
        client="kafka-go",
        uses=(Use(setting, is_default=name == "round-robin"),),
        source=f"balancer.go, {setting}",
        hash=hash_name,
        mask=mask,
        null_key=null_key,
        # both CRC-32 balancers ask for the key's length, the others whether it is nil
        empty_key=null_key if hash_name is HashName.CRC32 and mask is Mask.NOTHING else KeyRule.HASHED,
        keyless=keyless,
    )


KAFKA_GO = (
    _kafka_go("round-robin", "RoundRobin", None, keyless=_IN_TURN),
    _kafka_go("least-bytes", "LeastBytes", None, keyless=_LEAST_BYTES),
    _kafka_go("hash", "Hash", HashName.FNV1A, Mask.MAGNITUDE, _IN_TURN),
    _kafka_go("hash-crc32", "Hash{Hasher: crc32.NewIEEE}", HashName.CRC32, Mask.MAGNITUDE, _IN_TURN),
    _kafka_go("reference-hash", "ReferenceHash", HashName.FNV1A, Mask.SIGN_BIT),
    _kafka_go("crc32", "CRC32Balancer", HashName.CRC32),
    _kafka_go("crc32-consistent", "CRC32Balancer{Consistent: true}", HashName.CRC32, keyless=None),
    _kafka_go("murmur2", "Murmur2Balancer", HashName.MURMUR2, Mask.SIGN_BIT),
    _kafka_go("murmur2-consistent", "Murmur2Balancer{Consistent: true}", HashName.MURMUR2, Mask.SIGN_BIT, None),
)
