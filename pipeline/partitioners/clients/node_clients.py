"""KafkaJS and platformatic/kafka, for Node.

KafkaJS counts with a random start, adding before it takes the remainder. Platformatic's default takes murmur2 as
unsigned: other partitions than Java's for half of all keys, unless the partition count is a power of two; its
`compatibilityPartitioner` (1.32) masks as Java does.

References:
    KafkaJS `src/producer/partitioners/`; platformatic/kafka `src/clients/producer/{partitioners,producer}.ts`.
"""

from dataclasses import replace

from pipeline.partitioners.hashes import HashName, Mask
from pipeline.partitioners.strategy import KeyForm, Keyless, KeyRule, Strategy, Use

_KAFKAJS = Strategy(
    name="kafkajs",
    client="kafkajs",
    uses=(Use("DefaultPartitioner", since="2.0", is_default=True), Use("JavaCompatiblePartitioner", since="1.8")),
    source="producer/partitioners/default",
    hash=HashName.MURMUR2,
    keyless=Keyless("round robin over partitions with a leader from a random start", placement="ROUND_ROBIN_OLD"),
)
_PLATFORMATIC = Strategy(
    name="platformatic",
    client="platformatic/kafka",
    uses=(Use("Producer", is_default=True),),
    source="producer.ts, defaultPartitioner",
    hash=HashName.MURMUR2,
    mask=Mask.NOTHING,
    keyless=Keyless("round robin over all partitions from 0", placement="ROUND_ROBIN"),
    differs="murmur2 is taken as unsigned",
)

STRATEGIES = (
    _KAFKAJS,
    replace(
        _KAFKAJS,
        name="kafkajs-legacy",
        uses=(Use("DefaultPartitioner", before="2.0", is_default=True), Use("LegacyPartitioner", since="2.0")),
        source="producer/partitioners/legacy",
        hash=HashName.KAFKAJS_MURMUR2,
        differs="murmur2 computed in doubles, and the last bytes twice",
    ),
    replace(
        _KAFKAJS,
        name="kafkajs-uint8array",
        uses=(Use("DefaultPartitioner, keys as Uint8Array"),),
        form=KeyForm.DECIMALS,
        differs="a byte array that is not a Buffer is turned into text such as 1,2,3 before it is hashed",
    ),
    _PLATFORMATIC,
    replace(
        _PLATFORMATIC,
        name="platformatic-default-partitioner",
        uses=(Use("partitioner=defaultPartitioner"),),
        null_key=KeyRule.FIRST,
        keyless=None,
    ),
    replace(
        _PLATFORMATIC,
        name="platformatic-compatibility",
        uses=(Use("partitioner=compatibilityPartitioner", since="1.32"),),
        source="partitioners.ts, compatibilityPartitioner",
        mask=Mask.SIGN_BIT,
        null_key=KeyRule.FIRST,
        keyless=None,
        differs="a record without a key goes to partition 0",
    ),
)
