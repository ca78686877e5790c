"""Where a candidate puts the keys of recorded arrivals: by their stored hashes, in the tasks that simulate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.codec.records.key_ids import number_of_id
from pipeline.partitioners.masks import place_hashes
from pipeline.partitioners.recorded import HASH_COLUMNS, choose_for_no_key, key_function_of, list_families
from pipeline.partitioners.registry import find_strategy
from pipeline.partitioners.strategy import KeyRule
from pipeline.simulator.scenario.traffic import KEYLESS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from pipeline.partitioners.strategy import Strategy
    from pipeline.replay.simulated.groups import GroupTopic
    from pipeline.simulator.clients.producer_settings import ResolvedProducer

    KeyPartitions = tuple[NDArray[np.int32], int]
    """Of each key a partition, `KEYLESS` or `STAYS`; and of records without one a partition, or `KEYLESS`."""
    AssignKeys = Callable[[GroupTopic, NDArray[np.int64], int], KeyPartitions]
    """Topic, numbers of keys and partition count to where they go."""

STAYS = -2
"""In place of a key's partition: its records stay where they were recorded."""
_UNKNOWN = -1  # in place of a hash: it is not stored, or the key has none
_FAMILY_OF = {strategy: family.name for family in list_families() for strategy in family.strategies}
KEY_HASH_COLUMNS = ("key_id", "is_empty", *HASH_COLUMNS.values())


@dataclass(frozen=True, eq=False)
class KeyHashes:
    """Stored hashes of keys, by their numbers in arrivals, which rise; by column int64[k], unsigned 32 bits or -1."""

    keys: NDArray[np.int64]
    is_empty: NDArray[np.bool_]
    hashes: Mapping[str, NDArray[np.int64]]

    def assigning(self, resolved: ResolvedProducer, *, is_in_use: bool) -> AssignKeys:
        """How a producer assigns keys; one in use is the one that assigned the recorded keys."""
        strategy = find_strategy(resolved.strategy)

        def assign(topic: GroupTopic, keys: NDArray[np.int64], partition_count: int) -> KeyPartitions:
            if resolved.settings.ignores_keys or strategy.hash is None:
                return np.full(len(keys), KEYLESS, np.int32), KEYLESS
            to_partition = choose_for_no_key(strategy, partition_count)
            no_key = KEYLESS if to_partition is None else to_partition
            is_same = is_in_use or (topic.key_family != "" and topic.key_family == _FAMILY_OF.get(strategy.name))
            if is_same and partition_count == len(topic.leaders):
                return np.full(len(keys), STAYS, np.int32), no_key
            return self._hash(strategy, keys, partition_count), no_key

        return assign

    def _hash(self, strategy: Strategy, keys: NDArray[np.int64], partition_count: int) -> NDArray[np.int32]:
        function = key_function_of(strategy)
        stored = self.hashes.get(function.hash_column)
        if stored is None or not len(self.keys):
            return np.full(len(keys), STAYS, np.int32)
        index = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        hashes = np.where(self.keys[index] == keys, stored[index], _UNKNOWN)
        is_known = hashes >= 0
        assigned = place_hashes(np.where(is_known, hashes, 0).astype(np.uint32), function.mask, partition_count)
        assigned[~is_known] = STAYS
        if strategy.empty_key is not KeyRule.HASHED:
            assigned[is_known & self.is_empty[index]] = 0 if strategy.empty_key is KeyRule.FIRST else KEYLESS
        return assigned


NO_HASHES = KeyHashes(np.zeros(0, np.int64), np.zeros(0, np.bool_), {})
"""Nothing is stored about keys: they stay where they were recorded."""


def index_hashes(batches: Iterable[pa.RecordBatch]) -> KeyHashes:
    """Rows of `silver.key_hashes`, `KEY_HASH_COLUMNS`; a key may come several times."""
    found: Sequence[pa.RecordBatch] = list(batches)
    if not found:
        return NO_HASHES
    rows = pa.Table.from_batches(found)
    numbers = np.array([number_of_id(key_id) for key_id in rows["key_id"].to_pylist()], np.int64)
    keys, first = np.unique(numbers, return_index=True)
    hashes = {
        name: pc.fill_null(rows[name], _UNKNOWN).to_numpy()[first].astype(np.int64) for name in HASH_COLUMNS.values()
    }
    return KeyHashes(keys, rows["is_empty"].to_numpy(zero_copy_only=False)[first], hashes)


def name_family(strategy_name: str) -> str:
    """Strategies of one name put every key alike: that of their family and what they do about empty and missing keys."""
    strategy = find_strategy(strategy_name)
    family = _FAMILY_OF.get(strategy_name, strategy_name)
    return f"{family}, {strategy.empty_key.value}, {strategy.null_key.value}"
