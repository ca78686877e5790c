"""Rules about topics (their replicas, their peaks, their segments) and about zones, as racks of brokers name them."""

from collections import defaultdict
from collections.abc import Iterator

from pipeline.measures.chance import chance_p_value
from pipeline.model.number_text import format_name, format_percent, format_ratio
from pipeline.model.window import milliseconds_of
from pipeline.rules.rule import Row, Rule, RuleInput, RuleMeasure, measure_column, measure_topic_by_rule
from pipeline.tables.bronze import BROKERS, CLUSTER_STATE
from pipeline.tables.gold import BROKER_SHARE
from pipeline.tables.health import TOPIC_HEALTH


def _zone_share(rule: str, given: RuleInput) -> Iterator[RuleMeasure]:
    """Part of the bytes that brokers of a zone carry over their part of the capacity; none where fewer than two have a rack."""
    racks = {(milliseconds_of(row["window_start"]), row["broker_id"]): row["rack"] for row in given.rows(BROKERS, 0)}
    zones: dict[tuple[int, str], list[Row]] = defaultdict(list)
    for row in given.rows(BROKER_SHARE, 0):
        start_ms = milliseconds_of(row["window_start"])
        rack = racks.get((start_ms, row["broker_id"]))
        if rack and row["share"] is not None:
            zones[start_ms, rack].append(row)
    counts: dict[int, int] = defaultdict(int)
    for start_ms, _ in zones:
        counts[start_ms] += 1
    for (start_ms, rack), rows in sorted(zones.items()):
        share, fair = (sum(row[name] for row in rows) for name in ("share", "expected_share"))
        if counts[start_ms] > 1 and fair > 0:
            units = rows[0]["effective_unit_count"]
            yield RuleMeasure(
                window_start_ms=start_ms,
                rule=rule,
                subject=f"zone {format_name(rack)}",
                topic="",
                value=share / fair,
                p_value=chance_p_value(share / fair, fair, units) if units and fair < 1 else None,
                is_enough=bool(units),
                detail=f"carries {format_percent(share)} of the bytes with {format_percent(fair)} of the capacity",
            )


ZONE_RULES = (
    Rule(
        name="zone_share",
        measure=_zone_share,
        limit=1.3,
        meaning="a zone carries more than its part of the capacity",
        advice="`partition-health what-if --zones rack-aware --plan plan.json` says what leaders elsewhere bring; or give the zone brokers.",
        doc="bytes of a zone's brokers over all bytes, by their part of the capacity; zones are racks of brokers, two at least",
        format=format_ratio,
        needs_all_records=True,
    ),
)


def _topic_peak(rule: str, given: RuleInput) -> Iterator[RuleMeasure]:
    for row in given.rows(TOPIC_HEALTH, 0):
        if row["peak_to_mean"] is None:
            continue
        detail = f"the hottest of {row['partition_count']:,} partitions has {row['peak_to_mean']:.2f} times the mean"
        if row["chance_peak_to_mean"] is not None:
            detail += f", chance gives up to {row['chance_peak_to_mean']:.2f} for its {row['placement']}"
        if row["best_peak_to_mean"] is not None and row["best_peak_to_mean"] > 1:
            detail += f", no hash of these keys gets below {row['best_peak_to_mean']:.2f}"
        # A topic has the keys it has, and the load they make is real: only batches can be too few.
        is_enough = row["placement"] == "keys" or (row["unit_count"] or 0) >= (row["required_unit_count"] or 0)
        yield measure_topic_by_rule(rule, row, row["peak_to_mean"], detail, row["peak_p_value"], is_enough=is_enough)


