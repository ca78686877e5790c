"""Forecasts shares, volumes and disks of the next seven days from the last 28: `gold.forecast`, once an hour at most."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl

from pipeline.measures import forecast
from pipeline.model.window import DAY_MS, HOUR_MS, TimeWindow, Windows, instant_of
from pipeline.rules.brokers import DISK_COLUMNS, disk_fillings
from pipeline.runs import JobReport, Row, RunContext
from pipeline.tables import Table
from pipeline.tables.bronze import BROKERS
from pipeline.tables.gold import BROKER_SHARE
from pipeline.tables.health import FORECAST, TOPIC_HEALTH
from pipeline.tables.values import tuples_of

_Scale = Callable[[forecast.Hours], forecast.Hours]
TOPICS = 50  # those with most bytes: the cost does not grow with the number of topics
DISKS = 100  # of a broker, as many as are read at one time; those longest known, as it may name others in each window
_STEP = "CAST(floor(date_part('epoch', window_start) * 1000 / {step_ms}) AS BIGINT)"
_BROKERS = f"""
    SELECT {_STEP} AS step, broker_id AS subject, avg(size_bytes) AS value, avg(expected_share) AS expected_share
    FROM rows GROUP BY 1, 2"""  # noqa: S608 - a number is filled in
_TOPICS = f"""
    SELECT {_STEP} AS step, topic AS subject, sum(size_bytes) / CAST(count(DISTINCT window_start) AS DOUBLE) AS value
    FROM rows WHERE topic IN (SELECT topic FROM rows GROUP BY topic ORDER BY sum(size_bytes) DESC, topic LIMIT {TOPICS})
    GROUP BY 1, 2"""  # noqa: S608
_DISKS = f"""
    SELECT {_STEP} AS step, broker_id, log_dir_bytes, log_dir_total_bytes, log_dir_usable_bytes
    FROM rows WHERE window_start IN (SELECT max(window_start) FROM rows GROUP BY {_STEP})"""  # noqa: S608


def run(run: RunContext, windows: Windows) -> JobReport:
    """Replaces the forecasts made at windows' ends (of short ones at each hour's); windows that do not divide a day have none."""
    step_ms = max(HOUR_MS, run.window_ms)
    ends_ms = sorted(window.end_ms for window in windows if window.end_ms % step_ms == 0)
    if not ends_ms or DAY_MS % step_ms:
        return JobReport()
    span = TimeWindow(ends_ms[0] - forecast.HISTORY_DAYS * DAY_MS, ends_ms[-1])
    first, count = span.start_ms // step_ms, span.duration_ms // step_ms
    lacking = sorted(run.skipped_windows((span,)))  # of which records are missing: no share nor volume is known
    edges = zip([span.start_ms, *(at_ms + run.window_ms for at_ms in lacking)], [*lacking, span.end_ms], strict=True)
    whole = [TimeWindow(start_ms, end_ms) for start_ms, end_ms in edges if start_ms < end_ms]

    def query(sql: str, table: Table, spans: Windows = whole) -> pl.DataFrame:
        return pl.DataFrame(run.query(sql.format(step_ms=step_ms), spans, rows=table))

    def history(measure: str, what: str, frame: pl.DataFrame, kind: str = "") -> _History:
        subjects = frame["subject"].unique().sort()
        values = np.full((count, len(subjects)), np.nan)
        values[frame["step"].to_numpy() - first, subjects.search_sorted(frame["subject"])] = frame["value"].to_numpy()
        return _History(measure, [what.format(subject) for subject in subjects], values, kind)

    per_s = pl.col("value") * 1000 / run.window_ms
    brokers = query(_BROKERS, BROKER_SHARE)
    total = pl.col("value").sum().over("step")
    fair = pl.col("expected_share")
    ratios = brokers.filter((total > 0) & (fair > 0)).with_columns(value=pl.col("value") / total / fair)
    histories = (
        history("share_ratio", "broker {}", ratios),
        history("bytes_per_s", "broker {}", brokers.with_columns(per_s), "volume"),
        history("bytes_per_s", "topic {}", query(_TOPICS, TOPIC_HEALTH).with_columns(per_s), "volume"),
        history("used_bytes", "disk {}", _list_disks(run, query(_DISKS, BROKERS, (span,))), "grows"),
    )
    rows = [row for end_ms in ends_ms for one in histories for row in _forecast(run, one, span.start_ms, end_ms)]
    return JobReport(table_versions=run.replace(FORECAST, rows, windows))


class _History(NamedTuple):
    """Several subjects' values of a measure, by step and subject; NaN where unknown."""

    measure: str
    subjects: Sequence[str]
    values: forecast.Hours
    kind: str  # `volume`, which errs in proportion to its size, `grows` or neither


