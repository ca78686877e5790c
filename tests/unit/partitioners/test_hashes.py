"""The kernels' hashes and the plain ones of `tests/oracles/hashes.py` against the vectors that the clients' own tests publish."""

import pyarrow as pa
import pytest

from pipeline.partitioners.hash_kernels import hash_keys
from pipeline.partitioners.hashes import HashName, Mask, to_signed
from tests.oracles.hashes import hash_key


def hashed(name, key):
    """The product's hash of one key, once the oracle has said the same."""
    value = int(hash_keys(pa.array([key], pa.binary()), name).values[0])
    assert value == hash_key(name, key)
    return value


def hashed_text(text):
    return hashed(HashName.JAVA_STRING, text.encode())


ANOTHER = b"this is another string with more length to it perhaps"
SIGNED = {
    (HashName.MURMUR2, "Kafka, UtilsTest.testMurmur2; franz-go has the same"): {
        b"21": -973932308, b"foobar": -790332482, b"a-little-bit-long-string": -985981536, b"abc": 479470107,
        b"a-little-bit-longer-string": -1486304829, b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    },
    (HashName.MURMUR2, "KafkaJS, default/murmur2.spec.js; platformatic has the same"): {
        b"0": 971027396, b"1": -1993445489, b"128": -326012175, b"16384": -325739742, b"100:48069": 1009543857,
    },
    (HashName.KAFKAJS_MURMUR2, "KafkaJS, legacy/murmur2.spec.js, in doubles"): {
        b"0": 272173970, b"1": 1311020360, b"128": 2053105854, b"2187": -2081355488, b"16384": 204404061,
        b"78125": -677491393, b"10000000": -1778616326, b"170859375": 102939717,
    },
}  # fmt: skip  # vectors, several a line
UNSIGNED = {
    (HashName.MURMUR2, "librdkafka, rdmurmur2.c"): {
        b"kafka": 0xD067CF64, b"giberish123456789": 0x8F552B0C, b"1234": 0x9FC97B14, b"234": 0xE7C009CA, b"4": 0x5A4B5CA1,
    },
    (HashName.MURMUR2, "Sarama, partitioner_test.go"): {
        b"foo": 597841616, b"bar": 988958145, b"baz": 1973573280, b"": 275646681, b"sarama": 770765511,
    },
    (HashName.XXH32, "XXH32's specification and its sanity checks, seed 0"): {
        b"": 0x02CC5D05, b"a": 0x550D7456, b"abc": 0x32D153FF, b"Nobody inspects the spammish repetition": 0xE2293B2F,
    },
}  # fmt: skip  # vectors, several a line


@pytest.mark.parametrize(("of", "vectors"), SIGNED.items(), ids=[source for _, source in SIGNED])
def test_hashes_as_signed_numbers(of, vectors):
    assert {key: to_signed(hashed(of[0], key)) for key in vectors} == vectors


@pytest.mark.parametrize(("of", "vectors"), UNSIGNED.items(), ids=[source for _, source in UNSIGNED])
def test_hashes_as_numbers_without_a_sign(of, vectors):
    assert {key: hashed(of[0], key) for key in vectors} == vectors


@pytest.mark.parametrize(
    ("key", "crc", "masked_murmur2", "fnv"),
    [
        # librdkafka, 0048-partitioner.c
        (b"23456", 0xB1B451D7, 0x058D780F, 0x27E6F469),
        (ANOTHER, 0xB0150DF7, 0x4F7703DA, 0x155E3E5F),
        (b"hejsan", 0xD077037E, 0x5EC19395, 0x17B1E27A),
        (b"", 0, 0x106E08D9, 0x7EE3623B),
    ],
)
def test_three_hashes_of_librdkafka(key, crc, masked_murmur2, fnv):
    magnitude = Mask.MAGNITUDE.apply(hashed(HashName.FNV1A, key))
    positive = Mask.SIGN_BIT.apply(hashed(HashName.MURMUR2, key))
    assert (hashed(HashName.CRC32, key), positive, magnitude) == (crc, masked_murmur2, fnv)


@pytest.mark.parametrize(
    ("key", "magnitude"),
    # librdkafka, rdfnv1a.c
    [(b"kafka", 0x0D33C4E1), (b"giberish123456789", 0x77A58295), (b"1234", 0x023BDD03)],
)
def test_fnv1a_without_its_sign(key, magnitude):
    assert Mask.MAGNITUDE.apply(hashed(HashName.FNV1A, key)) == magnitude


def test_fnv1a_at_the_smallest_int():
    """Sarama's edge case: 2^31 has no positive twin in 32 bits."""
    value = hashed(HashName.FNV1A, b"1468509572224")
    assert (value, Mask.MAGNITUDE.apply(value), Mask.MAGNITUDE_OR_ZERO.apply(value)) == (2**31, 2**31, 0)


def test_pulsars_hashes():
    """Oracle: Pulsar's HashTest."""
    texts = ("keykeykeykeykey1", "keykeykey2")
    assert [Mask.SIGN_BIT.apply(hashed_text(text)) for text in texts] == [434058482, 42978643]
    assert [Mask.SIGN_BIT.apply(hashed(HashName.MURMUR3, key)) for key in (b"key1", b"key2")] == [462881061, 1936800180]


def test_java_hashes_by_hand():
    """Oracle: the JDK's documentation, s[0]*31^(n-1) + … over chars, and the same from 1 over signed bytes."""
    assert hashed_text("\U0001f600") == 0xD83D * 31 + 0xDE00
    assert to_signed(hashed_text("polygenelubricants")) == -(2**31)
    assert hashed(HashName.JAVA_ARRAY, b"\xff\x02") == (31 * (31 - 1) + 2)
    assert hashed(HashName.JAVA_ARRAY, b"") == 1


@pytest.mark.parametrize(
    ("mask", "partitions"),
    # of 0, 1, 2^31 - 1, -2^31, -2^31 + 1, -1 at 10 partitions, by hand
    [
        (Mask.SIGN_BIT, [0, 1, 7, 0, 1, 7]),
        (Mask.NOTHING, [0, 1, 7, 8, 9, 5]),
        (Mask.MAGNITUDE, [0, 1, 7, 8, 7, 1]),
        (Mask.MAGNITUDE_OR_ZERO, [0, 1, 7, 0, 7, 1]),
    ],
)
def test_masks(mask, partitions):
    values = [0, 1, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xFFFFFFFF]
    assert [mask.apply(value) % 10 for value in values] == partitions
