"""Redpanda's own producer, used by its HTTP proxy, schema registry and audit log; `rpk` is franz-go.

References:
    Redpanda `src/v/kafka/client/partitioners.cc`.
"""

from pipeline.partitioners.hashes import HashName, Mask
from pipeline.partitioners.strategy import Keyless, KeyRule, Strategy, Use

STRATEGIES = (
    Strategy(
        name="redpanda-proxy",
        client="redpanda",
        uses=(Use("pandaproxy", is_default=True),),
        source="kafka/client/partitioners.cc",
        hash=HashName.MURMUR2,
        mask=Mask.NOTHING,
        empty_key=KeyRule.KEYLESS,
        keyless=Keyless("round robin over all partitions from a given start"),
        differs="murmur2 is taken as unsigned; an empty key is no key",
    ),
)
