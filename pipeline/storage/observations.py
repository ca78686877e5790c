"""What runs observed of a live cluster: leaders by epoch, for sources that need the difference between two runs, and brokers' outages."""

from collections import defaultdict
from collections.abc import Iterator, Sequence, Set
from functools import partial
from typing import NamedTuple

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from pipeline.config.storage import Folder
from pipeline.engine import count_task_slots
from pipeline.measures.outages import LEAST_MISSED, LedSpan, Outage, SampleGap, find_gaps, find_outages
from pipeline.model.cluster import LIVE_CLUSTER, TIME_AHEAD, EarlierState
from pipeline.model.window import DAY_MS, HOUR_MS, TimeWindow, Windows, spanning
from pipeline.stages import map_groups, map_tasks
from pipeline.storage.durability import has_table, open_table
from pipeline.storage.files import iter_file_rows, list_data_files
from pipeline.storage.predicates import format_datafusion_predicate
from pipeline.storage.rows import load_rows, query_rows
from pipeline.storage.tables_on_disk import table_path
from pipeline.tables.arrow_types import integers, strings
from pipeline.tables.broker_metrics import BROKER_METRICS
from pipeline.tables.bronze import BROKERS, CLUSTER_STATE, METRIC_SAMPLES
from pipeline.tables.silver import RECORD_BATCHES
from pipeline.tables.values import tuples_of

REACH_MS = 7 * DAY_MS
SETTLED_MS = HOUR_MS  # how far ahead of the brokers' clocks those of clients may be
_TASKS_PER_SLOT = 3
_LOG = ("topic", "topic_id", "partition")
_TERM = (*_LOG, "leader_epoch", "leader_id")
_TOLD = ("log_start_offset", "log_end_offset", "size_bytes")
_OBSERVED = ("observed_leader_epoch", "observed_leader_id")
_NEEDED = (*_TERM, *_TOLD, "window_start", "state_source", "replica_id", "is_leader")
_AHEAD = ("time_ahead_ms", "settled_ahead_ms")
_AGES = ("window_start_ms", "told_at_ms", "observed_at_ms")
_NUMBERS = ("partition", *_TERM[3:], *_TOLD, *_AGES, "settled_offset", *_AHEAD)
_SCHEMA = pa.schema([*strings(*_LOG[:2]), *integers(*_NUMBERS), pa.field("is_before", pa.bool_())])
"""Fields of `EarlierState`, how far ahead the topic took records an hour before the span, and whether its window is before it."""


def load_earlier_states(spark: SparkSession, warehouse: Folder, cluster: str, span: TimeWindow) -> list[EarlierState]:
    """The newest leader's row of each leader epoch in the week before a span, and likewise since it, oldest first.

    Who led in an epoch is true at any time: a late run learns it for earlier windows from runs over later ones.
    """
    path = table_path(warehouse, CLUSTER_STATE)
    if not has_table(path) or not {*_NEEDED} <= {field.name for field in open_table(path).schema().fields}:
        return []
    reach = TimeWindow(max(0, span.start_ms - REACH_MS), span.end_ms + REACH_MS)
    paths, slots = list_data_files(warehouse, CLUSTER_STATE, cluster, (reach,)), count_task_slots(spark)
    count = min(len(paths), _TASKS_PER_SLOT * slots)
    day = TimeWindow(max(0, span.start_ms - DAY_MS), reach.end_ms)  # configs are read of it only: maps take long
    recent = frozenset(list_data_files(warehouse, CLUSTER_STATE, cluster, (day,)))
    read = partial(_read_terms, warehouse, reach, span.start_ms, recent)
    terms = map_tasks(spark, [paths[number::count] for number in range(count)], read, _SCHEMA)
    found = pl.DataFrame(pl.from_arrow(map_groups(terms, _LOG, slots, _finish, _SCHEMA).toArrow()))
    ordered = found.drop("is_before", "settled_ahead_ms").sort(
        "window_start_ms", "topic", "partition", pl.col("leader_epoch").fill_null(0), pl.all()
    )
    return [EarlierState(**row) for row in ordered.iter_rows(named=True)]


def _read_terms(
    warehouse: Folder, reach: TimeWindow, start_ms: int, recent: Set[str], paths: Sequence[str]
) -> Iterator[pa.Table]:
    columns = (*_NEEDED, *_OBSERVED, "observed_at")
    terms = pl.DataFrame(pl.from_arrow(_SCHEMA.empty_table()))
    for path in paths:
        for batch in iter_file_rows(warehouse, path, (*columns, "configs") if path in recent else columns):
            terms = _keep_newest(pl.concat([terms, _list_terms(batch, reach, start_ms)]))
    yield terms.to_arrow()


