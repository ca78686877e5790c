"""From what tasks read to `silver.partition_traffic`, `bronze.log_segments`, `silver.arrivals`, and what is missing.

Last bits do not depend on the order of the rows, which differs with the number of cores, files and windows in a run:
whole numbers are summed exactly, and rounded once. So equal input gives equal tables on every engine.
"""

from collections.abc import Collection

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from pipeline.calibration.arrival_rows import CHUNK_SCHEMA, GROUP, ROW_SCHEMA, join_chunks
from pipeline.model.window import LATEST_MS, TimeWindow

GRAIN = ("window_start", "topic", "topic_id", "partition", "leader_id", "leader_epoch")
_SCALED = ("record_count", "control_record_count", "batch_count", "size_bytes")
_HELPERS = ("data_bytes", "squared")
_FACTS = (
    *("first_offset", "last_offset", "batch_count", "record_count", "control_batch_count", "missing_offset_count"),
    *("producer_id_count", "crc_error_count", "magic", "codecs", "min_timestamp_ms", "max_timestamp_ms"),
)
_INSTANTS = ("window_start", "minute_start")
ARRIVAL_SCHEMA = pa.schema(
    [
        *((name, pa.timestamp("us", tz="UTC")) for name in _INSTANTS),
        *(field for field in ROW_SCHEMA if not field.name.endswith("_start_ms")),
        ("count_kind", pa.string()),
        ("sampling_rate", pa.float64()),
    ]
)
"""Rows of `silver.arrivals` without cluster."""


def sum_traffic(
    batches: DataFrame, compacted_topics: Collection[str], batch_size_bytes: int, *, sampling_rate: float = 1.0
) -> DataFrame:
    """Sums rows of `BATCH_SCHEMA` by partition, leader, epoch and window to `silver.partition_traffic`, less cluster.

    In `compacted_topics` gaps in offsets are expected. `batch_size_bytes`: the producers' `batch.size`.
    `sampling_rate`: part of each window that was read; counts are divided by it.
    """
    is_data, records, size = ~F.col("is_control"), F.col("record_count"), F.col("size_bytes")
    covered = F.col("last_offset") - F.col("base_offset") + 1
    sums = batches.groupBy(*GRAIN).agg(
        _sum(F.when(is_data, records)).alias("record_count"),
        _sum(F.when(~is_data, records)).alias("control_record_count"),
        F.count_if(is_data).alias("batch_count"),
        F.sum(size).alias("size_bytes"),
        F.min("base_offset").alias("first_offset"),
        F.max("last_offset").alias("last_offset"),
        F.sum(covered).alias("covered_offset_count"),
        _sum(F.when(is_data, size)).alias("data_bytes"),
        _sum(F.col("missing_offset_count")).alias("missing_offset_count"),
        _sum(covered - records).alias("compacted_record_count"),
        F.count_if(~F.col("is_crc_ok")).alias("crc_error_count"),
        F.count_if(F.col("is_time_outlier")).alias("time_outlier_count"),
        square_sum(size).alias("squared"),
        F.max("lateness_ms").alias("max_lateness_ms"),
        F.size(F.collect_set("producer_id")).cast("bigint").alias("producer_count"),
    )
    rate = float(sampling_rate)
    return sums.withColumns(
        {
            "is_compacted": F.col("topic").isin(sorted(compacted_topics)) if compacted_topics else F.lit(0) == 1,
            "records_per_batch": quotient(F.col("record_count"), F.col("batch_count")),
            "fill_ratio": quotient(F.col("data_bytes"), F.col("batch_count") * batch_size_bytes),
            # Squares so that the units behind the load stay those that were read.
            "batch_bytes_squared": F.col("squared").cast("double") / F.lit(rate * rate),
            "count_kind": F.lit("exact" if sampling_rate == 1 else "sampled"),
            "sampling_rate": F.lit(rate),
            **{name: F.round(F.col(name) / F.lit(rate)).cast("bigint") for name in _SCALED if rate != 1},
        }
    ).drop(*_HELPERS)


def _sum(values: Column) -> Column:
    return F.coalesce(F.sum(values), F.lit(0))


def quotient(part: Column, whole: Column) -> Column:
    return F.when(whole != 0, part.cast("double") / whole.cast("double"))


