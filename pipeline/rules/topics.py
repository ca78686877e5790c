"""Rules about topics: their replicas, their peaks, their segments."""

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace

from pipeline.model.cluster import retention_ms
from pipeline.model.number_text import format_ratio, format_span
from pipeline.model.window import DAY_MS, HOUR_MS
from pipeline.rules.rule import Rule, RuleInput, RuleMeasure, measure_column, measure_of_topic
from pipeline.tables.bronze import CLUSTER_STATE, LOG_SEGMENTS
from pipeline.tables.health import TOPIC_HEALTH

_UNKNOWN = ("unknown_replicas_count",)


def _topic_peak(rule: str, given: RuleInput) -> Iterator[RuleMeasure]:
    peaks = ("peak_to_mean", "chance_peak_to_mean", "best_peak_to_mean", "peak_p_value")
    columns = ("window_start_ms", "topic", "partition_count", "placement", "unit_count", "required_unit_count", *peaks)
    for start_ms, topic, count, placement, units, required, *of in given.tuples(TOPIC_HEALTH, *columns):
        peak, chance, best, p_value = of
        if peak is None:
            continue
        detail = f"the hottest of {count:,} partitions has {peak:.2f} times the mean"
        if chance is not None:
            detail += f", chance gives up to {chance:.2f} for its {placement}"
        if best is not None and best > 1:
            detail += f", no hash of these keys gets below {best:.2f}"
        # A topic has the keys it has, and the load they make is real: only batches can be too few.
        is_enough = placement == "keys" or (units or 0) >= (required or 0)
        yield replace(measure_of_topic(rule, start_ms, topic, peak, detail), p_value=p_value, is_enough=is_enough)


def _segments_past_retention(rule: str, given: RuleInput) -> Iterator[RuleMeasure]:
    from pipeline.measures.disks import is_past_retention

    of_segment = ("base_offset", "last_offset", "max_timestamp_ms", "deletable_ms", "size_bytes")
    segments = list(given.tuples(LOG_SEGMENTS, "topic", "partition", "broker_id", "topic_id", *of_segment))
    of_log = ("window_start_ms", "topic", "partition", "replica_id", "topic_id", "log_start_offset", "configs")
    logs = {log[:4]: log[4:] for log in given.tuples(CLUSTER_STATE, *of_log)} if segments else {}
    overdue: dict[tuple[int, str], list[int]] = defaultdict(list)
    for *log, topic_id, first, last, newest_ms, deletable_ms, size in segments:
        for start_ms in given.starts_ms:
            known_id, log_start, configs = logs.get((start_ms, *log), (None, None, None))
            # records before their log's start are gone, whatever the table of segments holds, and so is a topic made anew
            is_there = log_start is not None and (first if last is None else last) >= log_start
            if is_there and (known_id or topic_id) == (topic_id or known_id):
                # a retention that was raised since the segment was read holds for it, too
                told = dict(configs or ())
                kept_ms = retention_ms(told) if "retention.ms" in told else 0
                newest_until_ms = math.inf if kept_ms is None else (newest_ms or 0) + kept_ms
                until_ms = None if deletable_ms is None else max(deletable_ms, newest_until_ms)
                if is_past_retention(until_ms, start_ms + given.window_ms):
                    overdue[start_ms, log[0]].append(size)
    for start_ms, topic in given.tuples(TOPIC_HEALTH, "window_start_ms", "topic"):
        sizes = overdue.get((start_ms, topic), [])
        detail = f"{len(sizes):,} closed segments of {sum(sizes):,} bytes are past their retention"
        yield measure_of_topic(rule, start_ms, topic, float(len(sizes)), detail)


