"""Columns of keys to columns of partitions: `strategy.choose_partition` over Arrow arrays."""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.partitioners.hash_kernels import find_keys, hash_keys, view_offsets
from pipeline.partitioners.hashes import HashName, place_hashes
from pipeline.partitioners.strategy import KeyForm, KeyRule, Strategy, check_partition_count, choose_partition

NO_PARTITION = -1  # not a function of the key
REFUSED_KEY = -2  # the client refuses such a key


def assign_partitions(strategy: Strategy, keys: pa.Array, partition_count: int) -> NDArray[np.int32]:
    """By row the partition, `NO_PARTITION` or `REFUSED_KEY`; `InputError` as `hash_keys` and `choose_partition`."""
    check_partition_count(partition_count)
    lengths = np.diff(view_offsets(keys))
    if strategy.function is not None:
        encoded = keys.cast(pa.large_binary()).dictionary_encode()
        answers = [choose_partition(strategy, key, partition_count) for key in encoded.dictionary.to_pylist()]
        by_key = np.array([*answers, NO_PARTITION], dtype=np.int32)  # a null is sent to the last place
        partitions: NDArray[np.int32] = by_key[encoded.indices.fill_null(len(answers)).to_numpy(zero_copy_only=False)]
        return partitions
    if strategy.hash is None:
        return np.full(len(keys), NO_PARTITION, dtype=np.int32)
    is_key = find_keys(keys)
    prepared = keys
    if strategy.form in {KeyForm.BASE64, KeyForm.DECIMALS}:
        raw = keys.cast(pa.large_binary()).to_pylist()
        prepared = pa.array([None if key is None else strategy.form.prepare(key) for key in raw], pa.large_binary())
    hashes = hash_keys(prepared, strategy.hash)
    is_text = hashes.is_hashed
    if strategy.form is KeyForm.TEXT and strategy.hash is not HashName.JAVA_STRING:
        is_text = hash_keys(keys, HashName.JAVA_STRING).is_hashed
    partitions = place_hashes(hashes.values, strategy.mask, partition_count)
    if not is_text.all():
        partitions[is_key & ~is_text] = REFUSED_KEY
    for key, rows in ((None, ~is_key), (b"", is_key & (lengths == 0))):
        if strategy.rule_of(key) is KeyRule.REFUSED:
            partitions[rows] = REFUSED_KEY
        elif rows.any():
            chosen = choose_partition(strategy, key, partition_count)
            partitions[rows] = NO_PARTITION if chosen is None else chosen
    return partitions
