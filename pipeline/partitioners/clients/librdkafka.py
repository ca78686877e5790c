"""librdkafka and all its bindings (Python, Go, .NET, Node, PHP, Rust): the topic property `partitioner`.

Null keys, and empty ones under `consistent_random`, are sticky since 1.6, random per message before and where that is
0.

References: librdkafka `src/rdkafka_msg.c` (`rd_kafka_msg_partitioner_*`, `rd_kafka_msg_sticky_partition`).
"""

from dataclasses import replace

from pipeline.partitioners.hashes import HashName, Mask
from pipeline.partitioners.strategy import ClientSpan, Keyless, KeyRule, Strategy, Use

_STICKY_SINCE = "1.6"
_STICKY = Keyless(
    "sticky for sticky.partitioning.linger.ms, then random; a leaderless one is drawn again once",
    placement="TIMED_STICKY",
)
_PER_MESSAGE = Keyless("random per message; a leaderless one is drawn again once", placement="RANDOM")
_RANDOM = Strategy(
    name="librdkafka-random", client="librdkafka", uses=(Use("partitioner=random", since=_STICKY_SINCE),),
    source="rd_kafka_msg_partitioner_random", empty_key=KeyRule.KEYLESS, keyless=_STICKY,
    differs="a key is not looked at: with one random per message, without one sticky",
)  # fmt: skip  # a table: short fields share a line


def _keyed(value: str, hash_name: HashName, mask: Mask, null_key: KeyRule, empty_key: KeyRule) -> Strategy:
    is_drawn = null_key is KeyRule.KEYLESS
    use = Use(f"partitioner={value}", since=_STICKY_SINCE if is_drawn else "", is_default=value == "consistent_random")
    return Strategy(
        name=f"librdkafka-{value}",
        client="librdkafka",
        uses=(use,),
        source=f"rd_kafka_msg_partitioner_{value}",
        hash=hash_name,
        mask=mask,
        null_key=null_key,
        empty_key=empty_key,
        keyless=_STICKY if is_drawn else None,
        spans=(ClientSpan("2.10.0", "1.6 or later"),) if is_drawn else (),
    )


def _before_sticky(strategy: Strategy) -> Strategy:
    """The same where nothing is sticky: before 1.6, and later with sticky.partitioning.linger.ms=0."""
    use = strategy.uses[0]
    uses = (
        replace(use, since="", before=_STICKY_SINCE),
        replace(use, setting=f"{use.setting}, sticky.partitioning.linger.ms=0", is_default=False),
    )
    spans = (ClientSpan("1.5.3", "before 1.6, or sticky.partitioning.linger.ms=0"),) if strategy.spans else ()
    return replace(strategy, name=f"{strategy.name}-1.5", uses=uses, keyless=_PER_MESSAGE, spans=spans)


_SINCE_STICKY = (
    _RANDOM,
    _keyed("consistent", HashName.CRC32, Mask.NOTHING, KeyRule.HASHED, KeyRule.HASHED),
    _keyed("consistent_random", HashName.CRC32, Mask.NOTHING, KeyRule.KEYLESS, KeyRule.KEYLESS),
    _keyed("murmur2", HashName.MURMUR2, Mask.SIGN_BIT, KeyRule.HASHED, KeyRule.HASHED),
    _keyed("murmur2_random", HashName.MURMUR2, Mask.SIGN_BIT, KeyRule.KEYLESS, KeyRule.HASHED),
    _keyed("fnv1a", HashName.FNV1A, Mask.MAGNITUDE, KeyRule.HASHED, KeyRule.HASHED),
    _keyed("fnv1a_random", HashName.FNV1A, Mask.MAGNITUDE, KeyRule.KEYLESS, KeyRule.HASHED),
)

LIBRDKAFKA = (*_SINCE_STICKY, *(_before_sticky(strategy) for strategy in _SINCE_STICKY if strategy.keyless))
