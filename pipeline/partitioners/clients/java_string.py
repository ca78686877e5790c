"""Java's string hash with `abs`: Spring Cloud Stream, and the broker that coordinates a consumer group.

Spring's selector takes any object: of a byte array it takes the identity, which is not a function of the bytes. The
partition is set on the record, so that no Kafka partitioner is asked. spring-kafka has no rule of its own (Java's).

References:
    spring-cloud-stream `PartitionHandler`, `DefaultPartitionSelector`; Kafka `GroupCoordinatorService.partitionFor`,
    `offsets.topic.num.partitions` (50).
"""

from dataclasses import replace

from pipeline.partitioners.hashes import HashName, Mask
from pipeline.partitioners.strategy import KeyForm, Keyless, KeyRule, Strategy, Use

_SPRING = Strategy(
    name="spring-cloud-stream",
    client="spring-cloud-stream",
    uses=(Use("partition-key-expression, text", is_default=True),),
    source="PartitionHandler",
    hash=HashName.JAVA_STRING,
    mask=Mask.MAGNITUDE_OR_ZERO,
    form=KeyForm.TEXT,
    null_key=KeyRule.REFUSED,
    differs="Java's string hash of the partition key expression's value",
)

STRATEGIES = (
    _SPRING,
    replace(
        _SPRING,
        name="spring-cloud-stream-byte-array",
        uses=(Use("partition-key-expression, byte[]"),),
        hash=None,
        null_key=KeyRule.KEYLESS,
        keyless=Keyless("the array's identity, in effect random"),
        differs="hashes the array object, not its bytes",
    ),
    replace(
        _SPRING,
        name="consumer-group-coordinator",
        client="kafka (broker)",
        uses=(Use("group.id on __consumer_offsets", is_default=True),),
        source="GroupCoordinatorService.partitionFor",
        differs="the group's partition of __consumer_offsets; its leader coordinates the group",
    ),
)
