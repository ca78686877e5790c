"""Forecasts of planted series: a weekly cycle that exceeds on Mondays at 09:00 is warned of, noise is not.

Oracle: the laws that the series are drawn from, as written here.
"""

import numpy as np
import polars as pl
import pytest
from deltalake import write_deltalake

from pipeline.config_file import load_config
from pipeline.jobs import forecast, judge_health, measure_rules
from pipeline.measures.forecast import forecast_days
from pipeline.model.window import HOUR_MS, TimeWindow, instant_of, milliseconds_of
from pipeline.runs import JobReport, plan_runs
from pipeline.storage.frames import rows_of
from pipeline.storage.tables_on_disk import ensure_tables, table_path
from pipeline.tables.bronze import BROKERS
from pipeline.tables.health import FORECAST, RULE_MEASURES
from tests.report_tables import CLUSTER, T0_MS, write_config, write_rows
from tests.table_rows import needed_row

HOURS = 28 * 24
NOW_MS = T0_MS + HOURS * HOUR_MS  # a Saturday, 00:00 UTC
MONDAY_9_MS = NOW_MS + (2 * 24 + 9) * HOUR_MS
SPREAD = 0.02


def ratios_of(kind, hours=HOURS):
    """Share ratios of broker 0 of two, by hour before now."""
    rng = np.random.default_rng(7)
    at = np.arange(-hours, 0)
    noise = rng.normal(0, SPREAD, hours)
    if kind == "weekly":
        return 1.0 + 0.5 * ((at - 57) % 168 == 0) + noise
    if kind == "noise":  # as high as the weekly peak now and then, at hours without a law
        return 1.0 + 0.5 * (rng.random(hours) < 1 / 50) + noise
    if kind.startswith("daily"):  # until leaders were moved, so many days ago
        days = int(kind.removeprefix("daily until ")) if kind != "daily" else 0
        daily = np.cos((at - 20) / 24 * 2 * np.pi)
        return np.where(at >= -24 * days, 1 + 0.05 * daily, 1.1 + 0.3 * daily) + noise
    return 1.0 + noise


