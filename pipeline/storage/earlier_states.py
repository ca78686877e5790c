"""Cluster states seen by earlier runs, for sources that need the difference between two."""

from datetime import datetime, timedelta

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

from pipeline.config.storage import Folder
from pipeline.model.cluster import EarlierState
from pipeline.model.window import DAY_MS, HOUR_MS, TimeWindow, instant_of, milliseconds_of
from pipeline.storage.durability import has_table, open_table
from pipeline.storage.predicates import format_datafusion_predicate
from pipeline.storage.tables_on_disk import table_path
from pipeline.tables.bronze import CLUSTER_STATE

REACH_MS = 7 * DAY_MS
SETTLED_MS = HOUR_MS  # how far ahead of the brokers' clocks those of clients may be
_TERM = ("topic", "topic_id", "partition", "leader_epoch", "leader_id")
_COLUMNS = (*_TERM, "log_start_offset", "log_end_offset", "size_bytes", "window_start")


def load_earlier_states(warehouse: Folder, cluster: str, span: TimeWindow) -> tuple[EarlierState, ...]:
    """The newest leader's row of each leader epoch in the week before a span of windows, and since it, oldest first.

    Who led in an epoch is true at any time: a late run learns it for earlier windows from runs over later ones. A row
    names the leader at its window's end, and the one observed after it.
    """
    path = table_path(warehouse, CLUSTER_STATE)
    if not has_table(path):
        return ()
    stored = open_table(path)
    if not {*_COLUMNS} <= {field.name for field in stored.schema().fields}:  # of an older version
        return ()
    reach = TimeWindow(max(0, span.start_ms - REACH_MS), span.end_ms + REACH_MS)
    where = format_datafusion_predicate(CLUSTER_STATE, cluster, (reach,))
    rows = _query(stored, where, instant_of(span.start_ms)).to_pylist()
    states = [
        EarlierState(
            window_start_ms=milliseconds_of(row["window_start"]),
            told_at_ms=None if row["observed_at"] is None else milliseconds_of(row["observed_at"]),
            observed_at_ms=None if row["first_seen"] is None else milliseconds_of(row["first_seen"]),
            settled_offset=row["settled_offset"],
            **{name: row[name] for name in _COLUMNS if name != "window_start"},
        )
        for row in rows
    ]
    return tuple(sorted(states, key=lambda s: (s.window_start_ms, s.topic, s.partition, s.leader_epoch or 0)))


def _query(stored: DeltaTable, where: str, start: datetime) -> pa.Table:
    columns, term = ", ".join(_COLUMNS), ", ".join(_TERM)
    side = f"{term}, window_start < TIMESTAMP '{start.isoformat()}'"
    has_observed = any(field.name == "observed_leader_id" for field in stored.schema().fields)
    instant = "observed_at" if has_observed else "CAST(NULL AS TIMESTAMP) AS observed_at"
    live = f"FROM stored WHERE {where} AND state_source = 'live_cluster' AND "
    led = f"SELECT {columns}, {instant} {live} (is_leader OR (leader_id < 0 AND leader_epoch IS NOT NULL))"
    if has_observed:
        observed = columns.replace("leader_epoch, leader_id", "observed_leader_epoch, observed_leader_id")
        led += f" UNION ALL SELECT {observed}, {instant} {live} (replica_id = observed_leader_id OR (observed_leader_id < 0 AND observed_leader_epoch IS NOT NULL))"
    settled = f"TIMESTAMP '{(start - timedelta(milliseconds=SETTLED_MS)).isoformat()}'"
    newest = (
        f"SELECT {columns}, observed_at, min(observed_at) OVER (PARTITION BY {term}) AS first_seen, "  # noqa: S608 - declared names, instants of our own
        f"max(CASE WHEN observed_at <= {settled} THEN log_end_offset END) OVER (PARTITION BY topic, topic_id, partition, leader_id) AS settled_offset, "
        f"row_number() OVER (PARTITION BY {side} ORDER BY window_start DESC) AS place FROM ({led})"
    )
    query = QueryBuilder().register("stored", stored)
    chosen = f"SELECT {columns}, observed_at, first_seen, settled_offset FROM ({newest}) WHERE place = 1"  # noqa: S608 - likewise
    return pa.table(query.execute(chosen).read_all())
