"""kafka-python and aiokafka: Java's hash; without a key a random partition for every record.

Since 3.0 kafka-python's `send` asks any partitioner a second time for a record without a key that finds no open batch, as KIP-480
needs it. With a random choice such a record has two chances to meet an open batch, so partitions whose batches stay open for
longer get more records.

References:
    kafka-python `kafka/partitioner/`, aiokafka `aiokafka/partitioner.py`. Before December 2016 (commit 46f9b1f6)
    kafka-python took the remainder as an index into an unsorted list.
"""

from dataclasses import replace

from pipeline.partitioners.hashes import HashName
from pipeline.partitioners.strategy import Availability, Keyless, Strategy, Use

_KAFKA_PYTHON = Strategy(
    name="kafka-python",
    client="kafka-python",
    uses=(Use("DefaultPartitioner", since="1.0", is_default=True),),
    source="kafka/partitioner/default.py",
    hash=HashName.MURMUR2,
    keyless=Keyless(
        "random over partitions with a leader; since 3.0 drawn again where no batch is open",
        placement="RANDOM_TWO_DRAWS",
    ),
)

STRATEGIES = (
    _KAFKA_PYTHON,
    replace(
        _KAFKA_PYTHON,
        name="kafka-python-sticky",
        uses=(Use("StickyPartitioner", since="3.0"),),
        source="kafka/partitioner/sticky.py, KIP-480",
        keyless=Keyless(
            "one partition until a batch is full or sent, or its leader is lost; then another",
            simulated="it moves on with a new batch, which only the accumulator knows",
            placement="STICKY",
        ),
    ),
    replace(
        _KAFKA_PYTHON,
        name="kafka-python-murmur2-1.4",
        uses=(Use("Murmur2Partitioner", since="1.0", before="1.4.8"),),
        source="kafka/partitioner/hashed.py",
        availability=Availability.WITH_LEADER,
        differs="over the partitions with a leader, so keys move when a leader is lost",
    ),
    replace(
        _KAFKA_PYTHON,
        name="kafka-python-legacy-1.4",
        uses=(Use("LegacyPartitioner", since="1.0", before="1.4.8"),),
        source="kafka/partitioner/hashed.py",
        hash=None,
        differs="Python's hash(), salted anew in every process: not a function of the key",
    ),
    replace(
        _KAFKA_PYTHON,
        name="kafka-python-round-robin-1.4",
        uses=(Use("RoundRobinPartitioner", since="1.0", before="1.4.8"),),
        source="kafka/partitioner/roundrobin.py",
        hash=None,
        keyless=Keyless("round robin over partitions with a leader"),
    ),
    replace(
        _KAFKA_PYTHON,
        name="aiokafka",
        client="aiokafka",
        uses=(Use("DefaultPartitioner", is_default=True),),
        source="aiokafka/partitioner.py",
        keyless=Keyless("random over partitions with a leader", placement="RANDOM"),
    ),
)
