"""The Scala producer of Kafka 0.7 to 0.10, `kafka.producer`; its key is an object, here a String or a byte array.

A record without a key goes to one random partition with a leader, kept until the metadata is read again
(`topic.metadata.refresh.interval.ms`, 10 minutes).

References:
    Kafka 0.8.2.0 `core/src/main/scala/kafka/producer/{DefaultPartitioner,ByteArrayPartitioner}.scala`.
"""

from dataclasses import replace

from pipeline.partitioners.hashes import HashName, Mask
from pipeline.partitioners.strategy import KeyForm, Keyless, Strategy, Use

_DEFAULT = Strategy(
    name="scala-default",
    client="kafka (Scala producer)",
    uses=(Use("kafka.producer.DefaultPartitioner", since="0.7", before="0.11", is_default=True),),
    source="kafka.producer.DefaultPartitioner",
    hash=HashName.JAVA_STRING,
    mask=Mask.MAGNITUDE_OR_ZERO,
    form=KeyForm.TEXT,
    keyless=Keyless("one random partition with a leader, until the metadata is read again"),
    differs="Java's hash of the key as an object, not murmur2 of its bytes",
)

STRATEGIES = (
    _DEFAULT,
    replace(
        _DEFAULT,
        name="scala-byte-array",
        uses=(Use("kafka.producer.ByteArrayPartitioner", since="0.8", before="0.11"),),
        source="kafka.producer.ByteArrayPartitioner",
        hash=HashName.JAVA_ARRAY,
        form=KeyForm.BYTES,
    ),
)
