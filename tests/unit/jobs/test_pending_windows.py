"""Which windows a job takes up by itself, and which it need not judge again. Oracle: worked out by hand."""

from dataclasses import replace
from datetime import timedelta

import pytest

from pipeline.errors import ConfigError
from pipeline.jobs import judge_health, keep_sums, raise_incidents, score_health
from pipeline.jobs.replay import pending_windows as find_windows_to_replay
from pipeline.model.window import DAY_MS, HOUR_MS, MINUTE_MS, TimeWindow, instant_of
from pipeline.runs import plan_runs
from pipeline.storage.frames import rows_of
from pipeline.storage.rows import replace_rows
from pipeline.storage.tables_on_disk import ensure_tables
from pipeline.tables.bronze import CLUSTER_STATE, WINDOW_STATUS
from pipeline.tables.gold import BROKER_SHARE, VERDICTS
from pipeline.tables.keys import KEY_TRAFFIC
from pipeline.tables.replay import BACK_TESTS
from pipeline.tables.silver import RECORD_BATCHES
from tests.incident_rows import new_verdict
from tests.table_rows import needed_row, zero_row
from tests.unit.jobs.one_cluster import write_config

START_MS = 1_795_251_600_000


def status_row(window, committed_ms=START_MS, **fields):
    times = {"window_end": window.end_ms, "as_of": window.end_ms, "committed_at": committed_ms}
    told = {"source": "log_directories", "arrived_count": 1, "row_count": 1, "is_trusted": True}
    told |= {name: instant_of(at_ms) for name, at_ms in times.items()}
    return needed_row(WINDOW_STATUS, window.start_ms, **told | fields)


def write_status(config, windows, *, run_id="r", committed_ms=START_MS, **fields):
    rows = rows_of(WINDOW_STATUS, [status_row(window, committed_ms, **fields) for window in windows], run_id=run_id)
    replace_rows(rows, config.warehouse, WINDOW_STATUS, cluster="lab", windows=windows)


def run_over(config, *windows):
    span = TimeWindow(windows[0].start_ms, windows[-1].end_ms)
    (run,) = plan_runs(config, span, run_id="r", now_ms=span.end_ms)
    return run


def test_earlier_trusted_windows_of_a_month_are_taken_up_and_others_where_a_run_names_them(tmp_path):
    config = write_config(tmp_path)
    older, late, own, later = windows = tuple(
        TimeWindow(start_ms, start_ms + HOUR_MS)
        for start_ms in (START_MS - 32 * DAY_MS, START_MS - 30 * DAY_MS, START_MS, START_MS + HOUR_MS)
    )
    write_status(config, windows)

    def pending(*spans):
        return score_health.pending_windows(run_over(config, *spans))

    assert pending(own) == (late, own)
    assert pending(older) == (older,)
    assert pending(own, later) == (late, own, later)


@pytest.mark.parametrize(("minutes", "counts"), [(15, [4, 4, 1]), (60, [1] * 9), (120, [1] * 9)])
def test_windows_that_were_lost_are_taken_up_by_the_hour(tmp_path, minutes, counts):
    """A day of them in one run, which a time limit cuts off, would begin anew with each try, for good."""
    config = write_config(tmp_path).model_copy(update={"window": timedelta(minutes=minutes)})
    start_ms = START_MS + HOUR_MS  # 10:00
    first, *lost, own = TimeWindow(start_ms, start_ms + 11 * minutes * MINUTE_MS).split(minutes * MINUTE_MS)
    write_status(config, (first,))
    taken_up = run_over(config, own).over_lost_windows(24)
    assert [len(run.windows) for run in taken_up] == counts
    assert [window for run in taken_up for window in run.windows] == lost


def test_windows_taken_up_in_vain_are_told_when_no_later_run_takes_them_up(tmp_path):
    config = write_config(tmp_path)
    times = [TimeWindow(start_ms, start_ms + HOUR_MS) for start_ms in range(START_MS, START_MS + 6 * HOUR_MS, HOUR_MS)]
    first, aged, tried, again, well, own = times
    write_status(config, (first, own))
    run = run_over(config, own)
    taken = run.over_lost_windows(4)
    assert [window for one in taken for window in one.windows] == [aged, tried, again, well]
    for window, said in ((tried, (None, 6)), (again, (None, 5)), (well, (True, 1))):
        write_status(config, (window,), is_trusted=said[0], tries=said[1])
    assert run.list_given_up(taken, 4) == [aged, tried]


