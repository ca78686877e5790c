"""Measures what the rules judge: `gold.rule_measures`, from the tables of health and cluster state."""

from functools import cache

import polars as pl
import pyarrow as pa

from pipeline.model.log import fits_topics
from pipeline.model.log_tree import KAFKA_TOPICS
from pipeline.model.window import TimeWindow, Windows
from pipeline.rules import RULES
from pipeline.rules.rule import Appended, RuleInput, RuleMeasure
from pipeline.runs import JobReport, RunContext
from pipeline.storage.observations import load_outages
from pipeline.storage.predicates import format_datafusion_instant
from pipeline.storage.window_status import trusted_windows
from pipeline.tables import Table
from pipeline.tables.bronze import CLUSTER_STATE, LOG_SEGMENTS, WINDOW_STATUS
from pipeline.tables.health import RULE_MEASURES, TOPIC_HEALTH
from pipeline.tables.silver import PARTITION_TRAFFIC
from pipeline.transforms.appended import sum_appended
from pipeline.transforms.topic_health import match_compacted

_DELETABLE = """
    SELECT segments.*
    FROM segments JOIN (
        SELECT topic, partition, replica_id, min(log_start_offset) AS first_offset FROM state GROUP BY topic, partition, replica_id
    ) AS logs ON logs.topic = segments.topic AND logs.partition = segments.partition AND logs.replica_id = segments.broker_id
    WHERE deletable_at <= {end} AND coalesce(segments.last_offset, segments.base_offset) >= logs.first_offset
"""  # few of all segments that ever were: most were deleted since, and lie before their logs' starts
_LOGS = """
    SELECT * FROM (SELECT *,
        min(at_ms) OVER (PARTITION BY topic, topic_id, CASE state_source WHEN 'only_replica' THEN -1 ELSE partition END) AS first_ms
    FROM (SELECT topic, topic_id, partition, log_start_offset, log_end_offset, size_bytes, replica_id, state_source,
        coalesce(observed_leader_id, leader_id) AS leader_id, coalesce(observed_leader_epoch, leader_epoch, -1) AS leader_epoch,
        CAST(CASE WHEN state_source = 'live_cluster' THEN observed_at ELSE as_of END AS BIGINT) / 1000 AS at_ms
    FROM state LEFT JOIN (SELECT window_start AS start, max(as_of) AS as_of FROM status GROUP BY window_start) ON state.window_start = start))
    WHERE replica_id = leader_id AND log_start_offset >= 0 AND log_end_offset >= 0 AND size_bytes >= 0
"""  # leaders' logs, and when each partition, or where only replicas show it, its topic was first described
_TRAFFIC = """
    SELECT topic, topic_id, partition, leader_id, size_bytes, covered_offset_count + missing_offset_count AS offset_count, count_kind,
        missing_offset_count + compacted_record_count AS gone_count,
        CAST(window_start AS BIGINT) / 1000 AS start_ms
    FROM traffic
"""
_LATE_RUNS = 10  # windows by which runs may take place later than theirs


def run(run: RunContext, windows: Windows) -> JobReport:
    if not windows:
        return JobReport()

    @cache
    def load(table: Table, history_windows: int) -> pa.Table:
        if table is LOG_SEGMENTS:
            sql = _DELETABLE.format(end=format_datafusion_instant(windows[-1].end_ms))
            return run.query(sql, windows, segments=LOG_SEGMENTS, state=CLUSTER_STATE)
        first_ms = windows[0].start_ms - history_windows * run.window_ms
        reach = (TimeWindow(first_ms, windows[-1].end_ms),) if history_windows else windows
        if table is TOPIC_HEALTH and history_windows:
            return run.load(table, reach, where="reassigning_count > 0")
        return run.load(table, reach)

    given = RuleInput(
        load=load,
        appended=cache(lambda: _load_appended(run, windows)),
        starts_ms=[window.start_ms for window in windows],
        window_ms=run.window_ms,
        disk_bytes=run.cluster.disk_bytes,
        outages=load_outages(run.warehouse, run.cluster_name, windows, run.window_ms, as_of_ms=run.as_of_ms),
        limit_ratio=run.cluster.gate.limit_ratio,
        broker_zones=run.cluster.zones.brokers,
    )
    worst: dict[tuple[int, str, str], RuleMeasure] = {}  # a name is shown cut, and a topic may be made anew in a window
    for name, rule in RULES.items():
        settings, sign = run.cluster.rules[name], -1 if rule.is_falling else 1
        for measure in rule.measure(name, given):
            if settings.of_topic(measure.topic).severity != "off":
                at = measure.window_start_ms, name, measure.subject
                worst[at] = max(worst.get(at, measure), measure, key=lambda m: (m.is_enough, sign * (m.value or 0.0)))
    return JobReport(table_versions=run.replace(RULE_MEASURES, worst.values(), windows))


def _load_appended(run: RunContext, windows: Windows) -> list[Appended]:
    """What brokers appended between moments in some windows, where all windows between were read whole."""
    count = 2 * len(run.windows) + _LATE_RUNS
    reach = (TimeWindow(windows[0].start_ms - count * run.window_ms, windows[-1].end_ms),)
    logs = pl.DataFrame(run.query(_LOGS, reach, state=CLUSTER_STATE, status=WINDOW_STATUS)).drop_nulls("at_ms")
    if logs["at_ms"].n_unique() < 2:  # a recording, or the first run
        return []
    traffic = pl.DataFrame(run.query(_TRAFFIC, reach, traffic=PARTITION_TRAFFIC))
    topic = pl.col("topic")
    names = logs["topic"].unique()
    wanted = names.filter([fits_topics(name, run.cluster.topics) for name in names])
    is_read = topic.is_in(wanted.implode()) & ~topic.is_in(KAFKA_TOPICS)
    logs = logs.filter(is_read | topic.is_in(traffic["topic"].unique().implode()))
    state = run.load(CLUSTER_STATE, windows, ("topic", "configs", "state_source"), where="replica_position = 0")
    policies = pl.DataFrame(state.select(["topic"]).append_column("is_compacted", match_compacted(state)))
    policies = policies.group_by("topic").agg(pl.col("is_compacted").max().fill_null(value=False))
    compacted = policies.filter("is_compacted")["topic"]
    logs = logs.with_columns(is_compacted=topic.is_in(compacted.implode()))
    whole_ms = {window.start_ms for window in trusted_windows(run.warehouse, run.cluster_name, reach)}
    whole_ms -= run.skipped_windows(reach).keys()
    whole_ms -= set(traffic.filter(pl.col("count_kind") == "sampled")["start_ms"])
    starts_ms = [window.start_ms for window in windows]
    appended = sum_appended(logs, traffic, starts_ms, run.window_ms, own_topics=KAFKA_TOPICS).iter_rows(named=True)
    length_ms, found = run.window_ms, [Appended(**row) for row in appended]
    spans = [range(one.since_ms - one.since_ms % length_ms, one.at_ms, length_ms) for one in found]
    return [one for one, span in zip(found, spans, strict=True) if whole_ms.issuperset(span)]
