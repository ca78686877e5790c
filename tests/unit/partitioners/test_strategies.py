"""Strategies against the vectors of the clients' own tests, rules for null and empty keys, and the registry."""

from contextlib import suppress

import pytest

from pipeline.errors import ConfigError, InputError
from pipeline.partitioners.registry import (
    CLIENT_STRATEGIES,
    STRATEGIES,
    choose_for_no_key,
    find_strategies,
    find_strategy,
)
from pipeline.partitioners.strategy import Availability, KeyForm, Use, choose_partition, read_kafka_version

DRAWN, FIRST = None, 0
KEYS = (b"", b"a", b"20", b"21", b"kafka", b"foobar", b"hejsan", b"key1", b"user-1001", b"0")
JAVA = (9, 4, 10, 0, 4, 6, 1, 8, 10, 8)
UNSIGNED = (9, 0, 6, 8, 0, 2, 1, 8, 6, 8)
CRC = (0, 3, 6, 4, 11, 5, 6, 4, 3, 5)
FNV = (3, 0, 1, 0, 5, 0, 2, 11, 1, 3)
SHORT_KEYS, OF_SHORT_KEYS = (b"", b"a", b"ab", b"abc", b"123456789", b"\0 "), (681, 524, 434, 107, 566, 742)
REFERENCE_FNV = (5, 8, 7, 8, 5, 8, 6, 11, 7, 3)


def choose(name, keys, count):
    return tuple(choose_partition(find_strategy(name), key, count) for key in keys)


@pytest.mark.parametrize(
    ("partitions", "names"),
    [
        (JAVA, "java-builtin java-sticky-2.4 java-murmur2 librdkafka-murmur2 librdkafka-murmur2_random sarama-murmur2"),
        (JAVA, "franz-go-default kafka-go-murmur2 kafka-python aiokafka kafkajs platformatic-compatibility"),
        (UNSIGNED, "platformatic"),
        ((DRAWN, *UNSIGNED[1:]), "redpanda-proxy"),
        (CRC, "librdkafka-consistent sarama-crc franz-go-sarama-hasher-crc32 kafka-go-crc32-consistent"),
        ((DRAWN, *CRC[1:]), "librdkafka-consistent_random kafka-go-crc32"),
        (FNV, "sarama-hash kafka-go-hash librdkafka-fnv1a librdkafka-fnv1a_random franz-go-sarama-compat-hasher"),
        (REFERENCE_FNV, "sarama-reference-hash kafka-go-reference-hash franz-go-kafka-hasher-fnv1a"),
        ((0, 7, 10, 2, 7, 5, 0, 6, 10, 2), "kafkajs-legacy"),
        ((0, 1, 2, 3, 6, 1, 7, 6, 10, 0), "pulsar-java-string"),
        ((0, 2, 4, 10, 6, 9, 3, 9, 5, 7), "pulsar-murmur3"),
        ((0, 1, 2, 3, 6, 7, 1, 6, 10, 0), "spring-cloud-stream consumer-group-coordinator scala-default"),
    ],
)
def test_clients_side_by_side(partitions, names):
    """The table of the clients at 12 partitions, computed by another implementation that agrees with all of them."""
    for name in names.split():
        assert choose(name, KEYS, 12) == partitions, name


@pytest.mark.parametrize(
    ("name", "count", "keys", "partitions"),
    [
        # Sarama, partitioner_test.go
        ("sarama-crc", 100, (b"abc123def456", b"SheetJS", b"9e8c7f4cf45857cfff7645d6"), (57, 26, 24)),
        ("sarama-crc", 100, (b"0f4407b7a67d6d27de372198", b"3900446192ff85a5f67da10c"), (50, 75)),
        ("sarama-murmur2", 100, (b"foo", b"bar", b"baz", b"kafka", b"sarama"), (16, 45, 80, 80, 11)),
        # kafka-go, balancer_test.go
        ("kafka-go-hash", 2, (b"blah",), (0,)),
        ("kafka-go-hash", 3, (b"blah", b"boop"), (1, 2)),
        ("kafka-go-hash", 16, (b"20",), (1,)),
        ("kafka-go-reference-hash", 16, (b"20",), (15,)),
        ("kafka-go-reference-hash", 3, (b"castle",), (2,)),
        # kafka-go, kafka-python and aiokafka have the same
        *((name, 1000, SHORT_KEYS, OF_SHORT_KEYS) for name in ("kafka-go-murmur2", "kafka-python", "aiokafka")),
    ],
)
def test_published_partitions(name, count, keys, partitions):
    assert choose(name, keys, count) == partitions


