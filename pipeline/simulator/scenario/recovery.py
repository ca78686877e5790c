"""How long after a disturbance its backlog is gone, and records are spread evenly again."""

import numpy as np
from numpy.typing import NDArray

from pipeline.simulator.clients.client import SECOND
from pipeline.simulator.engine.result import SimulationResult

WINDOW_S = 10  # shares are taken over as many seconds: less is mostly chance where runs on a partition are long
TOLERANCE = 0.2
"""A share is even within this part of the fair one, either way: as far as the health gate lets a broker go."""
_STEP_NS = SECOND // 10
_STEPS = WINDOW_S * SECOND // _STEP_NS


def measure_recovery_s(
    result: SimulationResult, broker: int, from_ns: int, fair_share: float
) -> tuple[float, bool] | None:
    """Seconds until a broker's share of the records is even again, and stays so.

    Returns:
        Seconds from `from_ns`, when the disturbance ended, until the broker's share of any `WINDOW_S` seconds stays within
        `TOLERANCE` of its fair share, and True; or the seconds until the last whole window begins, and False; None where
        no whole window follows. A record counts when it is acknowledged: what waited for the broker is its load too.

    Raises:
        ValueError: The result has no batch trace.
    """
    trace = result.find_batch_trace()
    done_ns = trace.column("done_at_ns").to_numpy()
    after = done_ns >= from_ns
    step = (done_ns[after] - from_ns) // _STEP_NS
    if not after.any() or step.max() < _STEPS:
        return None
    records = trace.column("record_count").to_numpy()[after]
    ours = np.asarray(result.leaders)[trace.column("partition").to_numpy()[after]] == broker
    all_records = _sum_windows(step, records)
    our_records = _sum_windows(step, np.where(ours, records, 0))
    uneven = np.flatnonzero(np.abs(our_records - fair_share * all_records) > TOLERANCE * fair_share * all_records)
    first_even = int(uneven[-1]) + 1 if len(uneven) else 0
    return first_even * _STEP_NS / SECOND, first_even < len(all_records)


def _sum_windows(step: NDArray[np.int64], records: NDArray[np.int64]) -> NDArray[np.float64]:
    """Records of every `WINDOW_S` seconds, by first step; the last step may be incomplete and is left out."""
    sums = np.concatenate([[0.0], np.cumsum(np.bincount(step, records)[:-1])])
    windows: NDArray[np.float64] = sums[_STEPS:] - sums[:-_STEPS]
    return windows


def measure_backlog_s(result: SimulationResult, from_ns: int) -> float:
    """Seconds until the last batch that was begun before is done; arguments as above."""
    trace = result.find_batch_trace()
    before = trace.column("created_at_ns").to_numpy() < from_ns
    done_ns = trace.column("done_at_ns").to_numpy()[before]
    return max(0, int(done_ns.max(initial=from_ns)) - from_ns) / SECOND