def prepare(folder, kind, hours=HOURS, window_ms=HOUR_MS):
    config = write_config(folder)
    if window_ms != HOUR_MS:
        path = folder / "partition-health.yaml"
        path.write_text(path.read_text().replace("PT1H", f"PT{window_ms // 60_000}M"))
        config = load_config(path)
    ensure_tables(config.warehouse)
    ratio = np.repeat(ratios_of(kind, hours), HOUR_MS // window_ms)
    start_ms = NOW_MS - hours * HOUR_MS + np.arange(len(ratio)) * window_ms
    starts = pl.Series([instant_of(int(one)) for one in start_ms], dtype=pl.Datetime("us", "UTC"))
    for broker_id, share in enumerate((ratio / 2, 1 - ratio / 2)):
        of = {"broker_id": broker_id, "expected_share": 0.5, "capacity": 1.0}
        shares = {"size_bytes": (share * 1e9).astype(np.int64), "share": share, "share_ratio": share * 2}
        write_rows(config.warehouse, "gold.broker_share", pl.DataFrame({"window_start": starts, **of, **shares}))
    topics = pl.DataFrame({"window_start": starts, "topic": "orders", "size_bytes": 10**9})
    write_rows(config.warehouse, "gold.topic_health", topics)
    return config


def judge(config, windows=1, window_ms=HOUR_MS):
    """Forecasts and judges the last windows; returns the run and the verdicts of the rule."""
    span = TimeWindow(NOW_MS - windows * window_ms, NOW_MS)
    (run,) = plan_runs(config, span, run_id="test", now_ms=NOW_MS)
    forecast.run(run, run.windows)
    measure_rules.run(run, run.windows)
    verdicts = judge_health.judge_further_rules(run, span.start_ms)
    return run, [verdict for verdict in verdicts if verdict.rule == "share_forecast"]


def test_a_weekly_peak_is_warned_of_with_its_hour_and_range(tmp_path):
    run, (verdict,) = judge(prepare(tmp_path, "weekly"))
    assert (verdict.verdict, verdict.subject, verdict.is_above) == ("warn", "broker 0", True)
    assert "on Monday 21 December 09:00 UTC" in verdict.reason
    assert 1.2 < verdict.value < 1.5
    rows = {(row["measure"], row["horizon_hours"]): row for row in run.rows(FORECAST) if row["subject"] == "broker 0"}
    monday = rows["share_ratio", 72]
    assert milliseconds_of(monday["highest_at"]) == MONDAY_9_MS
    assert (monday["season"], monday["is_trusted"], monday["reason"]) == ("week", True, "")
    assert monday["value_low"] < 1.5 < monday["value_high"]
    assert monday["value"] == pytest.approx(1.5, abs=3 * SPREAD)
    assert rows["bytes_per_s", 72]["value"] == pytest.approx(1.5 / 2 * 1e9 / 3600, rel=0.1)


def test_hours_that_lack_records_each_week_are_no_peak(tmp_path):
    """A disk that is copied each Monday at 09:00 left its broker out: the other one was forecast to be hot."""
    config = prepare(tmp_path, "weekly")
    peaks_ms = [MONDAY_9_MS - weeks * 7 * 24 * HOUR_MS for weeks in range(1, 5)]
    of = {"source": "log_directories", "expected_count": 2, "arrived_count": 1, "newest_at": instant_of(NOW_MS)}
    rows = [{**of, "window_start": instant_of(at_ms), "as_of": instant_of(NOW_MS)} for at_ms in peaks_ms]
    write_rows(config.warehouse, "bronze.window_status", pl.DataFrame(rows))
    _, verdicts = judge(config)
    assert verdicts == []


@pytest.mark.parametrize("days", [1, 2, 3, 4, 5, 7, 10])
def test_no_peak_of_before_a_change_is_forecast(tmp_path, days):
    """Leaders were moved, as a mail had advised: for days the peaks of before were forecast, and trusted."""
    _, (verdict,) = judge(prepare(tmp_path, "daily"))
    assert verdict.subject == "broker 0"
    (tmp_path / "moved").mkdir()
    run, verdicts = judge(prepare(tmp_path / "moved", f"daily until {days}"))
    assert verdicts == []
    shares = [row for row in run.rows(FORECAST) if row["measure"] == "share_ratio" and row["value"] >= 1.2]
    assert {row["is_trusted"] for row in shares} == {False}
    if days < 4:
        assert all("times as much on the newest day as before" in row["reason"] for row in shares)


def test_noise_whose_back_test_does_not_deserve_it_is_not_warned_of(tmp_path):
    run, verdicts = judge(prepare(tmp_path, "noise"))
    assert verdicts == []
    measures = [row for row in run.rows(RULE_MEASURES) if row["rule"] == "share_forecast"]
    assert [(row["subject"], row["is_enough"]) for row in measures] == [("broker 0", False), ("broker 1", False)]
    assert all("times as much as a plain mean, 0.8 is allowed" in row["detail"] for row in measures)


@pytest.mark.parametrize(("hours", "days"), [(47, []), (48, [1]), (335, [1]), (336, [1, 2, 3, 4, 5, 6, 7])])
def test_two_days_or_two_weeks_of_history_are_needed(hours, days):
    history = np.concatenate([np.full(HOURS - hours, np.nan), ratios_of("flat", hours)])[:, None]
    assert [day.day for day in forecast_days(history, 24) if not np.isnan(day.value).any()] == days


def test_too_little_history_is_said(tmp_path):
    run, _ = judge(prepare(tmp_path, "flat", 335))
    said = {row["horizon_hours"]: (row["value"], row["reason"]) for row in run.rows(FORECAST) if row["value"] is None}
    assert said == {24 * day: (None, "not enough history: two weeks are needed") for day in range(2, 8)}


def test_what_a_short_back_test_lacks_is_said_and_no_figure_stands_in(tmp_path):
    run, _ = judge(prepare(tmp_path, "flat", 60))
    shares = {row["horizon_hours"]: row for row in run.rows(FORECAST) if row["measure"] == "share_ratio"}
    assert shares[24]["reason"].startswith("1.5 days could be tested, 7 are needed")
    assert [shares[168][name] for name in ("back_test_days", "back_test_error_ratio")] == [0, None]


def test_a_range_of_windows_gives_the_rows_of_single_ones(tmp_path):
    """Oracle: the windows forecast one by one."""
    kept = {}
    for name, spans in (("range", [3]), ("single", [1, 1, 1])):
        folder = tmp_path / name
        folder.mkdir()
        config = prepare(folder, "weekly")
        for number, windows in enumerate(spans):
            last = NOW_MS - (len(spans) - 1 - number) * HOUR_MS
            (run,) = plan_runs(config, TimeWindow(last - windows * HOUR_MS, last), run_id="test", now_ms=NOW_MS)
            forecast.run(run, run.windows)
        kept[name] = sorted(map(repr, run.rows(FORECAST)))
    assert kept["range"] == kept["single"]
    assert len(kept["range"]) == 3 * (2 + 2 + 1) * 7


def test_short_windows_are_forecast_at_the_end_of_an_hour_alone(tmp_path):
    config = prepare(tmp_path, "weekly", window_ms=HOUR_MS // 4)
    run, _ = judge(config, windows=4, window_ms=HOUR_MS // 4)
    assert {milliseconds_of(row["window_start"]) for row in run.rows(FORECAST)} == {NOW_MS - HOUR_MS // 4}


def test_a_disk_that_grows_by_day_goes_on_growing():
    """100 an hour in the day, nothing at night: 1,200 a day."""
    hours = np.arange(HOURS)
    used = np.cumsum(np.where(hours % 24 < 12, 100.0, 0.0))[:, None]
    for day in forecast_days(used, 24, grows=True):
        ahead = HOURS + 24 * (day.day - 1) + np.arange(24)
        expected = used[-1] + 1_200 * (day.day - 1) + np.cumsum(np.where(ahead % 24 < 12, 100.0, 0.0))
        assert day.value[:, 0] == pytest.approx(expected)
        assert day.is_trusted[0]


@pytest.mark.parametrize("seed", range(5))
def test_the_back_test_of_noise_says_that_a_mean_does_as_well_and_that_ranges_hold(seed):
    history = np.random.default_rng(seed).normal(10, 1, (HOURS, 3))
    history[::17] = np.nan
    for day in forecast_days(history, 24):
        assert (day.coverage_ratio > 0.85).all()
        assert (day.error_ratio > 0.95).all()
        assert not day.is_trusted.any()
        older = np.concatenate([np.full((100, 3), 99.0), history])
        np.testing.assert_array_equal(forecast_days(older, 24)[day.day - 1].low, day.low)


def test_directories_that_a_broker_names_anew_in_each_window_are_forecast_as_so_many(tmp_path):
    config = write_config(tmp_path)
    ensure_tables(config.warehouse)
    rows = []
    for hour in (1, 2, 3):
        for broker, paths in ((0, ["/a", *(f"/{hour}/{one}" for one in range(99))]), (1, ["/b"])):
            disks = {"log_dir_total_bytes": dict.fromkeys(paths, 10), "log_dir_usable_bytes": dict.fromkeys(paths, 5)}
            of = {"cluster": CLUSTER, "broker_id": broker, **disks}
            rows.append(needed_row(BROKERS, NOW_MS - hour * HOUR_MS, **of))
    write_deltalake(table_path(config.warehouse, BROKERS), rows_of(BROKERS, rows, run_id="r"), mode="append")
    run, _ = judge(config)
    subjects = [row["subject"] for row in run.rows(FORECAST) if row["horizon_hours"] == 24]
    assert len(subjects) == 101
    assert {"/a of broker 0", "/b of broker 1"} <= {one.removeprefix("disk ") for one in subjects}


@pytest.mark.parametrize("hours", [5, 36])
def test_windows_that_do_not_divide_a_day_are_not_forecast_and_end_no_run(tmp_path, hours):
    write_config(tmp_path)
    path = tmp_path / "partition-health.yaml"
    path.write_text(path.read_text().replace("PT1H", f"PT{hours}H"))
    config = load_config(path)
    ensure_tables(config.warehouse)
    end_ms = NOW_MS // (hours * HOUR_MS) * hours * HOUR_MS
    span = TimeWindow(end_ms - hours * HOUR_MS, end_ms)
    loads = {"broker_id": [0, 1], "size_bytes": [5, 5], "share": [0.5, 0.5], "expected_share": [0.5, 0.5]}
    loads |= {"window_start": [instant_of(span.start_ms)] * 2, "capacity": [1.0, 1.0], "share_ratio": [1.0, 1.0]}
    write_rows(config.warehouse, "gold.broker_share", pl.DataFrame(loads))
    (run,) = plan_runs(config, span, run_id="test", now_ms=end_ms)
    assert forecast.run(run, run.windows) == JobReport()
