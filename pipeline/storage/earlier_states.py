"""What earlier runs saw of a cluster, for those that read the difference."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

from pipeline.model.cluster import EarlierState
from pipeline.model.window import DAY_MS, TimeWindow, milliseconds_of
from pipeline.storage.durability import open_table
from pipeline.storage.predicates import format_datafusion_predicate
from pipeline.storage.tables_on_disk import table_path
from pipeline.tables.bronze import CLUSTER_STATE

if TYPE_CHECKING:
    from pathlib import Path

LOOK_BACK_MS = 7 * DAY_MS
_TERM = ("topic", "topic_id", "partition", "leader_epoch")
_COLUMNS = (*_TERM, "leader_id", "log_start_offset", "log_end_offset", "size_bytes", "window_start")


def load_earlier_states(warehouse: Path, cluster: str, before_ms: int) -> tuple[EarlierState, ...]:
    """The newest leader's row of each leader epoch in the windows before an instant, at most a week back, oldest first.

    `warehouse`: folder of all tables; one that is not there yet, or is of a version without the columns, has none.
    `before_ms`: start of the run, UTC milliseconds.
    """
    path = table_path(warehouse, CLUSTER_STATE)
    if not DeltaTable.is_deltatable(str(path)):
        return ()
    stored = open_table(path)
    if not {*_COLUMNS} <= {field.name for field in stored.schema().fields}:
        return ()
    reach = TimeWindow(max(0, before_ms - LOOK_BACK_MS), before_ms)
    rows = _query(stored, format_datafusion_predicate(CLUSTER_STATE, cluster, (reach,))).to_pylist()
    states = [
        EarlierState(
            window_start_ms=milliseconds_of(row["window_start"]),
            **{name: row[name] for name in _COLUMNS if name != "window_start"},
        )
        for row in rows
    ]
    return tuple(sorted(states, key=lambda state: (state.window_start_ms, state.topic, state.partition)))


def _query(stored: DeltaTable, where: str) -> pa.Table:
    columns, term = ", ".join(_COLUMNS), ", ".join(_TERM)
    newest = (
        f"SELECT {columns}, row_number() OVER (PARTITION BY {term} ORDER BY window_start DESC) AS place "  # noqa: S608 - declared names
        f"FROM stored WHERE {where} AND is_leader AND state_source = 'live_cluster'"
    )
    query = QueryBuilder().register("stored", stored)
    return pa.table(query.execute(f"SELECT {columns} FROM ({newest}) WHERE place = 1").read_all())  # noqa: S608 - likewise
