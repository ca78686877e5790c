"""KafkaJS and platformatic/kafka for Node, kafka-python and aiokafka, Redpanda's own producer, the Rust crate `kafka`.

KafkaJS counts with a random start. Platformatic's default takes murmur2 as unsigned: other partitions than Java's for
half of all keys, unless their count is a power of two. Since 3.0 kafka-python asks any partitioner a second time for a
record without a key that finds no open batch, so partitions whose batches stay open for longer get more records.
Redpanda's HTTP proxy, schema registry and audit log use its own producer. Of the Rust crate an empty key is a null key.

References: KafkaJS `src/producer/partitioners/`; platformatic/kafka `src/clients/producer/{partitioners,producer}.ts`;
kafka-python `kafka/partitioner/`; aiokafka `aiokafka/partitioner.py`; Redpanda `src/v/kafka/client/partitioners.cc`;
kafka-rust `src/producer.rs`, `DefaultPartitioner`.
"""

from dataclasses import replace

from pipeline.partitioners.hashes import HashName, Mask
from pipeline.partitioners.strategy import Availability, KeyForm, Keyless, KeyRule, Strategy, Use

_KAFKAJS = Strategy(
    name="kafkajs", client="kafkajs",
    uses=(Use("DefaultPartitioner", since="2.0", is_default=True), Use("JavaCompatiblePartitioner", since="1.8")),
    source="producer/partitioners/default", hash=HashName.MURMUR2,
    keyless=Keyless("round robin over partitions with a leader from a random start", placement="ROUND_ROBIN_OLD"),
)  # fmt: skip  # a table: short fields share a line
_PLATFORMATIC = Strategy(
    name="platformatic", client="platformatic/kafka", uses=(Use("Producer", is_default=True),),
    source="producer.ts, defaultPartitioner", hash=HashName.MURMUR2, mask=Mask.NOTHING,
    keyless=Keyless("round robin over all partitions from 0", placement="ROUND_ROBIN"),
    differs="murmur2 is taken as unsigned",
)  # fmt: skip  # a table: short fields share a line

NODE = (
    _KAFKAJS,
    replace(
        _KAFKAJS, name="kafkajs-legacy",
        uses=(Use("DefaultPartitioner", before="2.0", is_default=True), Use("LegacyPartitioner", since="2.0")),
        source="producer/partitioners/legacy", hash=HashName.KAFKAJS_MURMUR2,
        differs="murmur2 computed in doubles, and the last bytes twice",
    ),
    replace(
        _KAFKAJS, name="kafkajs-uint8array", uses=(Use("DefaultPartitioner, keys as Uint8Array"),),
        form=KeyForm.DECIMALS,
        differs="a byte array that is not a Buffer is turned into text such as 1,2,3 before it is hashed",
    ),
    _PLATFORMATIC,
    replace(
        _PLATFORMATIC, name="platformatic-default-partitioner", uses=(Use("partitioner=defaultPartitioner"),),
        null_key=KeyRule.FIRST, keyless=None,
    ),
    replace(
        _PLATFORMATIC, name="platformatic-compatibility",
        uses=(Use("partitioner=compatibilityPartitioner", since="1.32"),),
        source="partitioners.ts, compatibilityPartitioner", mask=Mask.SIGN_BIT, null_key=KeyRule.FIRST,
        keyless=None, differs="a record without a key goes to partition 0",
    ),
)  # fmt: skip  # a table: short fields share a line


_KAFKA_PYTHON = Strategy(
    name="kafka-python", client="kafka-python", uses=(Use("DefaultPartitioner", since="1.0", is_default=True),),
    source="kafka/partitioner/default.py", hash=HashName.MURMUR2,
    keyless=Keyless(
        "random over partitions with a leader; since 3.0 drawn again where no batch is open",
        placement="RANDOM_TWO_DRAWS",
    ),
)  # fmt: skip  # a table: short fields share a line

PYTHON = (
    _KAFKA_PYTHON,
    replace(
        _KAFKA_PYTHON, name="kafka-python-sticky", uses=(Use("StickyPartitioner", since="3.0"),),
        source="kafka/partitioner/sticky.py, KIP-480",
        keyless=Keyless(
            "one partition until a batch is full or sent, or its leader is lost; then another",
            simulated="it moves on with a new batch, which only the accumulator knows", placement="STICKY",
        ),
    ),
    replace(
        _KAFKA_PYTHON, name="kafka-python-murmur2-1.4",
        uses=(Use("Murmur2Partitioner", since="1.0", before="1.4.8"),), source="kafka/partitioner/hashed.py",
        availability=Availability.WITH_LEADER,
        differs="over the partitions with a leader, so keys move when a leader is lost",
    ),
    replace(
        _KAFKA_PYTHON, name="kafka-python-legacy-1.4",
        uses=(Use("LegacyPartitioner", since="1.0", before="1.4.8"),), source="kafka/partitioner/hashed.py",
        hash=None, differs="Python's hash(), salted anew in every process: not a function of the key",
    ),
    replace(
        _KAFKA_PYTHON, name="kafka-python-round-robin-1.4",
        uses=(Use("RoundRobinPartitioner", since="1.0", before="1.4.8"),), source="kafka/partitioner/roundrobin.py",
        hash=None, keyless=Keyless("round robin over partitions with a leader"),
    ),
    replace(
        _KAFKA_PYTHON, name="aiokafka", client="aiokafka", uses=(Use("DefaultPartitioner", is_default=True),),
        source="aiokafka/partitioner.py",
        keyless=Keyless("random over partitions with a leader", placement="RANDOM"),
    ),
)  # fmt: skip  # a table: short fields share a line


REDPANDA = (
    Strategy(
        name="redpanda-proxy", client="redpanda", uses=(Use("pandaproxy", is_default=True),),
        source="kafka/client/partitioners.cc", hash=HashName.MURMUR2, mask=Mask.NOTHING, empty_key=KeyRule.KEYLESS,
        keyless=Keyless("round robin over all partitions from a given start"),
        differs="murmur2 is taken as unsigned; an empty key is no key",
    ),
)  # fmt: skip  # a table: short fields share a line


RUST = (
    Strategy(
        name="rust-kafka", client="kafka (Rust)", uses=(Use("DefaultPartitioner", is_default=True),),
        source="producer.rs, DefaultPartitioner", hash=HashName.XXH32, mask=Mask.NOTHING, empty_key=KeyRule.KEYLESS,
        keyless=Keyless("round robin over partitions with a leader, one counter for all topics"),
        differs="XXH32 instead of murmur2; an empty key is no key",
    ),
)  # fmt: skip  # a table: short fields share a line