def _segments_past_retention(rule: str, given: RuleInput) -> Iterator[RuleMeasure]:
    """Segments whose records are all before their log's start are gone, whatever the table of segments still holds."""
    from pipeline.measures.disks import is_past_retention

    segments = given.deletable_segments()
    log_starts = {
        (milliseconds_of(row["window_start"]), row["topic"], row["partition"], row["replica_id"]): row[
            "log_start_offset"
        ]
        for row in (given.rows(CLUSTER_STATE, 0) if segments else ())
        if row["log_start_offset"] is not None
    }
    overdue: dict[tuple[int, str], list[int]] = defaultdict(list)
    for row in segments:
        newest = row["base_offset"] if row["last_offset"] is None else row["last_offset"]
        for start_ms in given.starts_ms:
            log_start = log_starts.get((start_ms, row["topic"], row["partition"], row["broker_id"]))
            is_over = is_past_retention(milliseconds_of(row["deletable_at"]), start_ms + given.window_ms)
            if is_over and log_start is not None and newest >= log_start:
                overdue[start_ms, row["topic"]].append(row["size_bytes"])
    for row in given.rows(TOPIC_HEALTH, 0):
        sizes = overdue.get((milliseconds_of(row["window_start"]), row["topic"]), [])
        detail = f"{len(sizes):,} closed segments of {sum(sizes):,} bytes are past their retention"
        yield measure_topic_by_rule(rule, row, float(len(sizes)), detail)


TOPIC_RULES = (
    Rule(
        name="topic_peak",
        measure=_topic_peak,
        limit=2.0,
        k=3,
        n=4,
        meaning="a partition carries far more than its topic's mean",
        advice="Look at the topic's keys in `gold.hot_keys`, and at its producers' partitioner.",
        doc="bytes of the largest partition over the mean, compared with what chance gives and with the best that any hash of its keys "
        "can reach",
        format=format_ratio,
        needs_all_records=True,
    ),
    Rule(
        name="under_replicated",
        measure=measure_column(
            TOPIC_HEALTH,
            "under_replicated_count",
            "{under_replicated_count:,} partitions have fewer in-sync replicas than replicas",
        ),
        limit=1,
        meaning="partitions are under-replicated",
        advice="Look for a broker that is down or slow: `gold.topic_health`, `bronze.cluster_state`.",
        doc="partitions with fewer in-sync replicas than replicas (not those a reassignment adds)",
    ),
    Rule(
        name="below_min_isr",
        measure=measure_column(
            TOPIC_HEALTH,
            "below_min_isr_count",
            "{below_min_isr_count:,} partitions are below min.insync.replicas: acks=all is refused",
        ),
        limit=1,
        k=1,
        n=1,
        meaning="partitions refuse acks=all",
        advice="Bring the missing replicas back; lower `min.insync.replicas` only if losing records is worse than waiting.",
        doc="partitions with fewer in-sync replicas than `min.insync.replicas`",
        severity="critical",
    ),
    Rule(
        name="leaderless",
        measure=measure_column(TOPIC_HEALTH, "leaderless_count", "{leaderless_count:,} partitions have no leader"),
        limit=1,
        k=1,
        n=1,
        meaning="partitions have no leader",
        advice="No in-sync replica is alive: bring a broker of theirs back before an unclean election.",
        doc="partitions without a leader",
        severity="critical",
    ),
    Rule(
        name="lagging_replicas",
        measure=measure_column(
            TOPIC_HEALTH, "lagging_replica_count", "{lagging_replica_count:,} replicas are out of the in-sync set"
        ),
        limit=1,
        meaning="replicas are out of the in-sync set",
        advice="Look at disk and network of the followers' brokers.",
        doc="followers out of the in-sync set: behind for longer than `replica.lag.time.max.ms`, or gone",
    ),
    Rule(
        name="replica_size_spread",
        measure=measure_column(
            TOPIC_HEALTH,
            "replica_size_spread",
            "the largest replica of a partition is {replica_size_spread:.2f} times the smallest",
        ),
        limit=2.0,
        meaning="replicas of one partition differ in size",
        advice="A replica that was cleaned late or copied twice: compare `kafka-log-dirs`.",
        doc="largest over smallest replica of one partition; not of compacted topics, which each broker cleans by itself",
        format=format_ratio,
        needs_all_records=True,
    ),
    Rule(
        name="segments_past_retention",
        measure=_segments_past_retention,
        limit=1,
        meaning="segments are kept past their retention",
        advice="Look at the broker's log cleaner and its log for failed deletions.",
        doc="closed segments older than `retention.ms`, the brokers' own delays allowed for",
    ),
)
