"""A producer session's record batches in a topic, as the log holds them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class SessionBatches:
    """Batches of a producer session in a topic and window, control batches left out; a row each, in any order.

    Attributes:
        partition: int[m].
        leader: Id of the broker that led when it was written, or -1; int[m].
        base_ms: Time of the first record, epoch milliseconds; int64[m].
        max_ms: The largest time in it; int64[m].
        record_count: int[m].
        size_bytes: As on disk; int[m].
        codec: `none`, or the codec most batches have.
        is_transactional: Some are part of a transaction.
    """

    partition: NDArray[np.int32]
    leader: NDArray[np.int32]
    base_ms: NDArray[np.int64]
    max_ms: NDArray[np.int64]
    record_count: NDArray[np.int64]
    size_bytes: NDArray[np.int64]
    codec: str = "none"
    is_transactional: bool = False

    def __len__(self) -> int:
        return len(self.partition)

    def select(self, which: NDArray[np.bool_] | NDArray[np.int64]) -> SessionBatches:
        """Some of the batches."""
        return SessionBatches(
            self.partition[which],
            self.leader[which],
            self.base_ms[which],
            self.max_ms[which],
            self.record_count[which],
            self.size_bytes[which],
            self.codec,
            self.is_transactional,
        )

    def in_order(self) -> SessionBatches:
        """By the time they were opened; of those opened in one millisecond the first to end comes first."""
        order = np.lexsort((self.partition, self.max_ms, self.base_ms))
        return self.select(order)