def _list_disks(run: RunContext, frame: pl.DataFrame) -> pl.DataFrame:
    disks = [
        (step, of_broker[0], f"{disk} of broker {of_broker[0]}", float(used))
        for step, *of_broker in tuples_of(frame.to_arrow(), "step", *DISK_COLUMNS)
        for disk, (used, _) in disk_fillings(run.cluster.disk_bytes, *of_broker)
    ]
    schema = {"step": pl.Int64, "broker_id": pl.Int64, "subject": pl.String, "value": pl.Float64}
    found = pl.DataFrame(disks, schema=schema, orient="row")
    longest = found.group_by("broker_id", "subject").len().sort("len", "subject", descending=[True, False])
    return found.join(longest.group_by("broker_id").head(DISKS), on="subject", how="semi")


def _forecast(run: RunContext, history: _History, first_ms: int, end_ms: int) -> Iterator[Row]:
    step_ms = max(HOUR_MS, run.window_ms)
    day_steps = DAY_MS // step_ms
    values = history.values[: (end_ms - first_ms) // step_ms]
    here = np.flatnonzero(~np.isnan(values[-day_steps:]).all(axis=0))
    # what is forecast in place of the values, and how values come back from it
    scales: tuple[_Scale, _Scale] = (np.log1p, np.expm1) if history.kind == "volume" else (np.positive, np.positive)
    for day in forecast.forecast_days(scales[0](values[:, here]), day_steps, grows=history.kind == "grows"):
        start_ms = end_ms + (day.day - 1) * DAY_MS
        for index, number in enumerate(here.tolist()):
            yield {
                "window_start": instant_of(end_ms - run.window_ms),
                "subject": history.subjects[number],
                "measure": history.measure,
                "horizon_hours": 24 * day.day,
                **_describe_day(day, index, start_ms, step_ms, scales[1]),
            }


def _describe_day(day: forecast.DayAhead, index: int, start_ms: int, step_ms: int, unscale: _Scale) -> Row:
    value, is_trusted = day.value[:, index], bool(day.is_trusted[index])
    tested = {
        "back_test_coverage_ratio": _known(day.coverage_ratio[index]),
        "back_test_error_ratio": _known(day.error_ratio[index]),
        "back_test_days": float(day.tested_days[index]),
    }
    if np.isnan(value).all():
        needed = "two days are" if day.day == 1 else "two weeks are"
        return {**tested, "season": "", "is_trusted": False, "reason": f"not enough history: {needed} needed"}
    highest = int(np.nanargmax(value))
    value, low, high = (np.maximum(unscale(one[:, index]), 0) for one in (day.value, day.low, day.high))
    return {
        **tested,
        "highest_at": instant_of(start_ms + highest * step_ms),
        "value": float(value[highest]),
        "value_low": _known(low[highest]),
        "value_high": _known(high[highest]),
        "mean_value": float(np.nanmean(value)),
        "season": forecast.SEASONS[day.season[index]][0],
        "is_trusted": is_trusted,
        "reason": "" if is_trusted else _explain(day, index),
    }


def _explain(day: forecast.DayAhead, index: int) -> str:
    coverage, error, days = (float(one[index]) for one in (day.coverage_ratio, day.error_ratio, day.tested_days))
    reasons = []
    if days < forecast.LEAST_TESTED_DAYS:
        reasons.append(f"{days:.1f} days could be tested, {forecast.LEAST_TESTED_DAYS} are needed")
    if coverage < forecast.LEAST_COVERAGE:
        reasons.append(f"its ranges held {coverage:.0%} of the history, {forecast.LEAST_COVERAGE:.0%} are needed")
    if error > forecast.MOST_ERROR_RATIO:
        reasons.append(f"it errs {error:.2f} times as much as a plain mean, {forecast.MOST_ERROR_RATIO:g} is allowed")
    newest, most = float(day.newest_error_ratio[index]), forecast.MOST_NEWEST_ERROR_RATIO
    if newest > most:
        reasons.append(f"it erred {newest:.1f} times as much on the newest day as before, {most:g} is allowed")
    return "; ".join(reasons)


def _known(value: np.float64) -> float | None:
    return None if np.isnan(value) else float(value)
