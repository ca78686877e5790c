"""Counters to increases: restarts, gaps and first samples.

An increase belongs to the window of the later sample. A counter that fell, or a process that started since the sample
before, is a restart: it counted from zero since its start. A counter that appears while its instance was being scraped
already (the first connection to a broker, the first record of a topic) counted from zero since the scrape before; where
none of its kind was exposed by then, the exporter's rules changed, and what it had counted is unknown. An interval of
more than three times the configured one is a gap: only the share of it that lies in the later sample's window counts there, as a windows' whole length before may have
been counted from samples that are gone by now.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from pipeline.model.window import TimeWindow

GAP_INTERVALS = 3
START_TOLERANCE_MS = 1000  # starts that are given to the second, or computed from an age, move by less


def with_increases(
    samples: pl.DataFrame,
    counters: Sequence[str],
    subject: Sequence[str],
    window_ms: int,
    interval_ms: Mapping[str, int],
) -> pl.DataFrame:
    """Adds `<counter>_increase` for each counter, what interval it covers, and restarts and gaps.

    Args:
        samples: One row per subject and `observed_at_ms`, with `source`, the counters, and two instants that may be NULL:
            `started_at_ms` of the process, `scraped_before_ms` of the instance's scrape before this one.
        counters: Columns that only rise while a process lives.
        subject: Columns that name what counts.
        window_ms: Length of a window.
        interval_ms: Configured distance of two samples, by `source`; others have no gaps.

    Returns:
        The rows, by subject and instant, with `window_start_ms`; `<counter>_increase`, NULL where nothing is known of the
        time before; `covered_ms`, the time that increases stand for; `reset_count` and `gap_count`, 0 or 1.
    """

    def before(column: str) -> pl.Expr:
        return pl.col(column).shift(1).over(subject)

    at, started = pl.col("observed_at_ms"), pl.col("started_at_ms")
    limits = {source: GAP_INTERVALS * distance_ms for source, distance_ms in interval_ms.items()}
    limit_ms = pl.col("source").replace_strict(limits, default=None, return_dtype=pl.Int64) if limits else None
    fell = pl.any_horizontal(pl.col(counter) < before(counter) for counter in counters).fill_null(value=False)
    restarted = (started > before("started_at_ms") + START_TOLERANCE_MS).fill_null(value=False)
    told_ms = pl.when(started <= at).then(started)
    earlier_ms, is_reset, from_ms = pl.col("earlier_ms"), pl.col("is_reset"), pl.col("from_ms")
    span_ms = at - from_ms
    into_window_ms = at - pl.col("window_start_ms")
    is_gap = pl.col("is_gap")
    share = pl.when(is_gap & (span_ms > 0)).then(pl.col("covered_ms") / span_ms).otherwise(1.0)
    counts_from_zero = is_reset | (earlier_ms.is_null() & from_ms.is_not_null())
    return (
        samples.sort(*subject, "observed_at_ms")
        .with_columns(before("observed_at_ms").alias("earlier_ms"), (at - at % window_ms).alias("window_start_ms"))
        .with_columns((earlier_ms.is_not_null() & (fell | restarted)).alias("is_reset"))
        .with_columns(
            pl.when(is_reset)
            .then(pl.max_horizontal(earlier_ms, told_ms))  # NULLs are passed over
            .when(earlier_ms.is_null())
            .then(pl.max_horizontal(told_ms, "scraped_before_ms"))
            .otherwise(earlier_ms)
            .alias("from_ms")
        )
        .with_columns(
            (pl.lit(value=False) if limit_ms is None else span_ms > limit_ms).fill_null(value=False).alias("is_gap")
        )
        .with_columns(
            pl.when(is_gap).then(pl.min_horizontal(span_ms, into_window_ms)).otherwise(span_ms).alias("covered_ms")
        )
        .with_columns(
            is_reset.cast(pl.Int64).alias("reset_count"),
            (is_gap & earlier_ms.is_not_null()).cast(pl.Int64).alias("gap_count"),
            *(
                (
                    pl.when(counts_from_zero).then(pl.col(counter)).otherwise(pl.col(counter) - before(counter)) * share
                ).alias(f"{counter}_increase")
                for counter in counters
            ),
        )
        .drop("earlier_ms", "is_reset", "from_ms", "is_gap")
    )


def with_scrape_before(samples: pl.DataFrame, instance: Sequence[str], all_samples: pl.DataFrame) -> pl.DataFrame:
    """Adds `scraped_before_ms`: when the instance was scraped last before this row, be it for other subjects.

    `instance` are the columns that name what is scraped as a whole, `all_samples` those of every subject.
    """
    scrapes = all_samples.select(*instance, "observed_at_ms").unique().sort(*instance, "observed_at_ms")
    before = pl.col("observed_at_ms").shift(1).over(instance).alias("scraped_before_ms")
    return samples.join(scrapes.with_columns(before), on=[*instance, "observed_at_ms"], how="left")


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleSettings:
    """Which windows samples are summarised for."""

    span: TimeWindow  # windows wanted; samples before serve only as predecessors
    window_ms: int  # length of a window
    interval_ms: Mapping[str, int]  # distance of two samples, by source; sources without one have no gaps
    has_brokers: bool = False  # brokers' metrics are summarised too

    @property
    def is_wanted(self) -> pl.Expr:
        """Whether a sample lies in the windows."""
        return pl.col("observed_at_ms").is_between(self.span.start_ms, self.span.end_ms, closed="left")