@pytest.mark.parametrize(
    ("name", "null_key", "empty_key"),
    # at 1000 partitions; 681 is Java's hash of no bytes
    [
        ("java-builtin", DRAWN, 681),
        ("java-uniform-sticky", DRAWN, DRAWN),
        ("librdkafka-random", DRAWN, DRAWN),
        ("librdkafka-consistent", FIRST, FIRST),
        ("librdkafka-consistent_random", DRAWN, DRAWN),
        ("librdkafka-murmur2", 681, 681),
        ("librdkafka-murmur2_random", DRAWN, 681),
        ("librdkafka-fnv1a", 35, 35),
        ("librdkafka-fnv1a_random", DRAWN, 35),
        ("sarama-hash-nil-encoder", 35, 35),
        ("kafka-go-murmur2-consistent", 681, 681),
        ("platformatic", DRAWN, 681),
        ("platformatic-default-partitioner", FIRST, 681),
        ("pulsar-java-string", DRAWN, 0),
        ("rust-kafka", DRAWN, DRAWN),
    ],
)
def test_null_and_empty_keys(name, null_key, empty_key):
    assert choose(name, (None, b""), 1000) == (null_key, empty_key)


@pytest.mark.parametrize("name", ["spring-cloud-stream", "consumer-group-coordinator"])
def test_no_key_is_refused_where_the_client_refuses_it(name):
    with pytest.raises(InputError, match="refuses a record without a key"):
        choose(name, (None,), 12)


def test_text_strategies_refuse_other_bytes():
    """A lone surrogate, an overlong form and a lone byte are no UTF-8."""
    texts = [strategy.name for strategy in STRATEGIES.values() if strategy.form is KeyForm.TEXT and strategy.hash]
    assert len(texts) == 5
    for name in texts:
        for key in (b"\xed\xa0\x80", b"\xc0\x80", b"\xff"):
            with pytest.raises(InputError, match="is not UTF-8"):
                choose(name, (key,), 12)


@pytest.mark.parametrize(
    ("client", "version", "setting", "names"),
    [
        ("kafka-clients", "0.8.2.2", None, ["java-murmur2-0.8.2"]),
        ("kafka-clients", "0.9.0.0", None, ["java-murmur2-0.9"]),
        ("kafka-clients", "0.10.2.0", None, ["java-murmur2"]),
        ("kafka-clients", "2.3.1", None, ["java-murmur2"]),
        ("kafka-clients", "2.4.0", None, ["java-sticky-2.4"]),
        ("kafka-clients", "3.2.3", None, ["java-sticky-2.4"]),
        ("kafka-clients", "3.3.0", None, ["java-builtin"]),
        ("kafka-clients", "4.4.0", None, ["java-builtin"]),
        ("kafka-clients", "4.4.0", "partitioner.rack.aware=true", ["java-builtin-rack-aware"]),
        ("kafka-clients", "4.3.0", "partitioner.rack.aware=true", []),
        ("kafka-clients", "3.9.1", "DefaultPartitioner", ["java-sticky-2.4"]),
        ("kafka-clients", "4.0.0", "DefaultPartitioner", []),
        ("kafka-clients", "3.9.1", "RoundRobinPartitioner", ["java-round-robin-2.4"]),
        ("kafka-clients", "3.9.2", "RoundRobinPartitioner", ["java-round-robin-3.9.2"]),
        ("kafka-clients", "2.3.1", "RoundRobinPartitioner", []),
        ("librdkafka", "2.3.0", None, ["librdkafka-consistent_random"]),
        ("librdkafka", "2.3.0", "partitioner=murmur2_random", ["librdkafka-murmur2_random"]),
        ("librdkafka", "1.5.3", None, ["librdkafka-consistent_random-1.5"]),
        ("librdkafka", "1.5.3", "partitioner=consistent", ["librdkafka-consistent"]),
        ("librdkafka", "1.5.3", "partitioner=random", ["librdkafka-random-1.5"]),
        ("sarama", "1.43.0", None, ["sarama-hash"]),
        ("sarama", "1.43.0", "NewMurmur2Partitioner", []),
        ("kafkajs", "1.16.0", None, ["kafkajs-legacy"]),
        ("kafkajs", "2.2.4", None, ["kafkajs"]),
        ("kafkajs", "2.2.4", "LegacyPartitioner", ["kafkajs-legacy"]),
    ],
)
def test_by_client_version_and_setting(client, version, setting, names):
    """Oracle: the release notes and sources that the strategies name."""
    assert [strategy.name for strategy in find_strategies(client, version, setting)] == names


