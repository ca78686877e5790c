"""What brokers appended between two moments at which their logs were seen, beside what record timestamps say."""

from collections.abc import Collection

import polars as pl

_PARTITION = ("topic", "topic_id", "partition")
_LOG = (*_PARTITION, "leader_id")
_BROKER = ("since_ms", "at_ms", "leader_id")
_SUMMED = ("timely_bytes", "late_bytes", "appended_count", "unread_count")
_NAMED = 3
_LITTLE = 0.05  # of the bytes of a broker's other topics


def sum_appended(
    logs: pl.DataFrame,
    traffic: pl.DataFrame,
    starts_ms: Collection[int],
    window_ms: int,
    *,
    own_topics: Collection[str] = (),
) -> pl.DataFrame:
    """Bytes and records that each broker appended between the last moments of two windows, as `Appended` has them.

    A window that reaches beyond the moments counts by its part. A log that was cut, or that another broker may have led
    meanwhile, has no late bytes; one of a new partition began empty. `logs`: of leaders, seen at `at_ms`, of partitions
    known since `first_ms`. `traffic`: `silver.partition_traffic` with `start_ms`, `offset_count` (offsets that batches
    cover or that are lost between) and `gone_count` (those whose records are gone). `own_topics`: of Kafka itself.
    """
    at = pl.col("at_ms")
    moments = logs.group_by((at // window_ms).alias("window")).agg(at.max()).sort("at_ms")
    moments = moments.select("at_ms", since_ms=at.shift()).filter(at - pl.col("since_ms") >= window_ms // 2)
    moments = moments.filter((at - at % window_ms).is_in(starts_ms))
    end_ms = pl.col("start_ms") + window_ms
    between = moments.join_where(traffic, pl.col("start_ms") < at, end_ms > pl.col("since_ms")).with_columns(
        part_ms=pl.min_horizontal(at, end_ms) - pl.max_horizontal("since_ms", "start_ms")
    )
    part = pl.col("part_ms") / window_ms
    timely = between.group_by("since_ms", "at_ms", *_LOG).agg(
        (pl.col("size_bytes") * part).sum().alias("timely_bytes"),
        (pl.col("offset_count") * part).sum().alias("timely_offsets"),
        (pl.col("gone_count") * part).sum().alias("gone"),
    )
    known = _compare_logs(logs, moments)
    by_size = pl.col("grown_bytes") - pl.col("timely_bytes").fill_null(0)
    # by their number: records may be of another size than those before, and a log's mean follows after days
    beyond = pl.col("appended_count") - pl.col("timely_offsets").fill_null(0)
    by_offsets = beyond * pl.col("offset_bytes")
    late = pl.when("is_whole").then(by_size).otherwise(pl.max_horizontal(by_size, by_offsets))
    late = late.fill_null(0).alias("late_bytes")
    # compaction moves no log's start: which of its records are late and which are gone, nobody knows; chance is left out
    untimely = beyond - 3 * pl.col("appended_count").sqrt()
    unknown = pl.max_horizontal("unread_count", pl.when("is_compacted").then(untimely).otherwise(0))
    unknown = pl.min_horizontal("appended_count", unknown + pl.col("gone").fill_null(0))
    unknown = pl.when(pl.col("appended_count") > 0).then(unknown).otherwise(0.0).alias("unread_count")
    joined = timely.join(known, on=["since_ms", "at_ms", *_LOG], how="full", coalesce=True).with_columns(late, unknown)
    joined = joined.with_columns(unread_count=pl.when(_is_little(own_topics)).then(0.0).otherwise("unread_count"))
    name = pl.concat_str("topic", "partition", separator="-")
    most = name.filter(pl.col("late_bytes") > 0).head(_NAMED).alias("partitions")
    by_unread = name.sort_by("unread_count", descending=True)
    unread = by_unread.head((pl.col("unread_count") > 0).sum().clip(upper_bound=_NAMED)).alias("unread")
    return (
        joined.sort("late_bytes", *_PARTITION, descending=True)
        .group_by(_BROKER, maintain_order=True)
        .agg(pl.col(_SUMMED).sum(), most, unread)
        .sort("at_ms", "leader_id")
    )


def _is_little(own_topics: Collection[str]) -> pl.Expr:
    """Logs of Kafka's own topics, compacted all the time, where these are little of what a broker appended to its others.

    Their records that are gone are taken to be as large as those that were read.
    """
    is_own = pl.col("topic").is_in(list(own_topics))
    own, others = (
        {name: pl.col(name).filter(which).sum().over(_BROKER) for name in _SUMMED} for which in (is_own, ~is_own)
    )
    own_bytes, other_bytes = (each["timely_bytes"] + each["late_bytes"].clip(0) for each in (own, others))
    read_count = own["appended_count"] - own["unread_count"]
    all_own_bytes = own_bytes * own["appended_count"]  # times `read_count`
    return is_own & (all_own_bytes > 0) & (all_own_bytes <= _LITTLE * read_count * other_bytes)


def _compare_logs(logs: pl.DataFrame, moments: pl.DataFrame) -> pl.DataFrame:
    seen = logs.unique(["at_ms", *_PARTITION])
    now = seen.join(moments, on="at_ms")
    names = {"at_ms": "since_ms", "leader_epoch": "epoch_before", "log_start_offset": "first_before"}
    names |= {"log_end_offset": "end_before", "size_bytes": "size_before"}
    before = seen.select(*_LOG, *names).rename(names)
    is_led = (pl.col("leader_epoch") - pl.col("epoch_before")).is_between(0, 1)  # between them nobody else was leader
    both = now.join(before, on=["since_ms", *_LOG]).filter(is_led)
    new = now.filter(pl.col("first_ms") > pl.col("since_ms"))  # leaders that did not answer then make no partition new
    end, size, first = pl.col("log_end_offset"), pl.col("size_bytes"), pl.col("log_start_offset")
    unread = pl.max_horizontal(0, first - pl.col("end_before").fill_null(0)).cast(pl.Float64).alias("unread_count")
    known = pl.col("first_before", "end_before", "size_before").fill_null(0)
    both = pl.concat([both, new], how="diagonal").with_columns(unread, known)
    grown = size - pl.col("size_before")
    # nothing was deleted: what a cleaner takes of one log must not pay for late bytes of another
    is_whole = (first == pl.col("first_before")) & (grown >= 0) & ~pl.col("is_compacted")
    return both.filter(end >= pl.col("end_before")).select(
        *("since_ms", "at_ms", *_LOG, "unread_count", "is_compacted"),
        is_whole.alias("is_whole"),
        grown.alias("grown_bytes"),
        (end - pl.col("end_before")).alias("appended_count"),
        (size / pl.max_horizontal(end - first, 1)).alias("offset_bytes"),
    )
