"""Outages of brokers, from what was observed of a live cluster, from the batches that were read, and from brokers' metrics."""

from collections import defaultdict
from collections.abc import Sequence

from pipeline.config.storage import Folder
from pipeline.measures.outages import LEAST_MISSED, LedSpan, Outage, SampleGap, find_gaps, find_outages
from pipeline.model.window import DAY_MS, HOUR_MS, TimeWindow, spanning
from pipeline.storage.predicates import format_datafusion_predicate
from pipeline.storage.rows import load_rows, query_rows
from pipeline.tables.broker_metrics import BROKER_METRICS
from pipeline.tables.bronze import BROKERS, METRIC_SAMPLES
from pipeline.tables.silver import RECORD_BATCHES
from pipeline.tables.values import tuples_of

WITHIN = 24  # windows around others whose batches and metrics count
_LATE_WITHIN_MS = 31 * DAY_MS
_OBSERVED = ("window_start", "broker_id", "is_fenced", "observed_at")
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


def load_outages(
    warehouse: Folder, cluster: str, windows: Sequence[TimeWindow], window_ms: int, *, as_of_ms: int = 0
) -> list[Outage]:
    """Loads the outages around some windows; batches are read only where a broker was away when asked, or its metrics were.

    `as_of_ms`: the run's now; around windows that are judged later than answers count, those of a month do.
    """
    span = spanning(windows)
    within_ms = asked_within_ms(window_ms)
    within_ms = within_ms if as_of_ms - span.end_ms <= within_ms else max(within_ms, _LATE_WITHIN_MS)
    reach, asked = (
        TimeWindow(max(0, span.start_ms - around_ms), span.end_ms + around_ms)
        for around_ms in (WITHIN * window_ms, within_ms)
    )
    stored = load_rows(warehouse, BROKERS, cluster=cluster, windows=(asked,), columns=_OBSERVED)
    states = list(tuples_of(stored, "broker_id", "window_start_ms", "observed_ms", "is_fenced"))
    # broker, when the cluster was asked, and whether it was away; of windows that hold the moment
    observed = [
        (broker_id, at_ms, is_away)
        for broker_id, start_ms, at_ms, is_away in states
        if at_ms is not None and is_away is not None and start_ms <= at_ms < start_ms + window_ms
    ]
    gaps = _load_gaps(warehouse, cluster, reach, window_ms, {broker_id for broker_id, *_ in states})
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


def _load_gaps(warehouse: Folder, cluster: str, reach: TimeWindow, window_ms: int, known: set[int]) -> list[SampleGap]:
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
