"""Apache Pulsar's Java client, for bridges: a key is a text; `keyBytes` travel, and are hashed, as Base64.

References:
    Pulsar `RoundRobinPartitionMessageRouterImpl`, `JavaStringHash`, `Murmur3Hash32`; `hashingScheme`.
"""

from dataclasses import replace

from pipeline.partitioners.hashes import HashName
from pipeline.partitioners.strategy import KeyForm, Keyless, Strategy, Use

_JAVA_STRING = Strategy(
    name="pulsar-java-string",
    client="pulsar-client",
    uses=(Use("hashingScheme=JavaStringHash, key", is_default=True),),
    source="RoundRobinPartitionMessageRouterImpl, JavaStringHash",
    hash=HashName.JAVA_STRING,
    form=KeyForm.TEXT,
    keyless=Keyless("the 10 ms slot of the clock, plus a random start"),
    differs="Java's string hash",
)
_MURMUR3 = replace(
    _JAVA_STRING,
    name="pulsar-murmur3",
    uses=(Use("hashingScheme=Murmur3_32Hash, key"),),
    source="RoundRobinPartitionMessageRouterImpl, Murmur3Hash32",
    hash=HashName.MURMUR3,
    differs="murmur3",
)

STRATEGIES = (
    _JAVA_STRING,
    _MURMUR3,
    replace(
        _JAVA_STRING,
        name="pulsar-java-string-key-bytes",
        uses=(Use("hashingScheme=JavaStringHash, keyBytes", is_default=True),),
        form=KeyForm.BASE64,
    ),
    replace(
        _MURMUR3,
        name="pulsar-murmur3-key-bytes",
        uses=(Use("hashingScheme=Murmur3_32Hash, keyBytes"),),
        form=KeyForm.BASE64,
    ),
)
