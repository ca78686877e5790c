"""Counters to increases: restarts, gaps and first samples.

An increase belongs to the window of the later sample. A counter that fell, or a process that started since the sample
before, is a restart: it counted from zero since its start. A counter that appears while its instance was being scraped
already (the first connection to a broker, the first record of a topic) counted from zero since the scrape before; where
none of its kind was exposed by then, the exporter's rules changed, and nobody knows what it had counted. An interval of more than three times the configured one is a
gap: only the share of it that lies in the later sample's window counts there, as a windows' whole length before may have
been counted from samples that are gone by now.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, DataFrame
    from pyspark.sql.window import WindowSpec

GAP_INTERVALS = 3
START_TOLERANCE_MS = 1000
"""Starts that are told to the second, or computed from an age, move by less."""


def with_increases(
    samples: DataFrame,
    counters: Sequence[str],
    subject: Sequence[str],
    window_ms: int,
    interval_ms: Mapping[str, int],
) -> DataFrame:
    """Adds `<counter>_increase` for each counter, what interval it covers, and restarts and gaps.

    Args:
        samples: One row per subject and `observed_at_ms`, with `source`, the counters, and two instants that may be NULL
            (bigint): `started_at_ms` of the process, `scraped_before_ms` of the instance's scrape before this one.
        counters: Columns that only rise while a process lives.
        subject: Columns that name what counts.
        window_ms: Length of a window.
        interval_ms: Configured distance of two samples, by `source`; others have no gaps.

    Returns:
        The rows with `window_start_ms`; `<counter>_increase`, NULL where nothing is known of the time before;
        `covered_ms`, the time that increases stand for; `reset_count` and `gap_count`, 0 or 1.
    """
    before = Window.partitionBy(*subject).orderBy("observed_at_ms")
    at, earlier_ms = F.col("observed_at_ms"), F.lag("observed_at_ms").over(before)
    fell = F.coalesce(F.greatest(*(_fell(counter, before).cast("int") for counter in counters)), F.lit(0)) == 1
    restarted = F.coalesce(
        F.col("started_at_ms") > F.lag("started_at_ms").over(before) + START_TOLERANCE_MS, F.lit(col=False)
    )
    is_reset = earlier_ms.isNotNull() & (fell | restarted)
    is_new = earlier_ms.isNull()
    started_ms = F.when(F.col("started_at_ms") <= at, F.col("started_at_ms"))
    from_ms = (
        F.when(is_reset, F.greatest(earlier_ms, started_ms))  # NULLs are passed over
        .when(is_new, F.greatest(started_ms, F.col("scraped_before_ms")))
        .otherwise(earlier_ms)
    )
    window_start_ms = at - at % window_ms
    span_ms = at - from_ms
    limit_ms = _limit(interval_ms)
    is_gap = F.coalesce(span_ms > limit_ms, F.lit(col=False))
    covered_ms = F.when(is_gap, F.least(span_ms, at - window_start_ms)).otherwise(span_ms)
    share = F.when(is_gap & (span_ms > 0), covered_ms / span_ms).otherwise(F.lit(1.0))
    counts_from_zero = is_reset | (is_new & from_ms.isNotNull())
    increases = {
        f"{counter}_increase": F.when(counts_from_zero, F.col(counter)).otherwise(
            F.col(counter) - F.lag(counter).over(before)
        )
        * share
        for counter in counters
    }
    return samples.select(
        "*",
        window_start_ms.alias("window_start_ms"),
        covered_ms.alias("covered_ms"),
        is_reset.cast("bigint").alias("reset_count"),
        (is_gap & earlier_ms.isNotNull()).cast("bigint").alias("gap_count"),
        *(column.alias(name) for name, column in increases.items()),
    )


def with_scrape_before(samples: DataFrame, instance: Sequence[str], all_samples: DataFrame) -> DataFrame:
    """Adds `scraped_before_ms`: when the instance was scraped last before this row, be it for other subjects.

    Args:
        samples: With the instance's columns and `observed_at_ms`.
        instance: Columns that name what is scraped as a whole.
        all_samples: Samples of the same metrics, of every subject of every instance.
    """
    scrapes = all_samples.select(*instance, "observed_at_ms").distinct()
    before = F.lag("observed_at_ms").over(Window.partitionBy(*instance).orderBy("observed_at_ms"))
    return samples.join(scrapes.withColumn("scraped_before_ms", before), [*instance, "observed_at_ms"], "left")


def _fell(counter: str, before: WindowSpec) -> Column:
    return F.col(counter) < F.lag(counter).over(before)


def _limit(interval_ms: Mapping[str, int]) -> Column:
    """The longest interval that is none too long, by source; NULL where there is none."""
    limit = F.lit(None).cast("bigint")
    for source, distance_ms in interval_ms.items():
        limit = F.when(F.col("source") == source, F.lit(GAP_INTERVALS * distance_ms).cast("bigint")).otherwise(limit)
    return limit
