"""What earlier runs saw of a cluster, for those that read the difference."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltalake import DeltaTable

from pipeline.model.earlier_state import EarlierState
from pipeline.model.window import TimeWindow, milliseconds_of
from pipeline.storage.rows import load_rows
from pipeline.storage.tables_on_disk import table_path
from pipeline.tables.bronze import CLUSTER_STATE

if TYPE_CHECKING:
    from pathlib import Path

LOOK_BACK_MS = 7 * 86_400_000
_COLUMNS = ("topic", "topic_id", "partition", "leader_id", "leader_epoch", "log_start_offset", "log_end_offset")


def load_earlier_states(warehouse: Path, cluster: str, before_ms: int) -> tuple[EarlierState, ...]:
    """The leaders' rows of the windows before an instant, at most a week back, oldest first.

    Args:
        warehouse: Folder of all tables; one that is not there yet has none.
        cluster: Whose.
        before_ms: Start of the run, UTC milliseconds.
    """
    if not DeltaTable.is_deltatable(str(table_path(warehouse, CLUSTER_STATE))):
        return ()
    reach = TimeWindow(max(0, before_ms - LOOK_BACK_MS), before_ms)
    rows = load_rows(warehouse, CLUSTER_STATE, cluster=cluster, windows=(reach,)).to_pylist()
    states = [
        EarlierState(
            window_start_ms=milliseconds_of(row["window_start"]),
            size_bytes=row["size_bytes"],
            **{name: row[name] for name in _COLUMNS},
        )
        for row in rows
        if row["is_leader"] and row["state_source"] == "live_cluster"
    ]
    return tuple(sorted(states, key=lambda state: (state.window_start_ms, state.topic, state.partition)))
