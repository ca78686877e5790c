"""Kernels over Arrow columns against the plain Python reference, on keys that Hypothesis makes."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import InputError
from pipeline.partitioners.assignment import NO_PARTITION, REFUSED_KEY, assign_partitions
from pipeline.partitioners.hash_kernels import hash_keys
from pipeline.partitioners.hashes import HashName, Mask, place_hashes
from pipeline.partitioners.registry import STRATEGIES
from pipeline.partitioners.strategy import choose_partition
from tests.oracles.hashes import hash_key

BYTES = st.binary(max_size=70)
TEXTS = st.text(max_size=20).map(lambda text: text.encode())
NEARLY_TEXTS = TEXTS.map(lambda key: key[:-1])
KEYS = st.lists(st.none() | BYTES | TEXTS | NEARLY_TEXTS, max_size=30)
TYPES = st.sampled_from([pa.binary(), pa.large_binary()])


def expected_hash(name, key):
    try:
        return (0, False) if key is None else (hash_key(name, key), True)
    except UnicodeDecodeError:
        return 0, False


@settings(max_examples=60)
@given(keys=KEYS, kind=TYPES, start=st.integers(0, 5), cut=st.integers(0, 5))
def test_hashes_of_a_slice(keys, kind, start, cut):
    """Oracle: the reference, key by key."""
    column = pa.array(keys, kind)[start : max(start, len(keys) - cut)]
    kept = column.to_pylist()
    for name in HashName:
        found = hash_keys(column, name)
        pairs = list(zip(found.values.tolist(), found.is_hashed.tolist(), strict=True))
        assert pairs == [expected_hash(name, key) for key in kept], name


def expected_partition(strategy, key, count):
    try:
        partition = choose_partition(strategy, key, count)
    except InputError:
        return REFUSED_KEY
    return NO_PARTITION if partition is None else partition


@settings(max_examples=15)
@given(keys=KEYS, count=st.integers(1, 2**31 - 1))
def test_partitions_of_every_strategy(keys, count):
    """Oracle: the reference, key by key."""
    column = pa.array([None, b"", *keys], pa.binary())
    for strategy in STRATEGIES.values():
        expected = [expected_partition(strategy, key, count) for key in (None, b"", *keys)]
        assert assign_partitions(strategy, column, count).tolist() == expected, strategy.name


def test_read_only_buffers_from_a_file(tmp_path):
    """A memory map hands out buffers that nobody may write to."""
    batch = pa.record_batch({"key": pa.array([b"kafka", None, b""])})
    with pa.ipc.new_file(tmp_path / "keys.arrow", batch.schema) as writer:
        writer.write_batch(batch)
    with pa.memory_map(str(tmp_path / "keys.arrow")) as source:
        column = pa.ipc.open_file(source).get_batch(0).column(0)
        assert hash_keys(column, HashName.CRC32).values.tolist() == [1539077399, 0, 0]
        assert column.to_pylist() == [b"kafka", None, b""]


@pytest.mark.parametrize("column", [pa.array([1, 2]), pa.array([b"a"], pa.binary_view()), pa.array([[b"a"]])])
def test_other_types_are_refused(column):
    with pytest.raises(InputError, match="expected binary or string"):
        hash_keys(column, HashName.CRC32)


@pytest.mark.parametrize("column", [pa.array([], pa.binary()), pa.array([None, None], pa.binary()), pa.array([b""])])
def test_columns_without_a_byte(column):
    found = hash_keys(column, HashName.MURMUR2)
    assert found.values.tolist() == [0 if key is None else 275646681 for key in column.to_pylist()]


@settings(max_examples=60)
@given(hashes=st.lists(st.integers(0, 2**32 - 1), max_size=20), count=st.integers(1, 40) | st.integers(1, 2**31 - 1))
def test_remainders(hashes, count):
    """Oracle: the masks and Python's remainder, at hashes near multiples of the count too."""
    near = [min(2**32 - 1, abs(value // count * count + step)) for value in hashes for step in (-1, 0, 1)]
    values = [0, 1, 2**31 - 1, 2**31, 2**31 + 1, 2**32 - 1, *hashes, *near]
    for mask in Mask:
        partitions = place_hashes(np.array(values, dtype=np.uint32), mask, count)
        assert partitions.tolist() == [mask.apply(value) % count for value in values], mask