FIRST, SECOND = TimeWindow(START_MS, START_MS + HOUR_MS), TimeWindow(START_MS + HOUR_MS, START_MS + 2 * HOUR_MS)


def ingest_again(run):
    write_status(run.config, (FIRST,), run_id="again")
    return run


def ingest_later(run):
    write_status(run.config, (FIRST,), committed_ms=START_MS + 1)
    return run


def replay(run):
    rows = rows_of(BACK_TESTS, [needed_row(BACK_TESTS, FIRST.start_ms, topic="orders")], run_id="r")
    replace_rows(rows, run.warehouse, BACK_TESTS, cluster="lab", windows=(FIRST,))
    return run


def configure(run):
    gate = run.cluster.gate.model_copy(update={"limit_ratio": 1.5})
    clusters = {"lab": run.cluster.model_copy(update={"gate": gate})}
    return replace(run, config=run.config.model_copy(update={"clusters": clusters}))


@pytest.mark.parametrize(
    ("happens", "is_judged"),
    [(lambda run: run, True), (ingest_again, False), (ingest_later, False), (replay, False), (configure, False)],
)
def test_a_window_is_judged_again_only_where_what_it_was_judged_from_has_changed(happens, is_judged, tmp_path):
    config = write_config(tmp_path)
    write_status(config, (FIRST, SECOND))
    run = run_over(config, FIRST)
    inputs = score_health.digest_inputs(run, (FIRST,))
    assert not score_health.judged_windows(run, inputs)
    raise_incidents.run(run, [judged(FIRST)], inputs)
    run = happens(run)
    found = score_health.judged_windows(run, score_health.digest_inputs(run, (FIRST,)))
    assert found == ({FIRST} if is_judged else set())
    both = run_over(run.config, FIRST, SECOND)
    assert SECOND not in score_health.judged_windows(both, score_health.digest_inputs(both, (FIRST, SECOND)))


def test_a_later_window_that_nobody_measured_gets_no_verdict(tmp_path):
    """Else it would count as judged, and no run would take it up."""
    config = write_config(tmp_path)
    write_status(config, (FIRST, SECOND))
    first, both = run_over(config, FIRST), run_over(config, FIRST, SECOND)

    def judge(run, *windows):
        return sorted({verdict.window_start_ms for verdict in judge_health.run(run, windows)})

    assert judge(first, FIRST) == [FIRST.start_ms]
    assert judge(both, FIRST, SECOND) == [FIRST.start_ms, SECOND.start_ms]
    assert judge(both, SECOND) == [SECOND.start_ms]
    raise_incidents.run(both, judge_health.run(both, (SECOND,)))
    assert judge(first, FIRST) == [FIRST.start_ms, SECOND.start_ms]


@pytest.mark.parametrize(("is_trusted", "verdict"), [(None, "incomplete"), (True, "warn")])
@pytest.mark.parametrize("count", [1, 3])
def test_a_share_of_what_was_incomplete_is_none_while_its_window_is_read_again(is_trusted, verdict, count, tmp_path):
    """A run that was killed, or whose data gate failed, left the shares of before: the broker failed by them."""
    config = write_config(tmp_path)
    lacks = {"expected_count": 3, "arrived_count": 1, "newest_at": instant_of(SECOND.end_ms)}
    found_since = lacks | {"arrived_count": count}
    expected = verdict if count == 3 else "incomplete"
    write_status(config, (FIRST,))
    write_status(config, (SECOND,), **lacks)
    both = run_over(config, FIRST, SECOND)
    of = {"share": 0.6, "expected_share": 0.3, "share_ratio": 2.0, "effective_unit_count": 1e6, "size_bytes": 10**9}
    rows = [needed_row(BROKER_SHARE, SECOND.start_ms, broker_id=1, **of)]
    replace_rows(
        rows_of(BROKER_SHARE, rows, run_id="r"), config.warehouse, BROKER_SHARE, cluster="lab", windows=(SECOND,)
    )
    raise_incidents.run(both, judge_health.run(both, (FIRST, SECOND)))
    write_status(config, (SECOND,), **found_since, run_id="again", is_trusted=is_trusted)
    verdicts = [verdict for verdict in judge_health.run(both, (FIRST,)) if verdict.window_start_ms == SECOND.start_ms]
    found = [verdict for verdict in verdicts if verdict.rule == "broker_share"]
    assert [(verdict.subject, verdict.verdict) for verdict in found] == [("broker 1", expected)]


