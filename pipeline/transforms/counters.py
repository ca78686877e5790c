"""Counters to increases: restarts, gaps and first samples.

An increase belongs to the window of the later sample. A counter that fell, or a process that started since the sample
before, is a restart: it counted from zero since its start. A counter that appears while its instance was being scraped
already (a first connection, a first record) counted from zero since the scrape before; where none of its kind was
exposed by then, the exporter's rules changed, and what it had counted is unknown. An interval of more than three times
the configured one is a gap: only the share of it that lies in the later sample's window counts there.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from pipeline.model.window import TimeWindow

GAP_INTERVALS = 3
_LEAST_LEFT, _LEAST_LEFT_OF_UNKNOWN = 0.5, 0.99
"""Part of a counter that is left where a store of metrics switches to another replica, a scrape behind: the process goes on;
where it does not tell its start, so much that no new one has counted it at once."""
START_TOLERANCE_MS = 1000  # starts that are given to the second, or computed from an age, move by less


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleSettings:
    span: TimeWindow  # windows wanted; samples before serve only as predecessors
    window_ms: int
    interval_ms: Mapping[str, int]  # time between two samples, by source; sources without one have no gaps
    has_brokers: bool = False  # brokers' metrics are summarised too

    @property
    def is_wanted(self) -> pl.Expr:
        return pl.col("observed_at_ms").is_between(self.span.start_ms, self.span.end_ms, closed="left")


def with_increases(
    samples: pl.DataFrame, counters: Sequence[str], subject: Sequence[str], settings: SampleSettings
) -> pl.DataFrame:
    """Adds `<counter>_increase` (NULL where nothing is known before), `covered_ms`, `reset_count`, `gap_count`.

    `samples`: a row per `subject` and `observed_at_ms`, with `source`, counters, and two instants that may be NULL:
    `started_at_ms` of the process, `scraped_before_ms`. Gives the rows wanted in that order, with `window_start_ms`.
    """
    at, span_ms = pl.col("observed_at_ms"), pl.col("observed_at_ms") - pl.col("from_ms")
    is_gap, is_reset = pl.col("is_gap"), pl.col("is_reset")
    share = pl.when(is_gap).then(pl.col("covered_ms") / span_ms).otherwise(1.0)
    counts_from_zero = is_reset | (pl.col("earlier_ms").is_null() & pl.col("from_ms").is_not_null())
    into_window_ms = at - pl.col("window_start_ms")
    rises = {
        counter: pl.when(counts_from_zero)
        .then(pl.col(counter))
        .otherwise((pl.col(counter) - _before(counter, subject)).clip(0))
        for counter in counters
    }
    return (
        _with_starts(samples, counters, subject, settings.window_ms)
        .with_columns(is_gap=(span_ms > _gap_limit_ms(settings.interval_ms)).fill_null(value=False))
        .with_columns(covered_ms=pl.when(is_gap).then(pl.min_horizontal(span_ms, into_window_ms)).otherwise(span_ms))
        .with_columns(
            reset_count=is_reset.cast(pl.Int64),
            gap_count=(is_gap & pl.col("earlier_ms").is_not_null()).cast(pl.Int64),
            **{f"{counter}_increase": rise * share for counter, rise in rises.items()},
        )
        .drop("earlier_ms", "is_reset", "from_ms", "is_gap")
        .filter(settings.is_wanted)
    )


def _with_starts(
    samples: pl.DataFrame, counters: Sequence[str], subject: Sequence[str], window_ms: int
) -> pl.DataFrame:
    """Sorts the samples; adds the window, the sample before, restarts, and since when each sample has counted."""
    at, started, earlier_ms = pl.col("observed_at_ms"), pl.col("started_at_ms"), pl.col("earlier_ms")
    restarted = started > _before("started_at_ms", subject) + START_TOLERANCE_MS
    left = pl.when(restarted.not_()).then(_LEAST_LEFT).otherwise(_LEAST_LEFT_OF_UNKNOWN)
    fell = pl.any_horizontal(pl.col(counter) < left * _before(counter, subject) for counter in counters)
    has_reset = fell.fill_null(value=False) | restarted.fill_null(value=False)
    start_ms = pl.when(started <= at).then(started)
    return (
        samples.sort(*subject, "observed_at_ms")
        .with_columns(earlier_ms=_before("observed_at_ms", subject), window_start_ms=at - at % window_ms)
        .with_columns(is_reset=earlier_ms.is_not_null() & has_reset)
        .with_columns(
            from_ms=pl.when(pl.col("is_reset"))
            .then(pl.max_horizontal(earlier_ms, start_ms))  # NULLs are passed over
            .when(earlier_ms.is_null())
            .then(pl.max_horizontal(start_ms, "scraped_before_ms"))
            .otherwise(earlier_ms)
        )
    )


def _before(column: str, subject: Sequence[str]) -> pl.Expr:
    return pl.col(column).shift(1).over(subject)


def _gap_limit_ms(interval_ms: Mapping[str, int]) -> pl.Expr:
    limits = {source: GAP_INTERVALS * distance_ms for source, distance_ms in interval_ms.items()}
    if not limits:
        return pl.lit(None, pl.Int64)
    return pl.col("source").replace_strict(limits, default=None, return_dtype=pl.Int64)


def with_scrape_before(samples: pl.DataFrame, instance: Sequence[str], all_samples: pl.DataFrame) -> pl.DataFrame:
    """Adds `scraped_before_ms`: when the `instance` was scraped last before this row, be it for other subjects."""
    scrapes = all_samples.select(*instance, "observed_at_ms").unique().sort(*instance, "observed_at_ms")
    before = pl.col("observed_at_ms").shift(1).over(instance).alias("scraped_before_ms")
    return samples.join(scrapes.with_columns(before), on=[*instance, "observed_at_ms"], how="left")
