"""Forecasts of a week from what the same hour brought earlier, with ranges that a back-test gives.

Seasonal-naive (Hyndman and Athanasopoulos, Forecasting, 3rd edition, 5.2): the median over earlier seasons, whichever
season, day or week, would have erred less so far ahead. No library's model erred less on recorded hours
(docs/evidence/forecasts.md).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

HISTORY_DAYS = 28  # no table's retention is shorter
DAYS_AHEAD = 7
SEASONS = (("week", 7, 4), ("day", 1, 28))  # name, days, and over how many of them the median is taken, at most
RANGE = (0.05, 0.95)  # nine of ten values are to be inside
LEAST_COVERAGE, MOST_ERROR_RATIO, LEAST_TESTED_DAYS = 0.80, 0.80, 7
MOST_NEWEST_ERROR_RATIO = 2.0  # more is a change that earlier seasons do not know, such as leaders that were moved

Hours = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DayAhead:
    """Forecast of a day (NaN with too little history), and how such forecasts did; arrays end in (series,)."""

    day: int  # 1 for the first day
    value: Hours  # by step of the day
    low: Hours
    high: Hours
    season: NDArray[np.int64]  # place in `SEASONS`
    coverage_ratio: Hours  # part of a half of the history inside the range that the other half gives, both ways
    error_ratio: Hours  # root mean squared error over that of a level: the mean of a week, or no growth
    tested_days: Hours
    newest_error_ratio: Hours  # root mean squared error of the newest day that was tested, over that of those before

    @property
    def is_trusted(self) -> NDArray[np.bool_]:
        return (
            (self.coverage_ratio >= LEAST_COVERAGE)
            & (self.error_ratio <= MOST_ERROR_RATIO)
            & (self.tested_days >= LEAST_TESTED_DAYS)
            & (self.newest_error_ratio <= MOST_NEWEST_ERROR_RATIO)
        )


def forecast_days(history: Hours, day_steps: int, *, grows: bool = False) -> tuple[DayAhead, ...]:
    """Forecasts seven days from `history` by step and series (NaN: unknown); `grows`: how much a value grows."""
    series = history[-HISTORY_DAYS * day_steps :]
    known = len(series) - np.argmax(~np.isnan(series), axis=0) * 1.0
    known[np.isnan(series).all(axis=0)] = 0
    days = range(1, DAYS_AHEAD + 1)
    return tuple(_forecast_day(series, known / day_steps, day, day_steps, grows=grows) for day in days)


def _forecast_day(series: Hours, known_days: Hours, day: int, day_steps: int, *, grows: bool) -> DayAhead:
    steps, count = series.shape
    until = steps + day * day_steps
    predicted = np.stack([_predict(series, until, day, name, day_steps, grows=grows) for name in range(len(SEASONS))])
    residuals = series - predicted[:, :steps]
    errors = np.sqrt(_mean(residuals**2, axis=1))
    best = np.argmin(np.nan_to_num(errors, nan=np.inf), axis=0)
    chosen = np.arange(count)
    predicted, residuals = predicted[best, :, chosen].T, residuals[best, :, chosen].T
    predicted[:, known_days < (2 if day == 1 else 14)] = np.nan
    level = _lag(series, until, day * day_steps) if grows else _level(series, until, day * day_steps, 7 * day_steps)
    is_tested = ~np.isnan(residuals)
    compared = np.where(is_tested, series - level[:steps], np.nan)
    low, high = _quantiles(residuals)
    value = predicted[until - day_steps :]
    level_error = np.sqrt(_mean(compared**2, axis=0))
    without_error = np.where(np.isnan(level_error), np.nan, 1.0)  # untested, or a level without errors
    is_newest = is_tested & (np.cumsum(is_tested[::-1], axis=0)[::-1] <= day_steps)
    newest_error, earlier_error = (
        np.sqrt(_mean(np.where(chosen_steps, residuals**2, np.nan), axis=0))
        for chosen_steps in (is_newest, is_tested & ~is_newest)
    )
    without_earlier = np.where(newest_error == 0, 1.0, np.inf)
    return DayAhead(
        day=day,
        value=value,
        low=value + low,
        high=value + high,
        season=best,
        coverage_ratio=_cover(residuals),
        error_ratio=np.divide(errors[best, chosen], level_error, out=without_error, where=level_error > 0),
        tested_days=is_tested.sum(axis=0) / day_steps,
        newest_error_ratio=np.divide(newest_error, earlier_error, out=without_earlier, where=earlier_error > 0),
    )


def _predict(series: Hours, until: int, day: int, season: int, day_steps: int, *, grows: bool) -> Hours:
    """Predicts every step from what was known a day, or so many days, before it; shape (until, series)."""
    _, days, seasons = SEASONS[season]
    lead = -(-day // days) * days * day_steps
    change = series - _lag(series, len(series), lead) if grows else series
    earlier = np.stack([_lag(change, until, lead + number * days * day_steps) for number in range(seasons)])
    known = np.sum(~np.isnan(earlier), axis=0)
    earlier.sort(axis=0)  # NaN last
    middles = [np.take_along_axis(earlier, place[None], 0)[0] for place in (np.maximum(known - 1, 0) // 2, known // 2)]
    median: Hours = np.where(known > 0, (middles[0] + middles[1]) / 2, np.nan)
    return median + _lag(series, until, lead) if grows else median


def _lag(series: Hours, until: int, steps: int) -> Hours:
    earlier = np.full((until, series.shape[1]), np.nan)
    filled = min(until - steps, len(series))
    if filled > 0:
        earlier[steps : steps + filled] = series[:filled]
    return earlier


def _level(series: Hours, until: int, lead: int, span: int) -> Hours:
    ends = np.arange(1, len(series) + 1)
    starts = np.maximum(ends - span, 0)
    sums, counts = (
        np.concatenate([np.zeros((1, series.shape[1])), np.cumsum(values, axis=0)])
        for values in (np.nan_to_num(series), ~np.isnan(series))
    )
    sums, counts = sums[ends] - sums[starts], counts[ends] - counts[starts]
    means = np.divide(sums, counts, out=np.full_like(sums, np.nan), where=counts > 0)
    return _lag(means, until, lead)


def _mean(values: Hours, axis: int) -> Hours:
    known = np.sum(~np.isnan(values), axis=axis)
    means: Hours = np.divide(np.nansum(values, axis=axis), known, out=np.full(known.shape, np.nan), where=known > 0)
    return means


def _quantiles(residuals: Hours) -> tuple[Hours, Hours]:
    known = np.sum(~np.isnan(residuals), axis=0)
    most = np.maximum(known - 1, 0)
    ordered = np.sort(residuals, axis=0)  # NaN last
    places = np.floor(RANGE[0] * most).astype(np.int64), np.ceil(RANGE[1] * most).astype(np.int64)
    low, high = (np.take_along_axis(ordered, place[None], 0)[0] for place in places)
    return low, high


def _cover(residuals: Hours) -> Hours:
    is_known = ~np.isnan(residuals)
    is_first = np.cumsum(is_known, axis=0) * 2 <= is_known.sum(axis=0)
    halves = [np.where(is_first, residuals, np.nan), np.where(is_first, np.nan, residuals)]
    covered = np.full(residuals.shape, np.nan)
    for half, other in (halves, halves[::-1]):
        low, high = _quantiles(other)
        covered = np.where(np.isnan(half), covered, (half >= low) & (half <= high))
    return _mean(covered, axis=0)