# what a producer does that is not configured, in the newest version of its client; oracle: the sources that they name
DEFAULTS = {
    "aiokafka": "aiokafka",
    "franz-go": "franz-go-default",
    "kafka (Rust)": "rust-kafka",
    "kafka (Scala producer)": "",  # gone since 0.11
    "kafka (broker)": "consumer-group-coordinator",
    "kafka-clients": "java-builtin",
    "kafka-go": "kafka-go-round-robin",
    "kafka-python": "kafka-python",
    "kafkajs": "kafkajs",
    "librdkafka": "librdkafka-consistent_random",
    "platformatic/kafka": "platformatic",
    "pulsar-client": "pulsar-java-string pulsar-java-string-key-bytes",  # for key, and for keyBytes
    "redpanda": "redpanda-proxy",
    "sarama": "sarama-hash",
    "spring-cloud-stream": "spring-cloud-stream",
}


def test_the_default_of_every_client():
    clients = sorted({strategy.client for strategy in STRATEGIES.values()})
    found = {client: " ".join(strategy.name for strategy in find_strategies(client, "99")) for client in clients}
    assert found == DEFAULTS


def test_every_strategy_says_how_it_does_without_a_key():
    for strategy in STRATEGIES.values():
        assert strategy.uses
        assert strategy.source
        with suppress(InputError):  # no key is refused
            if DRAWN in {choose_partition(strategy, key, 7) for key in (None, b"", b"a")}:
                assert strategy.keyless or strategy.differs, strategy.name


def test_only_what_needs_the_accumulator_is_left_to_simulation():
    simulated = {s.name for s in STRATEGIES.values() if s.keyless and s.keyless.simulated}
    builtin = {f"java-builtin{name}" for name in ("", "-uniform", "-kip-794-draft", "-ignore-keys", "-rack-aware")}
    sticky = {"java-sticky-2.4", "java-uniform-sticky", "java-round-robin-2.4", "kafka-python-sticky"}
    hashers = [f"{name}{by}" for name in ("sarama-hasher", "sarama-compat-hasher") for by in ("", "-crc32")]
    hashers += ["kafka-hasher-crc32", "kafka-hasher-fnv1a"]
    assert simulated == builtin | sticky | {f"franz-go-{x}" for x in ("least-backup", "default", "sticky", *hashers)}


def test_keyed_choices_ignore_leaders_but_for_one_old_client():
    unstable = [s.name for s in STRATEGIES.values() if s.availability is Availability.WITH_LEADER]
    assert unstable == ["kafka-python-murmur2-1.4"]


@pytest.mark.parametrize("count", [0, -1, 2**31])
def test_partition_counts_that_no_topic_has(count):
    with pytest.raises(ConfigError, match="expected 1 to 2147483647"):
        choose("java-builtin", (b"a",), count)


def test_versions_are_numbers():
    with pytest.raises(ConfigError, match="expected numbers and dots"):
        Use("x", since="1.0").covers("2.x")


def test_versions_that_clients_tell():
    told = ("4.1.1", "7.9.0-ccs", "3.9.1-amzn-2", "unknown")
    assert [read_kafka_version(text) for text in told] == ["4.1.1", "3.9.0", "3.9.1", ""]
    assert Use("x", since="2.4", before="3.3").covers("3.2.3")


def test_records_without_a_key_that_all_go_to_one_partition():
    assert choose_for_no_key(find_strategy("librdkafka-consistent"), 12) == 0
    assert choose_for_no_key(find_strategy("java-builtin"), 12) is None
    assert KeyForm.DECIMALS.prepare(bytes([1, 200])) == b"1,200"


def test_every_strategy_has_a_name_of_its_own():
    assert len(STRATEGIES) == len(CLIENT_STRATEGIES)


def test_an_unknown_strategy_names_near_ones():
    with pytest.raises(ConfigError, match=r"no strategy librdkafka-murmur; near: librdkafka-murmur2, "):
        find_strategy("librdkafka-murmur")