def test_verdicts_that_follow_from_an_earlier_window_keep_what_theirs_were_judged_from(tmp_path):
    """The second window is ingested anew while the first is judged again: its new rows are not in its verdict."""
    config = write_config(tmp_path)
    write_status(config, (FIRST, SECOND))
    both = run_over(config, FIRST, SECOND)
    verdicts = [judged(FIRST), judged(SECOND)]
    raise_incidents.run(both, verdicts, score_health.digest_inputs(both, both.windows))
    first = run_over(config, FIRST)
    raise_incidents.run(first, verdicts, score_health.digest_inputs(first, first.windows))
    assert score_health.judged_windows(both, score_health.digest_inputs(both, both.windows)) == {*both.windows}
    write_status(config, (SECOND,), run_id="again")
    raise_incidents.run(first, verdicts, score_health.digest_inputs(first, first.windows))
    assert score_health.judged_windows(both, score_health.digest_inputs(both, both.windows)) == {FIRST}


def judged(window):
    return new_verdict(window.start_ms, above=0, reason="below its limit")


def test_a_span_of_too_many_windows_is_refused_before_they_are_listed(tmp_path):
    """Whoever may trigger a run in Airflow names its span."""
    config = write_config(tmp_path)
    assert len(run_over(config, TimeWindow(0, 100_000 * HOUR_MS)).windows) == 100_000
    with pytest.raises(ConfigError, match=r"100,001 windows; a run may have 100,000"):
        run_over(config, TimeWindow(1, 100_000 * HOUR_MS + 1))
    for span in (TimeWindow(-HOUR_MS, 0), TimeWindow.parse("9999-12-31T23:30:00Z/PT29M")):
        with pytest.raises(ConfigError, match="before the year 1970 or after 2099"):
            run_over(config, span)


def test_earlier_windows_are_taken_up_by_the_hour_the_runs_own_first_and_half_a_day_at_most(tmp_path):
    """A month of them in one go, which a time limit cuts off, would begin anew with each try, and hold up the run's own."""
    config = write_config(tmp_path).model_copy(update={"window": timedelta(minutes=30)})
    *earlier, own = TimeWindow(START_MS, START_MS + 31 * HOUR_MS // 2).split(HOUR_MS // 2)
    write_status(config, (*earlier, own))
    run = run_over(config, own)
    turns = [*run.in_turns(run.pending_windows(VERDICTS))]
    assert turns == [(own,), *((earlier[end - 2], earlier[end - 1]) for end in range(30, 6, -2))]
    assert score_health.pending_windows(run) == (*earlier[6:], own)
    assert [*run.in_turns(earlier[:3])] == [(earlier[1], earlier[2]), (earlier[0],)]


@pytest.mark.parametrize(
    ("arrivals", "table", "is_taken_up"),
    [(True, CLUSTER_STATE, True), (False, CLUSTER_STATE, False), (False, KEY_TRAFFIC, True)],
)
def test_windows_without_anything_to_replay_are_not_taken_up_again_and_again(tmp_path, arrivals, table, is_taken_up):
    config = write_config(tmp_path)
    config = config.model_copy(update={"replay": config.replay.model_copy(update={"arrivals": arrivals})})
    ensure_tables(config.warehouse)
    write_status(config, (FIRST, SECOND))
    run = run_over(config, SECOND)
    run.replace(table, [zero_row(table, FIRST.start_ms)], (FIRST,))
    assert find_windows_to_replay(run) == ((FIRST, SECOND) if is_taken_up else (SECOND,))


def test_what_a_window_without_anything_to_replay_was_summed_up_from_is_dropped(tmp_path):
    config = write_config(tmp_path)
    config = config.model_copy(update={"replay": config.replay.model_copy(update={"arrivals": False})})
    ensure_tables(config.warehouse)
    run = run_over(config, FIRST, SECOND)
    run.replace(RECORD_BATCHES, [zero_row(RECORD_BATCHES, window.start_ms) for window in run.windows], run.windows)
    keep_sums.run(run, run.windows)
    assert run.starts_in((RECORD_BATCHES,), run.windows) == {SECOND.start_ms}  # the window after it is not judged yet
