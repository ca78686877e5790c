"""Clients on the JVM: Apache Kafka's Java producer, from 0.8.2 on, and everything that wraps it; Spring, Scala, Pulsar.

A key is hashed over all partitions, with a leader or not; a key of no bytes is a key. A partition named by the record
wins, as by Spring Cloud Stream, which takes of a byte array the identity. The Scala producer of Kafka 0.7 to 0.10 keeps
a partition for records without a key until the metadata is read again. Pulsar's `keyBytes` travel as Base64.

References: Kafka `clients/producer/**/*Partitioner.java`, `StickyPartitionCache.java`, KIP-480, KIP-794, KIP-1123,
KAFKA-9965, KAFKA-17632, `GroupCoordinatorService.partitionFor`, 0.8.2 `kafka/producer/*Partitioner.scala`;
spring-cloud-stream `PartitionHandler`, `DefaultPartitionSelector`; Pulsar `RoundRobinPartitionMessageRouterImpl`,
`JavaStringHash`, `Murmur3Hash32`, `hashingScheme`.
"""

from dataclasses import replace

from pipeline.partitioners.hashes import HashName, Mask
from pipeline.partitioners.strategy import ClientSpan, KeyForm, Keyless, KeyRule, Strategy, Use

CLIENT = "kafka-clients"
RACK_AWARE = "java-builtin-rack-aware"
IGNORES_KEYS = "java-builtin-ignore-keys"
_NEEDS_BATCHES = "it moves on when a record finds no batch with room, which only the accumulator knows"
_NEEDS_QUEUES = (
    "it moves on by bytes appended and weighs partitions by queued batches, which only the accumulator knows"
)
_IN_TURN = "round robin over partitions with a leader from a random start, one counter for"
_SINCE_4_0 = ClientSpan("4.1.1", "4.0 or later")
_3_3_TO_3_9 = ClientSpan("3.9.1", "3.3 to 3.9")
_3_0_1_TO_3_2 = ClientSpan("3.2.3", "3.0.1 to 3.2")
_2_4_TO_3_1 = ClientSpan("2.8.2", "2.4 to 3.1")
_STICKY_SPANS = (_3_0_1_TO_3_2, _2_4_TO_3_1, ClientSpan("3.9.1", "3.3 to 3.9 with partitioner.class set"))

_KEYED = Strategy(
    name="java-murmur2", client=CLIENT,
    uses=(Use("DefaultPartitioner", since="0.10.2", before="2.4", is_default=True),),
    source="internals.DefaultPartitioner", hash=HashName.MURMUR2,
    keyless=Keyless(f"{_IN_TURN} a topic of a producer", placement="ROUND_ROBIN_OLD"),
)  # fmt: skip  # a table: short fields share a line
_BUILT_IN = replace(
    _KEYED, name="java-builtin", uses=(Use("partitioner.class=null", since="3.3", is_default=True),),
    source="internals.BuiltInPartitioner, KIP-794",
    keyless=Keyless(
        "sticky by bytes, busy partitions less often", simulated=_NEEDS_QUEUES, placement="BUILT_IN",
        is_adaptive=True,
    ),
)  # fmt: skip  # a table: short fields share a line
_STICKY = Keyless(
    "one partition until a batch is full or sent, then another", simulated=_NEEDS_BATCHES, placement="STICKY"
)

JAVA = (
    replace(_KEYED, spans=(ClientSpan("2.3.1", "0.10.2 to 2.3"),)),
    replace(
        _KEYED, name="java-murmur2-0.9",
        uses=(Use("DefaultPartitioner", since="0.9", before="0.10.2", is_default=True),),
        keyless=Keyless(f"{_IN_TURN} all topics of a producer"),
    ),
    replace(
        _KEYED, name="java-murmur2-0.8.2",
        uses=(Use("internals.Partitioner", since="0.8.2", before="0.9", is_default=True),),
        source="internals.Partitioner",
        keyless=Keyless(
            "round robin over all from a random start, leaderless ones skipped, one counter for all topics",
        ),
    ),
    replace(_BUILT_IN, spans=(_3_3_TO_3_9, _SINCE_4_0)),
    replace(
        _BUILT_IN, name="java-builtin-uniform",
        uses=(Use("partitioner.adaptive.partitioning.enable=false", since="3.3"),),
        keyless=Keyless("sticky by bytes, all partitions alike", simulated=_NEEDS_QUEUES, placement="BUILT_IN"),
    ),
    replace(
        _BUILT_IN, name=RACK_AWARE, uses=(Use("partitioner.rack.aware=true", since="4.4"),),
        source="internals.BuiltInPartitioner, KIP-1123",
        keyless=Keyless(
            "as java-builtin, among partitions led in the client's rack if there are any", simulated=_NEEDS_QUEUES,
            placement="BUILT_IN", is_adaptive=True,
        ),
        spans=(ClientSpan("4.4.0", "4.4 or later"),),
        described=(
            "the rack-aware partitioner of Kafka clients 4.4 and later: records without a key go to leaders in the producer's "
            "own rack, so that brokers carry what their racks' producers send"
        ),
    ),
    replace(
        _BUILT_IN, name="java-builtin-kip-794-draft", uses=(Use("the draft of KIP-794, in no release"),),
        source="KIP-794 before KAFKA-14156",
        keyless=Keyless(
            "sticky, moving on after batch.size bytes whether a batch is full or not", simulated=_NEEDS_QUEUES,
            placement="BUILT_IN_DRAFT", is_adaptive=True,
        ),
    ),
    replace(
        _BUILT_IN, name=IGNORES_KEYS, uses=(Use("partitioner.ignore.keys=true", since="3.3"),), hash=None,
        spans=(_3_3_TO_3_9, _SINCE_4_0),
    ),
    replace(
        _KEYED, name="java-sticky-2.4",
        uses=(
            Use("DefaultPartitioner", since="2.4", before="3.3", is_default=True),
            Use("DefaultPartitioner", since="3.3", before="4.0"),
        ),
        source="internals.DefaultPartitioner, KIP-480", keyless=_STICKY, spans=_STICKY_SPANS,
        described=(
            "the sticky partitioner of Kafka clients 2.4 to 3.2: it moves on with each new batch, so that a broker that answers "
            "late gets fuller batches and more of the records"
        ),
        is_outdated=True,
    ),
    replace(
        _KEYED, name="java-uniform-sticky", uses=(Use("UniformStickyPartitioner", since="2.4", before="4.0"),),
        source="UniformStickyPartitioner, KIP-480", hash=None, keyless=_STICKY, spans=_STICKY_SPANS,
    ),
    replace(
        _KEYED, name="java-round-robin-2.4", uses=(Use("RoundRobinPartitioner", since="2.4", before="3.9.2"),),
        source="RoundRobinPartitioner, with KAFKA-9965", hash=None,
        keyless=Keyless(
            "round robin from 0; a record without an open batch takes two turns", simulated=_NEEDS_BATCHES,
            placement="ROUND_ROBIN_TWO_TURN",
        ),
        spans=(
            ClientSpan("3.9.1", "3.0.1 to 3.9.1 with RoundRobinPartitioner"),
            ClientSpan("2.8.2", "2.4 to 3.1 with RoundRobinPartitioner"),
        ),
        described="the round-robin partitioner before 3.9.2, which can pass over half of the partitions",
        is_outdated=True,
    ),
    replace(
        _KEYED, name="java-round-robin-3.9.2", uses=(Use("RoundRobinPartitioner", since="3.9.2"),),
        source="RoundRobinPartitioner, after KAFKA-17632", hash=None,
        keyless=Keyless("round robin from 0 over partitions with a leader", placement="ROUND_ROBIN"),
        spans=(ClientSpan("4.1.1", "3.9.2 or later with RoundRobinPartitioner"),),
    ),
)  # fmt: skip  # a table: short fields share a line