def _list_terms(batch: pa.RecordBatch, reach: TimeWindow, start_ms: int) -> pl.DataFrame:
    rows = pl.DataFrame(pl.from_arrow(batch.select([n for n in batch.schema.names if n != "configs"])))
    rows = rows.with_columns(pl.lit(None).alias(n) for n in (*_OBSERVED, "observed_at") if n not in rows.columns)
    took_ms = pl.lit(None, pl.Int64)
    if "configs" in batch.schema.names:
        configs, names = batch["configs"], (TIME_AHEAD, "cleanup.policy")  # brokers always tell that policy
        ahead, policy = (pl.Series(pl.from_arrow(pc.map_lookup(configs, pa.scalar(n), "first"))) for n in names)
        was_asked = policy.is_not_null() | rows["observed_leader_id"].is_not_null()
        took_ms = pl.when(was_asked).then(ahead.cast(pl.Int64, strict=False).fill_null(2**63 - 1))  # any time
    at, told = pl.col("window_start").dt.epoch("ms"), pl.col("observed_at").cast(pl.Datetime("us")).dt.epoch("ms")
    leader_id, epoch = pl.col("leader_id"), pl.col("leader_epoch")
    rows = rows.with_columns(time_ahead_ms=took_ms)
    rows = rows.filter(
        (pl.col("state_source").cast(pl.String) == LIVE_CLUSTER) & (at >= reach.start_ms) & (at < reach.end_ms)
    ).with_columns(
        pl.col("topic", "topic_id").cast(pl.String),
        window_start_ms=at,
        told_at_ms=told,
        observed_at_ms=told,
        settled_offset=pl.when(told <= start_ms - SETTLED_MS).then("log_end_offset"),
        settled_ahead_ms=pl.when(told <= start_ms - SETTLED_MS).then("time_ahead_ms"),
        is_before=at < start_ms,
    )
    observed = rows.with_columns(
        is_leader=pl.col("replica_id") == pl.col("observed_leader_id"),
        leader_epoch=pl.col("observed_leader_epoch").cast(pl.Int64),
        leader_id=pl.col("observed_leader_id").cast(pl.Int64),
    )
    either = pl.concat([one.select("is_leader", *_SCHEMA.names) for one in (rows, observed)])
    return either.filter(pl.col("is_leader") | ((leader_id < 0) & epoch.is_not_null())).drop("is_leader")


def _keep_newest(rows: pl.DataFrame) -> pl.DataFrame:
    first, largest = pl.col("observed_at_ms").min(), pl.col("settled_offset", *_AHEAD).max()
    others = pl.col("window_start_ms", "told_at_ms", *_TOLD)
    ordered = rows.sort("window_start_ms", "told_at_ms", *_TOLD)  # of rows of one window in whatever order the same
    return ordered.group_by(*_TERM, "is_before").agg(others.last(), first, largest).select(_SCHEMA.names)


def _finish(rows: pa.Table) -> Iterator[pa.Table]:
    newest = _keep_newest(pl.DataFrame(pl.from_arrow(rows)))
    first, largest = pl.col("observed_at_ms").min().over(_TERM), pl.col("settled_offset").max().over(*_LOG, "leader_id")
    is_known = pl.col("settled_ahead_ms").max().over(_LOG).is_not_null()
    ahead = pl.when(is_known).then(pl.col("time_ahead_ms").max().over(_LOG))
    yield newest.with_columns(first, largest, time_ahead_ms=ahead).to_arrow().cast(_SCHEMA)


WITHIN = 24  # windows around others whose batches and metrics count
_LATE_WITHIN_MS = 31 * DAY_MS
_ANSWERED = ("window_start", "broker_id", "is_fenced", "observed_at")
_SPANS = """
    SELECT topic, topic_id, partition, leader_epoch, leader_id,
        min(max_timestamp) AS first_at, max(max_timestamp) AS last_at
    FROM batches WHERE {where} AND leader_epoch >= 0 AND max_timestamp IS NOT NULL AND NOT is_time_outlier
    GROUP BY topic, topic_id, partition, leader_epoch, leader_id"""
_SAMPLED = """
    SELECT DISTINCT instance, observed_at FROM samples WHERE {where} AND name LIKE 'kafka_server_%'"""


def asked_within_ms(window_ms: int) -> int:
    """How far around windows a live cluster's answers count: nobody asks while Airflow is down, and a day is taken up after it."""
    return max(WITHIN * window_ms, DAY_MS + HOUR_MS)


class ClusterAnswers(NamedTuple):
    """What a live cluster answered around some windows; judged late, within a month."""

    brokers: frozenset[int]  # all of which any answer or source told
    observed: tuple[tuple[int, int, bool], ...]  # broker, when the cluster was asked, and whether it was away


