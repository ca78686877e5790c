"""Directory names against Kafka's own rules (`LocalLog.parseTopicPartitionName`), a row per rule."""

import pytest

from pipeline.codec.log.log_directory import MAX_TOPIC_LENGTH, parse_directory_name
from pipeline.errors import InputError
from pipeline.model.log_tree import DirectoryKind

HEX = "0123456789abcdef" * 2
LONGEST = "t" * MAX_TOPIC_LENGTH


@pytest.mark.parametrize(
    ("name", "topic", "partition", "kind", "truncated"),
    [
        ("orders-0", "orders", 0, "live", False),
        ("my-topic-2024-11", "my-topic-2024", 11, "live", False),
        ("a.b-c_d-200000", "a.b-c_d", 200_000, "live", False),
        ("t--1", "t-", 1, "live", False),
        ("x-delete-3", "x-delete", 3, "live", False),
        (f"orders-0.{HEX}-delete", "orders", 0, "delete", False),
        (f"a.b-12.{HEX}-stray", "a.b", 12, "stray", False),
        (f"a.b-12.{HEX}-future", "a.b", 12, "future", False),
        (f"{LONGEST}-7", LONGEST, 7, "live", False),
        (f"{'t' * 212}-7.{HEX}-delete", "t" * 212, 7, "delete", False),
        (f"{'t' * 213}-7.{HEX}-delete", "t" * 213, 7, "delete", True),
    ],
)
def test_parses(name, topic, partition, kind, truncated):
    assert parse_directory_name(name) == (topic, partition, DirectoryKind(kind), truncated)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("orders", "a number after the last dash"),
        ("orders-", "a number after the last dash"),
        ("-0", "not a topic name"),
        ("..-0", "not a topic name"),
        ("orders-x", "a number after the last dash"),
        ("orders-01", "a number after the last dash"),
        ("orders-+1", "a number after the last dash"),
        ("orders-200001", "no topic has a partition 200001"),
        ("orders-2147483646", "no topic has a partition 2147483646"),
        ("or ders-0", "not a topic name, at most 249 characters of a-z A-Z"),
        (f"{LONGEST}t-0", "not a topic name, at most 249"),
        ("orders-delete", "32 hex digits"),
        ("orders-0.abc-stray", "32 hex digits"),
        (f"orders-0.{HEX}-gone", "a number after the last dash"),
    ],
)
def test_refuses(name, reason):
    with pytest.raises(InputError, match=reason):
        parse_directory_name(name)


@pytest.mark.parametrize("partition", [0, 9, 10, 200_000])
@pytest.mark.parametrize("kind", list(DirectoryKind))
def test_the_longest_topic_gets_a_name_that_a_file_system_takes(kind, partition):
    """Named as `LocalLog.logDirNameWithSuffixCappedLength` does: parsed to the same parts, or to a topic marked as cut."""
    ending = f"-{partition}" if kind is DirectoryKind.LIVE else f"-{partition}.{HEX}-{kind.value}"
    name = (LONGEST if kind is DirectoryKind.LIVE else LONGEST[: 255 - len(ending)]) + ending
    parsed = parse_directory_name(name)
    assert len(name) <= 255 or kind is DirectoryKind.LIVE  # Kafka itself does not cut live names
    assert (parsed.partition, parsed.kind) == (partition, kind)
    assert parsed.is_topic_truncated == (kind is not DirectoryKind.LIVE)
    assert LONGEST.startswith(parsed.topic)
