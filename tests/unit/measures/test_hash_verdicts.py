"""Verdicts on who placed the keys; oracle: the binomial tail, summed term by term."""

from math import comb

import pytest

from pipeline.measures.hash_verdicts import Explained, bound_match_chance, judge_hash

JAVA, CRC, NONE = "java-compatible", "librdkafka-consistent", "sarama-hash"


def judge(java=0, crc=0, sarama=0, *, keys=100, partitions=12):
    explained = {JAVA: java, CRC: crc, NONE: sarama}
    return judge_hash({name: Explained(n, 10 * n) for name, n in explained.items()}, keys, 10 * keys, partitions)


@pytest.mark.parametrize(
    ("explained", "verdict", "best", "tied"),
    [
        ({"java": 100, "crc": 8, "sarama": 9}, JAVA, JAVA, ()),
        ({"java": 7, "crc": 100, "sarama": 9}, CRC, CRC, ()),
        ({"java": 8, "crc": 9, "sarama": 12}, "none-known", "", ()),
        ({"java": 60, "crc": 45, "sarama": 9}, "mixed", JAVA, ()),
        ({"java": 100, "crc": 100, "sarama": 9}, JAVA, JAVA, (CRC,)),
        ({"java": 98, "crc": 8, "sarama": 9}, "mixed", JAVA, ()),
        ({"java": 99, "crc": 8, "sarama": 9}, JAVA, JAVA, ()),
        ({"java": 2, "crc": 0, "sarama": 0, "keys": 2}, "not-enough-keys", "", ()),
        ({"java": 4, "crc": 1, "sarama": 0, "keys": 4}, JAVA, JAVA, ()),
        ({"java": 100, "crc": 100, "sarama": 100, "partitions": 1}, "not-enough-keys", "", None),
        ({"java": 0, "crc": 0, "sarama": 0, "keys": 0}, "not-enough-keys", "", ()),
    ],
)
def test_verdicts(explained, verdict, best, tied):
    found = judge(**explained)
    assert (found.verdict, found.best) == (verdict, best)
    if tied is not None:
        assert found.tied_with == tied


@pytest.mark.parametrize(("explained", "keys", "partitions"), [(5, 20, 12), (40, 100, 12), (12, 12, 3), (9, 10, 2)])
def test_the_bound_lies_above_the_binomial_tail(explained, keys, partitions):
    chance = 1 / partitions
    tail = sum(comb(keys, n) * chance**n * (1 - chance) ** (keys - n) for n in range(explained, keys + 1))
    assert tail <= bound_match_chance(explained, keys, chance) * (1 + 1e-12)
    assert bound_match_chance(explained, keys, chance) < 100 * tail


def test_the_reason_names_what_the_count_cannot_separate():
    assert "12 partitions do not distinguish them" in judge(java=100, crc=100).reason
