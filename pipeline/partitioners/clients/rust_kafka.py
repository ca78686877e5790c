"""The Rust crate `kafka` (not `rdkafka`, which is librdkafka): XXH32; on the wire an empty key is a null key.

References:
    kafka-rust `src/producer.rs`, `DefaultPartitioner`.
"""

from pipeline.partitioners.hashes import HashName, Mask
from pipeline.partitioners.strategy import Keyless, KeyRule, Strategy, Use

STRATEGIES = (
    Strategy(
        name="rust-kafka",
        client="kafka (Rust)",
        uses=(Use("DefaultPartitioner", is_default=True),),
        source="producer.rs, DefaultPartitioner",
        hash=HashName.XXH32,
        mask=Mask.NOTHING,
        empty_key=KeyRule.KEYLESS,
        keyless=Keyless("round robin over partitions with a leader, one counter for all topics"),
        differs="XXH32 instead of murmur2; an empty key is no key",
    ),
)
