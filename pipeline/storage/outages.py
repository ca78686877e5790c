"""Outages of brokers of a live cluster, from what was observed of it and from the batches that were read."""

from collections.abc import Sequence

from pipeline.config.storage import Folder
from pipeline.measures.outages import LedSpan, Outage, find_outages
from pipeline.model.window import TimeWindow, milliseconds_of, spanning
from pipeline.storage.predicates import format_datafusion_predicate
from pipeline.storage.rows import load_rows, query_rows
from pipeline.tables.bronze import BROKERS
from pipeline.tables.silver import RECORD_BATCHES

WITHIN = 24  # windows around others in which a live cluster was asked
_OBSERVED = ("window_start", "broker_id", "is_fenced", "observed_at")
_SPANS = """
    SELECT topic, topic_id, partition, leader_epoch, leader_id,
        min(max_timestamp) AS first_at, max(max_timestamp) AS last_at
    FROM batches WHERE {where} AND leader_id >= 0 AND leader_epoch >= 0 AND max_timestamp IS NOT NULL AND NOT is_time_outlier
    GROUP BY topic, topic_id, partition, leader_epoch, leader_id"""


def load_outages(warehouse: Folder, cluster: str, windows: Sequence[TimeWindow], window_ms: int) -> list[Outage]:
    """Loads the outages around some windows; batches are read only where a broker was away when the cluster was asked."""
    span = spanning(windows)
    reach_ms = WITHIN * window_ms
    reach = TimeWindow(max(0, span.start_ms - reach_ms), span.end_ms + reach_ms)
    observed = _load_observations(warehouse, cluster, reach, window_ms)
    away_ms = [at_ms for _, at_ms, is_away in observed if is_away]
    if not away_ms:
        return []
    seen_ms = [at_ms for _, at_ms, is_away in observed if not is_away and at_ms < min(away_ms)]
    dated = TimeWindow(max(seen_ms, default=reach.start_ms) // window_ms * window_ms, max(away_ms) + window_ms)
    where = format_datafusion_predicate(RECORD_BATCHES, cluster, (dated,))
    rows = query_rows(warehouse, _SPANS.format(where=where), {"batches": RECORD_BATCHES}).to_pylist()
    led = [
        LedSpan(
            (row["topic"], row["topic_id"], row["partition"]),
            row["leader_epoch"],
            row["leader_id"],
            milliseconds_of(row["first_at"]),
            milliseconds_of(row["last_at"]),
        )
        for row in rows
    ]
    return find_outages(observed, led)


def _load_observations(
    warehouse: Folder, cluster: str, reach: TimeWindow, window_ms: int
) -> list[tuple[int, int, bool]]:
    """Broker, when the cluster was asked, and whether it was away; of windows that hold the moment."""
    rows = load_rows(warehouse, BROKERS, cluster=cluster, windows=(reach,), columns=_OBSERVED).to_pylist()
    found = []
    for row in rows:
        if row["observed_at"] is not None and row["is_fenced"] is not None:
            start_ms, at_ms = milliseconds_of(row["window_start"]), milliseconds_of(row["observed_at"])
            if start_ms <= at_ms < start_ms + window_ms:
                found.append((row["broker_id"], at_ms, row["is_fenced"]))
    return found