def square_sum(values: Column) -> Column:
    """Exact sum of squares of whole numbers below 2^31, as a decimal: the halves of each square are summed apart."""
    squares = values * values
    upper = F.sum(F.shiftright(squares, 32)).cast("decimal(38,0)")
    lower = F.sum(squares.bitwiseAND(F.lit((1 << 32) - 1))).cast("decimal(38,0)")
    return upper * F.lit(1 << 32).cast("decimal(11,0)") + lower


def join_segments(listed: DataFrame, summaries: DataFrame) -> DataFrame:
    """Rows of `bronze.log_segments` without cluster; of a file collected in stretches the fullest summary counts."""
    is_segment = F.col("row_kind") == "segment"
    rank = F.when(is_segment, F.coalesce("batch_count", F.lit(0)))
    known = (
        summaries.where("row_kind IN ('segment', 'problem')")
        .groupBy(F.col("path").alias("found_at"))
        .agg(F.max_by(F.struct(*_FACTS), rank).alias("facts"), F.count_if(~is_segment).alias("problem_count"))
    )
    newest_ms = _known_ms(F.col("facts.max_timestamp_ms"))
    return (
        listed.join(known, "found_at", "left")
        .withColumns({name: F.col(f"facts.{name}") for name in _FACTS if not name.endswith("_ms")})
        .withColumns(
            {
                "is_scanned": F.col("facts").isNotNull(),
                "problem_count": F.coalesce("problem_count", F.lit(0)),
                "min_timestamp": F.timestamp_millis(_known_ms(F.col("facts.min_timestamp_ms"))),
                "max_timestamp": F.timestamp_millis(newest_ms),
                "deletable_at": F.timestamp_millis(_known_ms(newest_ms + F.col("kept_ms"))),
            }
        )
        .drop("found_at", "facts", "kept_ms")
    )


def _known_ms(instant_ms: Column) -> Column:
    """A timestamp that a client wrote; NULL outside the calendar."""
    return F.when(instant_ms.between(0, LATEST_MS), instant_ms)


def join_arrivals(chunks: pa.Table, *, is_named: bool, sampling_rate: float = 1.0) -> pa.Table:
    """Puts arrivals of a session, topic and minute in one order; `is_named`: keys have the numbers of their ids."""
    ordered = chunks.select(CHUNK_SCHEMA.names).sort_by([(name, "ascending") for name in (*GROUP, "first_ms")])
    joined = []
    for rows in join_chunks(ordered.to_batches(), is_named=is_named):
        columns = {name: rows[name] for name in rows.schema.names}
        for name in _INSTANTS:
            columns[name] = rows[f"{name}_ms"].cast(pa.timestamp("ms", tz="UTC"))
        columns["count_kind"] = pa.repeat("exact" if sampling_rate == 1 else "sampled", len(rows))
        columns["sampling_rate"] = pa.repeat(float(sampling_rate), len(rows))
        arrays = [columns[field.name].cast(field.type) for field in ARRIVAL_SCHEMA]
        joined.append(pa.RecordBatch.from_arrays(arrays, schema=ARRIVAL_SCHEMA))
    return pa.Table.from_batches(joined, ARRIVAL_SCHEMA)


_SUBJECT = ("window_start_ms", "topic", "topic_id", "partition")  # a recreated topic has another id
_MOST_DISPUTED = 1_000


def sum_windows(summaries: DataFrame, span: TimeWindow) -> DataFrame:
    """Batches, records, newest timestamp of a span's windows, and of all others (start NULL); problems as given."""
    start_ms = F.when(_is_within(span), F.col("window_start_ms"))
    sums = (
        summaries.where("row_kind = 'window'")
        .groupBy(start_ms.alias("window_start_ms"))
        .agg(
            *(F.sum(name).alias(name) for name in ("batch_count", "record_count")),
            F.max("max_timestamp_ms").alias("max_timestamp_ms"),
        )
        .withColumn("row_kind", F.lit("window"))
    )
    return summaries.where("row_kind IN ('problem', 'shortfall')").unionByName(sums, allowMissingColumns=True)


