"""Records per key against a count of every record by a dictionary; key ids against `hashlib.blake2b`."""

import hashlib
import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.codec.log.batch_headers import HEADER_ROW, HeaderScan
from pipeline.codec.records.key_ids import KeySecret, make_key_ids, number_of_id
from pipeline.codec.records.key_table import KeyCounter
from pipeline.codec.records.record_kernels import number_keys
from pipeline.codec.records.record_scan import RECORD_ROW, RecordScan
from tests.oracles.key_counts import count_plainly

KEYS = st.one_of(st.none(), st.integers(0, 12).map(lambda n: b"key-%d" % n), st.binary(max_size=3))
RECORDS = st.tuples(KEYS, st.integers(7, 500), st.booleans())
CHUNKS = st.lists(st.lists(RECORDS, max_size=60), min_size=1, max_size=5)


def make_scan(records):
    """A chunk whose batch 1 is to be skipped."""
    rows = np.zeros(len(records), RECORD_ROW)
    keys = [record[0] for record in records]
    rows["key_length"] = [-1 if key is None else len(key) for key in keys]
    rows["size_bytes"] = [record[1] for record in records]
    rows["batch_index"] = [record[2] for record in records]
    return RecordScan(
        headers=HeaderScan(rows=np.zeros(2, HEADER_ROW), problems=(), valid_bytes=0, file_bytes=0),
        rows=rows,
        key_offsets=np.cumsum([0, *(len(key or b"") for key in keys)]).astype(np.int64),
        key_data=np.frombuffer(b"".join(key or b"" for key in keys), np.uint8),
    )


SKIPPED = np.array([False, True])


def count(chunks, limit):
    counter = KeyCounter(limit)
    for chunk in chunks:
        counter.add(make_scan(chunk), SKIPPED)
    found = counter.result()
    columns = (found.record_count, found.size_bytes, found.count_error, found.size_error_bytes)
    counts = zip(*(column.tolist() for column in columns), strict=True)
    rest = {name: getattr(found, name) for name in found._fields if name.startswith(("null", "other", "max"))}
    return dict(zip(found.keys.to_pylist(), counts, strict=True)), rest