_SPRING = Strategy(
    name="spring-cloud-stream", client="spring-cloud-stream",
    uses=(Use("partition-key-expression, text", is_default=True),), source="PartitionHandler",
    hash=HashName.JAVA_STRING, mask=Mask.MAGNITUDE_OR_ZERO, form=KeyForm.TEXT, null_key=KeyRule.REFUSED,
    differs="Java's string hash of the partition key expression's value",
)  # fmt: skip  # a table: short fields share a line

JAVA_STRING = (
    _SPRING,
    replace(
        _SPRING, name="spring-cloud-stream-byte-array", uses=(Use("partition-key-expression, byte[]"),), hash=None,
        null_key=KeyRule.KEYLESS, keyless=Keyless("the array's identity, in effect random"),
        differs="hashes the array object, not its bytes",
    ),
    replace(
        _SPRING, name="consumer-group-coordinator", client="kafka (broker)",
        uses=(Use("group.id on __consumer_offsets", is_default=True),),
        source="GroupCoordinatorService.partitionFor",
        differs="the group's partition of __consumer_offsets; its leader coordinates the group",
    ),
)  # fmt: skip  # a table: short fields share a line


_SCALA = Strategy(
    name="scala-default", client="kafka (Scala producer)",
    uses=(Use("kafka.producer.DefaultPartitioner", since="0.7", before="0.11", is_default=True),),
    source="kafka.producer.DefaultPartitioner", hash=HashName.JAVA_STRING, mask=Mask.MAGNITUDE_OR_ZERO,
    form=KeyForm.TEXT, keyless=Keyless("one random partition with a leader, until the metadata is read again"),
    differs="Java's hash of the key as an object, not murmur2 of its bytes",
)  # fmt: skip  # a table: short fields share a line

SCALA = (
    _SCALA,
    replace(
        _SCALA, name="scala-byte-array",
        uses=(Use("kafka.producer.ByteArrayPartitioner", since="0.8", before="0.11"),),
        source="kafka.producer.ByteArrayPartitioner", hash=HashName.JAVA_ARRAY, form=KeyForm.BYTES,
    ),
)  # fmt: skip  # a table: short fields share a line


_PULSAR = Strategy(
    name="pulsar-java-string", client="pulsar-client",
    uses=(Use("hashingScheme=JavaStringHash, key", is_default=True),),
    source="RoundRobinPartitionMessageRouterImpl, JavaStringHash", hash=HashName.JAVA_STRING, form=KeyForm.TEXT,
    keyless=Keyless("the 10 ms slot of the clock, plus a random start"), differs="Java's string hash",
)  # fmt: skip  # a table: short fields share a line
_PULSAR_MURMUR3 = replace(
    _PULSAR, name="pulsar-murmur3", uses=(Use("hashingScheme=Murmur3_32Hash, key"),),
    source="RoundRobinPartitionMessageRouterImpl, Murmur3Hash32", hash=HashName.MURMUR3, differs="murmur3",
)  # fmt: skip  # a table: short fields share a line

PULSAR = (
    _PULSAR,
    _PULSAR_MURMUR3,
    replace(
        _PULSAR, name="pulsar-java-string-key-bytes",
        uses=(Use("hashingScheme=JavaStringHash, keyBytes", is_default=True),), form=KeyForm.BASE64,
    ),
    replace(
        _PULSAR_MURMUR3, name="pulsar-murmur3-key-bytes", uses=(Use("hashingScheme=Murmur3_32Hash, keyBytes"),),
        form=KeyForm.BASE64,
    ),
)  # fmt: skip  # a table: short fields share a line