def load_answers(
    warehouse: Folder, cluster: str, span: TimeWindow, window_ms: int, *, as_of_ms: int = 0
) -> ClusterAnswers:
    within_ms = asked_within_ms(window_ms)
    within_ms = within_ms if as_of_ms - span.end_ms <= within_ms else max(within_ms, _LATE_WITHIN_MS)
    asked = TimeWindow(max(0, span.start_ms - within_ms), span.end_ms + within_ms)
    stored = load_rows(warehouse, BROKERS, cluster=cluster, windows=(asked,), columns=_ANSWERED)
    states = list(tuples_of(stored, "broker_id", "window_start_ms", "observed_ms", "is_fenced"))
    observed = (  # of windows that hold the moment
        (broker_id, at_ms, is_away)
        for broker_id, start_ms, at_ms, is_away in states
        if at_ms is not None and is_away is not None and start_ms <= at_ms < start_ms + window_ms
    )
    return ClusterAnswers(frozenset(broker_id for broker_id, *_ in states), tuple(observed))


def load_outages(
    warehouse: Folder,
    cluster: str,
    windows: Windows,
    window_ms: int,
    *,
    as_of_ms: int = 0,
    answers: ClusterAnswers | None = None,
) -> list[Outage]:
    """Outages around some windows, by answers that were loaded before or not; batches are read only where a broker or its metrics were away."""
    span = spanning(windows)
    answers = answers or load_answers(warehouse, cluster, span, window_ms, as_of_ms=as_of_ms)
    observed = answers.observed
    reach = TimeWindow(max(0, span.start_ms - WITHIN * window_ms), span.end_ms + WITHIN * window_ms)
    gaps = _load_gaps(warehouse, cluster, reach, window_ms, answers.brokers)
    away_ms = [at_ms for _, at_ms, is_away in observed if is_away]
    if not away_ms and not gaps:
        return []
    first_ms = min([*away_ms, *(gap.seen_ms for gap in gaps)])
    seen_ms = [at_ms for _, at_ms, is_away in observed if not is_away and at_ms < first_ms]
    last_ms = max([*away_ms, *(gap.missed_ms for gap in gaps)])
    from_ms = max(reach.start_ms, max(seen_ms, default=0) // window_ms * window_ms)
    until_ms = max(from_ms + window_ms, min(reach.end_ms, last_ms + window_ms))
    where = format_datafusion_predicate(RECORD_BATCHES, cluster, (TimeWindow(from_ms, until_ms),))
    rows = query_rows(warehouse, _SPANS.format(where=where), {"batches": RECORD_BATCHES})
    columns = ("topic", "topic_id", "partition", "leader_epoch", "leader_id", "first_ms", "last_ms")
    led = [LedSpan(tuple(of[:3]), *of[3:]) for of in tuples_of(rows, *columns)]
    return find_outages(observed, led, gaps)


def _load_gaps(
    warehouse: Folder, cluster: str, reach: TimeWindow, window_ms: int, known: frozenset[int]
) -> list[SampleGap]:
    """Where metrics of a known broker stayed away; samples are read only around windows with fewer of one than of another."""
    columns = ("window_start", "instance", "broker_id", "sample_count")
    stored = load_rows(warehouse, BROKER_METRICS, cluster=cluster, windows=(reach,), columns=columns)
    rows = tuples_of(stored, "broker_id", "instance", "window_start_ms", "sample_count")
    counted = [row for row in rows if row[0] in known]
    brokers = {instance: broker_id for broker_id, instance, _, _ in counted}
    counts: dict[int, dict[int, int]] = defaultdict(lambda: dict.fromkeys(brokers.values(), 0))
    for broker_id, _, start_ms, count in counted:
        counts[start_ms][broker_id] = max(counts[start_ms][broker_id], count)
    extremes = ((at_ms, min(of.values()), max(of.values())) for at_ms, of in counts.items())
    fewer = [at_ms for at_ms, least, most in extremes if most - least >= LEAST_MISSED or not least]
    if not fewer:
        return []
    starts_ms = sorted({max(0, at_ms + step * window_ms) for at_ms in fewer for step in (-1, 0, 1)})
    near = [TimeWindow(at_ms, at_ms + window_ms) for at_ms in starts_ms]
    where = format_datafusion_predicate(METRIC_SAMPLES, cluster, near)
    sampled: dict[int, set[int]] = defaultdict(set)
    samples = query_rows(warehouse, _SAMPLED.format(where=where), {"samples": METRIC_SAMPLES})
    for instance, at_ms in tuples_of(samples, "instance", "observed_ms"):
        if instance in brokers:
            sampled[brokers[instance]].add(at_ms)
    return find_gaps({broker_id: sorted(times) for broker_id, times in sampled.items()})
