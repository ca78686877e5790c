"""Sarama (Go, IBM, once Shopify): one partitioner per topic.

Without a key the pick is an index into the writable partitions. Whether there is a key is asked of the `Key` interface:
`StringEncoder("")` and `ByteEncoder(nil)` are keys of no bytes. Before 1.50 it had no murmur2: set-ups called
Java-compatible used the reference hash, which is FNV-1a.

References:
    Sarama `partitioner.go`, `async_producer.go#partitionMessage`.
"""

from dataclasses import replace

from pipeline.partitioners.hashes import HashName, Mask
from pipeline.partitioners.strategy import Keyless, KeyRule, Strategy, Use

_RANDOM = Keyless("random over writable partitions", placement="RANDOM")
_IN_TURN = Keyless("0, 1, 2 … over writable partitions", placement="ROUND_ROBIN")


def _strategy(name: str, setting: str, hash_name: HashName | None, mask: Mask, *, since: str = "") -> Strategy:
    use = Use(setting, since=since, is_default=name == "hash")
    source = f"partitioner.go, {setting}"
    return Strategy(f"sarama-{name}", "sarama", (use,), source, hash_name, mask, keyless=_RANDOM)


_HASH = _strategy("hash", "NewHashPartitioner", HashName.FNV1A, Mask.MAGNITUDE)
_CUSTOM = "NewCustomHashPartitioner(crc32.NewIEEE)"

STRATEGIES = (
    _HASH,
    replace(
        _HASH,
        name="sarama-hash-nil-encoder",
        uses=(Use("NewHashPartitioner, keys as ByteEncoder(nil)"),),
        null_key=KeyRule.HASHED,
        keyless=None,
    ),
    _strategy("reference-hash", "NewReferenceHashPartitioner", HashName.FNV1A, Mask.SIGN_BIT),
    _strategy("crc", "NewConsistentCRCHashPartitioner", HashName.CRC32, Mask.NOTHING, since="1.41"),
    _strategy("murmur2", "NewMurmur2Partitioner", HashName.MURMUR2, Mask.SIGN_BIT, since="1.50"),
    _strategy("abs-first", "NewCustomPartitioner(WithAbsFirst, crc32.NewIEEE)", HashName.CRC32, Mask.SIGN_BIT),
    _strategy("hash-unsigned", "NewCustomPartitioner(WithHashUnsigned, fnv.New32a)", HashName.FNV1A, Mask.NOTHING),
    _strategy("custom-crc", _CUSTOM, HashName.CRC32, Mask.MAGNITUDE),
    _strategy("random", "NewRandomPartitioner", None, Mask.NOTHING),
    replace(_strategy("round-robin", "NewRoundRobinPartitioner", None, Mask.NOTHING), keyless=_IN_TURN),
)
