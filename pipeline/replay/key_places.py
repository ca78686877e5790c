"""Where a candidate puts the keys of recorded arrivals: by their stored hashes, in the tasks that simulate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pipeline.partitioners.masks import place_hashes
from pipeline.partitioners.recorded import choose_for_no_key, key_function_of, list_families
from pipeline.partitioners.registry import find_strategy
from pipeline.partitioners.strategy import KeyRule
from pipeline.simulator.scenario.traffic import KEYLESS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from pipeline.partitioners.strategy import Strategy
    from pipeline.replay.units import UnitTopic
    from pipeline.simulator.clients.producer_settings import ResolvedProducer

AS_RECORDED = -2
"""In place of a key's partition: its records stay where they were recorded."""
UNKNOWN = -1
"""In place of a hash: it is not stored, or the key has none."""
_FAMILY_OF = {strategy: family.name for family in list_families() for strategy in family.strategies}


class PlacedKeys(NamedTuple):
    """Where keys go.

    Attributes:
        by_key: Of each key a partition, `KEYLESS` or `AS_RECORDED`; int32.
        no_key: The same of records without a key: the one partition they all go to, or `KEYLESS`.
    """

    by_key: NDArray[np.int32]
    no_key: int


@dataclass(frozen=True, eq=False)
class KeyHashes:
    """Stored hashes of keys.

    Attributes:
        keys: Their numbers in arrivals, rising.
        is_empty: The key has no bytes.
        hashes: By column of `silver.key_hashes`: unsigned 32-bit numbers, or `UNKNOWN`; int64.
    """

    keys: NDArray[np.int64]
    is_empty: NDArray[np.bool_]
    hashes: Mapping[str, NDArray[np.int64]]

    def placing(
        self, resolved: ResolvedProducer, *, is_in_use: bool
    ) -> Callable[[UnitTopic, NDArray[np.int64], int], PlacedKeys]:
        """How a producer places keys.

        Args:
            resolved: The producer.
            is_in_use: Its strategy is the one that placed the recorded keys.
        """
        strategy = find_strategy(resolved.strategy)

        def place(topic: UnitTopic, keys: NDArray[np.int64], partition_count: int) -> PlacedKeys:
            if resolved.settings.ignores_keys or strategy.hash is None:
                return PlacedKeys(np.full(len(keys), KEYLESS, np.int32), KEYLESS)
            to_partition = choose_for_no_key(strategy, partition_count)
            no_key = KEYLESS if to_partition is None else to_partition
            is_same = is_in_use or (topic.key_family != "" and topic.key_family == _FAMILY_OF.get(strategy.name))
            if is_same and partition_count == len(topic.leaders):
                return PlacedKeys(np.full(len(keys), AS_RECORDED, np.int32), no_key)
            return PlacedKeys(self._hash(strategy, keys, partition_count), no_key)

        return place

    def _hash(self, strategy: Strategy, keys: NDArray[np.int64], partition_count: int) -> NDArray[np.int32]:
        function = key_function_of(strategy)
        stored = self.hashes.get(function.hash_column)
        if stored is None or not len(self.keys):
            return np.full(len(keys), AS_RECORDED, np.int32)
        place = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        hashes = np.where(self.keys[place] == keys, stored[place], UNKNOWN)
        is_known = hashes >= 0
        placed = place_hashes(np.where(is_known, hashes, 0).astype(np.uint32), function.mask, partition_count)
        placed[~is_known] = AS_RECORDED
        is_empty = is_known & self.is_empty[place]
        if strategy.empty_key is not KeyRule.HASHED:
            placed[is_empty] = 0 if strategy.empty_key is KeyRule.FIRST else KEYLESS
        return placed


def name_family(strategy_name: str) -> str:
    """Strategies of one name place every key alike: that of their family and what they do about empty and missing keys."""
    strategy = find_strategy(strategy_name)
    family = _FAMILY_OF.get(strategy_name, strategy_name)
    return f"{family}, {strategy.empty_key.value}, {strategy.null_key.value}"


NO_HASHES = KeyHashes(np.zeros(0, np.int64), np.zeros(0, np.bool_), {})
"""Nothing is stored about keys: they stay where they were recorded."""
