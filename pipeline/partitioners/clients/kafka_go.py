"""segmentio/kafka-go: the writer's balancer, round robin for every record unless set, over all partitions.

References:
    kafka-go `balancer.go`. Before August 2019 (commit c2af8e7) `Hash` was not Sarama's where the top bit is set.
"""

from pipeline.partitioners.hashes import HashName, Mask
from pipeline.partitioners.strategy import Keyless, KeyRule, Strategy, Use

_IN_TURN = Keyless("round robin over all partitions from 0", placement="ROUND_ROBIN")
_RANDOM = Keyless("random over all partitions", placement="RANDOM")
_LEAST_BYTES = Keyless("the partition with the fewest bytes so far, the lowest of equals")


def _strategy(
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


STRATEGIES = (
    _strategy("round-robin", "RoundRobin", None, keyless=_IN_TURN),
    _strategy("least-bytes", "LeastBytes", None, keyless=_LEAST_BYTES),
    _strategy("hash", "Hash", HashName.FNV1A, Mask.MAGNITUDE, _IN_TURN),
    _strategy("hash-crc32", "Hash{Hasher: crc32.NewIEEE}", HashName.CRC32, Mask.MAGNITUDE, _IN_TURN),
    _strategy("reference-hash", "ReferenceHash", HashName.FNV1A, Mask.SIGN_BIT),
    _strategy("crc32", "CRC32Balancer", HashName.CRC32),
    _strategy("crc32-consistent", "CRC32Balancer{Consistent: true}", HashName.CRC32, keyless=None),
    _strategy("murmur2", "Murmur2Balancer", HashName.MURMUR2, Mask.SIGN_BIT),
    _strategy("murmur2-consistent", "Murmur2Balancer{Consistent: true}", HashName.MURMUR2, Mask.SIGN_BIT, None),
)