def _reassignment_hours(rule: str, given: RuleInput) -> Iterator[RuleMeasure]:
    """Hours for which a topic has been reassigned at each window's end, of up to a day: no share is judged so long."""
    moving: dict[int, dict[str, int]] = defaultdict(dict)
    history = max(2, -(-DAY_MS // given.window_ms))
    columns = ("window_start_ms", "topic", "reassigning_count")
    for start_ms, topic, count in given.tuples(TOPIC_HEALTH, *columns, history_windows=history):
        if count:
            moving[start_ms][topic] = count
    for start_ms in sorted({start_ms for (start_ms,) in given.tuples(TOPIC_HEALTH, "window_start_ms")}):
        since_ms, lasting = start_ms, {*moving[start_ms]}
        while still := lasting & moving.get(since_ms - given.window_ms, {}).keys():
            since_ms, lasting = since_ms - given.window_ms, still
        detail, hours = "no partition is being reassigned", min(DAY_MS, start_ms - since_ms) / HOUR_MS
        if lasting:
            count = sum(moving[start_ms].values())
            detail = (
                f"{count:,} partition{'s are' if count > 1 else ' is'} being reassigned, of {min(lasting)} for "
                f"{format_span(start_ms - since_ms)} or longer, and no share is judged"
            )
        # at two ends of windows two short ones may have run
        is_enough = start_ms - since_ms != given.window_ms
        yield RuleMeasure(start_ms, rule, "cluster", hours, detail, is_enough=is_enough)


TOPIC_RULES = (
    Rule(
        name="topic_peak", measure=_topic_peak, limit=2.0, k=3, n=4,
        meaning="a partition carries far more than its topic's mean",
        advice="Look at the topic's keys in `gold.hot_keys`, and at its producers' partitioner.",
        doc="bytes of the largest partition divided by the mean of the topic's partitions. The verdict compares it with the chance level, "
        "and with the lowest value that any hash of the keys could give",
        format=format_ratio, needs_all_records=True,
    ),
    Rule(
        name="under_replicated", limit=1, meaning="partitions are under-replicated",
        measure=measure_column(
            TOPIC_HEALTH, "under_replicated_count",
            "{under_replicated_count:,} partitions have fewer in-sync replicas than replicas", unknown=_UNKNOWN,
        ),
        advice="Look for a broker that is down or slow: `gold.topic_health`, `bronze.cluster_state`.",
        doc="partitions with fewer in-sync replicas than replicas (replicas that a reassignment adds do not count)",
    ),
    Rule(
        name="below_min_isr", limit=1, k=1, n=1, meaning="partitions refuse acks=all",
        measure=measure_column(
            TOPIC_HEALTH, "below_min_isr_count",
            "{below_min_isr_count:,} partitions are below min.insync.replicas: acks=all is refused",
            unknown=(*_UNKNOWN, "unknown_min_isr_count"),
        ),
        advice="Bring the missing replicas back; lower `min.insync.replicas` only if losing records is worse than waiting.",
        doc="partitions with fewer in-sync replicas than `min.insync.replicas`, or than replicas if these are fewer (as Kafka counts from 3.7 on). "
        "A default in brokers' `server.properties` is on no disk: with log directories it counts as 1",
        severity="critical",
    ),
    Rule(
        name="leaderless", limit=1, k=1, n=1, meaning="partitions have no leader",
        measure=measure_column(
            TOPIC_HEALTH, "leaderless_count", "{leaderless_count:,} partitions have no leader", unknown=_UNKNOWN
        ),
        advice="No in-sync replica is alive: bring a broker of theirs back before an unclean election.",
        doc="partitions without a leader", severity="critical",
    ),
    Rule(
        name="lagging_replicas", limit=1, meaning="replicas are out of the in-sync set",
        measure=measure_column(
            TOPIC_HEALTH, "lagging_replica_count", "{lagging_replica_count:,} replicas are out of the in-sync set",
            unknown=_UNKNOWN,
        ),
        advice="Look at disk and network of the followers' brokers.",
        doc="followers out of the in-sync set: they have been behind for longer than `replica.lag.time.max.ms`, or are gone",
    ),
    Rule(
        name="replica_size_spread", limit=2.0, meaning="replicas of one partition differ in size",
        measure=measure_column(
            TOPIC_HEALTH, "replica_size_spread",
            "the largest replica of a partition is {replica_size_spread:.2f} times the smallest",
        ),
        advice="A replica that was cleaned late or copied twice: compare `kafka-log-dirs`.",
        doc="size of a partition's largest replica divided by that of its smallest. Compacted topics are not judged, because each broker compacts by itself",
        format=format_ratio, needs_all_records=True,
    ),
    Rule(
        name="segments_past_retention", measure=_segments_past_retention, limit=1,
        meaning="segments are kept past their retention",
        advice="Look in the broker's log for segments that it could not delete.",
        doc="inactive segments that are older than `retention.ms` plus six minutes; by default a broker deletes them within these minutes",
    ),
    Rule(
        name="reassignment_hours", measure=_reassignment_hours, limit=6, k=1, n=1,
        meaning="a reassignment goes on for hours, and no share is judged meanwhile",
        advice="`kafka-reassign-partitions --list` names what is moved. Bring back a broker that it waits for, raise "
        "`--throttle`, or end it with `--cancel`.",
        doc="hours (24 at most) for which, at the end of each window, partitions of one topic were being reassigned. Shares are not judged meanwhile",
        format="{:.0f} h".format, severity="critical", is_clock=True,
    ),
)  # fmt: skip  # a table: short fields share a line
