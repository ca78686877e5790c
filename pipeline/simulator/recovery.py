"""How long after a disturbance records are spread evenly again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from pipeline.simulator.result import SimulationResult

WINDOW_S = 10
"""Shares are taken over as many seconds: less is mostly chance where runs on a partition are long."""
LIMIT_RATIO = 1.2
"""Even is below this many fair shares, as the health gate has it."""
_NS_PER_S = 1_000_000_000


def measure_recovery_s(
    result: SimulationResult, broker: int, from_ns: int, fair_share: float
) -> tuple[float, bool] | None:
    """Seconds until a broker's share of the records is even again, and stays so.

    Args:
        result: With a batch trace.
        broker: Index of the broker.
        from_ns: When the disturbance ended.
        fair_share: The broker's, by capacity.

    Returns:
        Whole seconds from `from_ns` until the first second from which on the broker's share of any `WINDOW_S` seconds
        stays below `LIMIT_RATIO` fair shares, and True; or the seconds until the run's last whole window, and False. A
        record counts when its batch was begun. None where no whole window follows.

    Raises:
        ValueError: The result has no batch trace.
    """
    if result.batch_trace is None:
        raise ValueError("a recovery is measured on the batch trace")
    created_ns = result.batch_trace.column("created_at_ns").to_numpy()
    records = result.batch_trace.column("record_count").to_numpy()
    leaders = np.asarray(result.leaders)[result.batch_trace.column("partition").to_numpy()]
    after = created_ns >= from_ns
    second = (created_ns[after] - from_ns) // _NS_PER_S
    if not after.any() or second.max() < WINDOW_S:
        return None
    ours = leaders[after] == broker
    all_sums = np.cumsum(np.concatenate([[0], np.bincount(second, records[after])]))
    our_sums = np.cumsum(np.concatenate([[0], np.bincount(second[ours], records[after][ours], len(all_sums) - 1)]))
    window_all = all_sums[WINDOW_S:-1] - all_sums[: -WINDOW_S - 1]  # the last second may be cut
    window_ours = our_sums[WINDOW_S:-1] - our_sums[: -WINDOW_S - 1]
    uneven = np.flatnonzero(window_ours > LIMIT_RATIO * fair_share * window_all)
    first_even = int(uneven[-1]) + 1 if len(uneven) else 0
    return float(first_even), first_even < len(window_all)