def find_disputed(summaries: DataFrame, span: TimeWindow, compared: Collection[str] = ()) -> DataFrame:
    """Rows of partitions and windows of which parts hold other batches than their collector counted; a thousand at most.

    Without a window those of partitions whose batches share offsets. `summaries`: rows of `SUMMARY_SCHEMA`; of kind `window`
    as counted, others as parts hold them; `compared`: kinds of those about keys and arrivals.
    """
    kinds = ("window", "held", *compared)
    of = {kind: F.col("row_kind") == kind for kind in kinds}
    sums = (
        summaries.where(F.col("row_kind").isin(*kinds) & _is_within(span))
        .groupBy(*_SUBJECT)
        .agg(
            *(F.sum(F.when(of[kind], F.col("batch_count")).otherwise(0)).alias(f"{kind}_count") for kind in kinds[:2]),
            *(F.max(F.when(of[kind], F.col("last_offset")).otherwise(-1)).alias(f"{kind}_last") for kind in kinds[:2]),
            *(F.sum(F.when(of[kind], F.col("record_count")).otherwise(0)).alias(f"{kind}_records") for kind in kinds),
        )
    )
    unlike = [f"{kind}_records != held_records" for kind in kinds if kind != "held"]
    disputed = sums.where(" OR ".join(["window_count != held_count", "window_last != held_last", *unlike]))
    disputed = disputed.unionByName(_find_shared(summaries), allowMissingColumns=True)
    return disputed.orderBy(*_SUBJECT).limit(_MOST_DISPUTED)  # the driver holds them


def _find_shared(summaries: DataFrame) -> DataFrame:
    """Partitions of which two batches share an offset, of one part or of two."""
    spans = summaries.where("row_kind = 'span'").select(*_SUBJECT, "first_offset", "last_offset", "batch_count")
    before = (
        Window.partitionBy(*_SUBJECT[1:])
        .orderBy("first_offset", "last_offset")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    told = spans.withColumn("reached", F.max("last_offset").over(before))
    return told.where("batch_count > 0 OR reached >= first_offset").select(*_SUBJECT).distinct()


def find_covered_less(summaries: DataFrame, traffic: DataFrame, windows: Collection[TimeWindow]) -> DataFrame:
    """Starts of the windows of which a partition was read less than is stored: offsets, or records among them."""
    starts_ms = [window.start_ms for window in windows]
    records = F.col("record_count")
    read_of = F.bround(records * F.col("sampling_rate")).cast("bigint")
    stored = _cover(
        traffic.withColumns(
            {
                "window_start_ms": F.unix_millis("window_start"),
                "record_count": F.when(F.col("count_kind") == "sampled", read_of).otherwise(records),
            }
        ).where(F.col("window_start_ms").isin(starts_ms))
    )
    read = _cover(summaries.where("row_kind = 'window'")).toDF(*_SUBJECT, "first", "last", "records")
    has_offsets = (F.col("first") <= F.col("first_offset")) & (F.col("last") >= F.col("last_offset"))
    is_covered = has_offsets & (F.col("records") >= F.col("record_count"))
    both = stored.join(read, list(_SUBJECT), "left")
    return both.where(~F.coalesce(is_covered, F.lit(0) == 1)).select("window_start_ms").distinct()


def find_known_less(batches: DataFrame, traffic: DataFrame, windows: Collection[TimeWindow]) -> DataFrame:
    """Starts of the windows with batches of which nobody knows who led, of partitions whose stored leaders are all known."""
    place, starts_ms = ["window_start", *_SUBJECT[1:]], [window.start_ms for window in windows]
    led = traffic.groupBy(*place).agg(F.min("leader_id").alias("least")).where("least >= 0")
    lost = batches.where("leader_id < 0").join(led, place, "left_semi")
    at = F.unix_millis("window_start").alias("window_start_ms")
    return lost.select(at).where(F.col("window_start_ms").isin(starts_ms)).distinct()


def _cover(rows: DataFrame) -> DataFrame:
    return rows.groupBy(*_SUBJECT).agg(
        F.min("first_offset").alias("first_offset"),
        F.max("last_offset").alias("last_offset"),
        F.sum("record_count").alias("record_count"),
    )


def _is_within(span: TimeWindow) -> Column:
    return (F.col("window_start_ms") >= span.start_ms) & (F.col("window_start_ms") < span.end_ms)