@settings(max_examples=200)
@given(chunks=CHUNKS, limit=st.integers(2, 40))
def test_true_counts_lie_within_the_stated_bounds(chunks, limit):
    counted = [(key, size) for chunk in chunks for key, size, is_skipped in chunk if not is_skipped]
    records = Counter(key for key, _ in counted)
    sizes = Counter()
    for key, size in counted:
        sizes[key] += size
    rows, rest = count(chunks, limit)
    assert (rest["null_record_count"], rest["null_size_bytes"]) == (records.pop(None, 0), sizes.pop(None, 0))
    assert sum(row[0] for row in rows.values()) + rest["other_record_count"] == sum(records.values())
    assert sum(row[1] for row in rows.values()) + rest["other_size_bytes"] == sum(sizes.values())
    assert rest["max_count_error"] <= sum(records.values()) / (limit // 2)
    assert len(rows) <= limit
    for key in records:
        found = rows.get(key, (0, 0, rest["max_count_error"], rest["max_size_error_bytes"]))
        assert found[0] <= records[key] <= found[0] + found[2]
        assert found[1] <= sizes[key] <= found[1] + found[3]
    if len(records) <= limit:
        assert rows == {key: (records[key], sizes[key], 0, 0) for key in records}
        assert rest["other_record_count"] == rest["max_count_error"] == 0


@settings(max_examples=200)
@given(chunks=CHUNKS, limit=st.integers(2, 40))
def test_keys_are_counted_as_by_a_dictionary_whatever_the_chunks(chunks, limit):
    plain = count_plainly(map(make_scan, chunks), SKIPPED, limit)
    assert count(chunks, limit) == plain
    assert count([[record for chunk in chunks for record in chunk]], limit) == plain


@pytest.mark.parametrize("limit", [10_000, 1_000_000])
def test_a_table_that_grows(limit):
    rng = random.Random(11)
    records = [(b"%d" % min(int(rng.expovariate(1e-4)), rng.randrange(60_000)), 9, False) for _ in range(120_000)]
    chunks = [records[start : start + 7_000] for start in range(0, len(records), 7_000)]
    assert count(chunks, limit) == count_plainly(map(make_scan, chunks), SKIPPED, limit)


def test_an_empty_key_is_a_key_and_a_null_key_is_none():
    rows, rest = count([[(b"", 8, False), (None, 7, False), (b"\xff\xfe", 9, False)]], 9)
    assert rows == {b"": (1, 8, 0, 0), b"\xff\xfe": (1, 9, 0, 0)}
    assert rest["null_record_count"] == 1


def test_nothing_was_counted():
    assert count([], 9) == ({}, dict.fromkeys(count([[]], 9)[1], 0))


def test_a_limit_too_small():
    with pytest.raises(ValueError, match="a limit of 1 keys; expected at least 2"):
        KeyCounter(1)


def unshift(word):
    return word ^ (word >> 33)


def make_key(number, wanted):
    """A key of two words, the first a number, whose hash was `wanted` while hashes had no secret (MurmurHash3's steps)."""

    def multiply(word, factor):
        return word * factor % 2**64

    def rotate(word, bits):
        return (word << bits | word >> (64 - bits)) % 2**64

    mixed = multiply(rotate(multiply(number, 0x87C37B91114253D5), 31), 0x4CF5AD432745937F)
    state = (rotate(16 * 0x9E3779B97F4A7C15 % 2**64 ^ mixed, 27) * 5 + 0x52DCE729) % 2**64
    after = unshift(multiply(unshift(wanted), pow(0xFF51AFD7ED558CCD, -1, 2**64)))
    word = rotate(multiply(after - 0x52DCE729, pow(5, -1, 2**64)), 37) ^ state
    word = multiply(rotate(multiply(word, pow(0x4CF5AD432745937F, -1, 2**64)), 33), pow(0x87C37B91114253D5, -1, 2**64))
    return number.to_bytes(8, "little") + word.to_bytes(8, "little")


def test_keys_made_to_collide_are_different_keys():
    keys = [make_key(number, 0x1234) for number in range(2_000)]
    rows, _ = count([[(key, 9, False) for key in keys]], 10_000)
    assert rows == dict.fromkeys(keys, (1, 9, 0, 0))


@pytest.mark.parametrize("secret", [(1, 2, 3, 4), (2**64 - 1, 2**63, 0x1234, 7)])
@pytest.mark.parametrize(
    "keys",
    [
        [make_key(number, number << 24) for number in range(16_384)],  # equal low bits while hashes had no secret
        [b"%d" % number for number in range(16_384)],
        [number.to_bytes(8, "big") for number in range(16_384)],
        [number.to_bytes(8, "little") for number in range(16_384)],
        [bytes(number) for number in range(2_048)],
    ],
)
def test_keys_spread_over_the_slots(keys, secret):
    """The longest run of slots in use is what a search takes at worst: 43 of random hashes at most, 16,384 of made ones.

    And as few keys share some bits of their hash, the highest and the lowest, as of random ones.
    """
    scan = make_scan([(key, 9, False) for key in keys])
    words = np.array([word * 0x9E3779B97F4A7C15 % 2**64 for word in secret], np.uint64)
    slots, hashes = np.zeros(1 << 15, np.int32), np.empty(len(keys), np.uint64)
    first_rows, numbers = np.empty(len(keys), np.int64), np.empty(len(keys), np.int32)
    lengths = np.ascontiguousarray(scan.key_length)
    chunk = (lengths, scan.key_offsets, scan.key_data, 0)
    found = number_keys(*chunk, words, slots, hashes, 0, len(keys), first_rows, numbers)
    assert found == (len(keys), len(keys))
    assert numbers.tolist() == list(range(len(keys)))
    assert max(map(len, "".join("x" if slot else " " for slot in slots).split())) < 150
    expected = len(keys) ** 2 / 2 / 2**16
    for bits in (hashes & np.uint64(0xFFFF), hashes >> np.uint64(48)):
        counts = np.bincount(bits.astype(np.int64))
        assert (counts * (counts - 1) // 2).sum() < expected + 6 * expected**0.5


@settings(max_examples=100)
@given(keys=st.lists(st.binary(max_size=300), max_size=20), secret=st.binary(min_size=32, max_size=32))
def test_ids_are_keyed_blake2b(keys, secret):
    for is_clear, person in ((False, b""), (True, b"clear")):
        expected = [hashlib.blake2b(key, digest_size=16, key=secret, person=person).hexdigest() for key in keys]
        assert make_key_ids(KeySecret(secret), keys, is_clear=is_clear) == expected
        assert [number_of_id(one) for one in expected] == [
            int.from_bytes(bytes.fromhex(one)[:8], "big", signed=True) for one in expected
        ]


def test_a_secret_shows_itself_nowhere():
    secret = KeySecret(b"s3cret" * 5 + b"xx")
    assert "s3cret" not in f"{secret!r} {secret}"
    with pytest.raises(ValueError, match="a secret of 3 bytes; expected 32"):
        KeySecret(b"abc")
