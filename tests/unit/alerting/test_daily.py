"""The mail of the day about all clusters. Oracle: verdicts and incidents as a run writes them, by hand."""

from dataclasses import replace
from datetime import timedelta

import pytest

from pipeline.jobs import daily_mail, deliver_alerts
from pipeline.model.window import DAY_MS, HOUR_MS, TimeWindow, instant_of
from pipeline.runs import plan_runs
from pipeline.sources.kinds.log_directories import LogDirectories
from pipeline.storage.tables_on_disk import ensure_tables
from pipeline.tables.gold import VERDICTS
from pipeline.tables.incidents import ALERT_OUTBOX, INCIDENTS
from tests.mail_parts import read_mail
from tests.unit.alerting.examples import MINUTE_MS, T0_MS
from tests.unit.alerting.test_queue_messages import a_run, change

NOW_MS = T0_MS + 10 * MINUTE_MS
GOOD = {"subject": "broker 1", "rule": "broker_share", "limit_value": 1.2}
GOOD |= {"verdict": "ok", "is_above": False, "above_count": 0, "reason": ""}
CLUSTERS = ("well", "hot", "silent", "stopped", "recorded", "worse")
END_MS = NOW_MS - 5 * MINUTE_MS  # `grace`: five minutes
RECORDED_MS = END_MS - 30 * DAY_MS
JUDGED_MS = {
    "well": (END_MS - MINUTE_MS, END_MS),
    "hot": (T0_MS,),
    "stopped": (T0_MS - DAY_MS, END_MS + 400 * DAY_MS),  # then the clock was ahead
    "recorded": (RECORDED_MS - DAY_MS - MINUTE_MS, RECORDED_MS - DAY_MS, RECORDED_MS - MINUTE_MS, RECORDED_MS),
    "worse": (T0_MS,),
}
INCIDENTS_OF = {
    "hot": [change(1), change(2), change(2, state="resolved", minute=1)],
    "worse": [replace(change(number), since_ms=T0_MS - number * MINUTE_MS) for number in range(1, 6)],
}


def test_a_line_for_each_cluster_once_a_day_and_those_in_need_first(tmp_path):
    base = a_run(tmp_path, to=("platform@x.org",), daily=True).config
    source = LogDirectories(kind="log_directories", paths=(tmp_path,))
    clusters = dict.fromkeys(CLUSTERS, next(iter(base.clusters.values())).model_copy(update={"sources": (source,)}))
    clusters["recorded"] = clusters["well"].model_copy(update={"as_of": instant_of(RECORDED_MS + 5 * MINUTE_MS)})
    config = base.model_copy(update={"clusters": clusters, "grace": timedelta(minutes=5)})
    ensure_tables(config.warehouse, (ALERT_OUTBOX, VERDICTS, INCIDENTS))
    for name, starts_ms in JUDGED_MS.items():
        span = TimeWindow(T0_MS, T0_MS + 2 * MINUTE_MS)
        (run,) = plan_runs(config, span, run_id="r", now_ms=NOW_MS, cluster=name)
        windows = [TimeWindow(start_ms, start_ms + MINUTE_MS) for start_ms in starts_ms]
        run.replace(VERDICTS, [GOOD | {"window_start": instant_of(start_ms)} for start_ms in starts_ms], windows)
        run.replace(INCIDENTS, INCIDENTS_OF.get(name, []), run.windows)
    for _ in range(2):
        daily_mail.run(config, now_ms=NOW_MS)
    ((message, _),) = deliver_alerts.run(config, None, now_ms=NOW_MS).deliveries
    mail = read_mail(message.payload)
    assert mail["To"] == "platform@x.org"
    assert mail["Subject"].startswith("[DAY] 6 clusters: 2 not judged, 2 incidents, 2 well in the 24 hours to ")
    lines = mail.get_body(("plain",)).get_content().splitlines()
    start = next(at for at, line in enumerate(lines) if line.startswith("  cluster "))
    assert lines[start + 1 : start + 12] == [
        "> silent    not judged  0 of 1440  never",
        "> stopped   not judged  0 of 1440  2026-11-20 09:00 UTC",
        "> worse     incidents   1 of 1440  2026-11-21 09:00 UTC  source_5 (source",
        "                                                         arrival), source_4",
        "                                                         (source arrival),",
        "                                                         source_3 (source",
        "                                                         arrival) and 2 more",
        "> hot       incidents   1 of 1440  2026-11-21 09:00 UTC  source_1 (source",
        "                                                         arrival)",
        "  recorded  well        2 of 1440  2026-10-22 09:05 UTC",
        "  well      well        1 of 1440  2026-11-21 09:05 UTC",
    ]


@pytest.mark.parametrize(
    ("verdict", "value"),
    [("incomplete", None), ("stale", None), ("not_enough_traffic", None), ("not_enough_traffic", 1.5)],
)
def test_a_day_without_a_window_that_could_be_judged_is_not_called_well(tmp_path, verdict, value):
    """Verdicts say so while a reassignment runs, where no record comes, or too few for a broker at 1.5. An incident that ended in the window of its last message is over."""
    run = a_run(tmp_path, to=("platform@x.org",), daily=True)
    ensure_tables(run.warehouse, (ALERT_OUTBOX, VERDICTS, INCIDENTS))
    windows = [TimeWindow(T0_MS + at * MINUTE_MS, T0_MS + (at + 1) * MINUTE_MS) for at in range(3)]
    rows = [GOOD | {"window_start": instant_of(one.start_ms), "verdict": verdict, "value": value} for one in windows]
    run.replace(VERDICTS, rows, windows)
    run.replace(INCIDENTS, [change(1, state="resolved"), change(1)], windows[:1])
    said = daily_mail._look_at(run.config, run.cluster_name, NOW_MS)
    assert (said.state, said.judged_count, said.newest_ms, said.open_incidents) == ("not judged", 0, None, ())


@pytest.mark.parametrize(("age", "state"), [(timedelta(hours=3), "well"), (timedelta(hours=23), "not judged")])
def test_a_cluster_whose_newest_judged_window_is_long_ago_is_not_well(tmp_path, age, state):
    base = a_run(tmp_path, to=("platform@x.org",), daily=True).config
    config = base.model_copy(update={"window": timedelta(hours=1), "grace": timedelta(0)})
    ensure_tables(config.warehouse, (ALERT_OUTBOX, VERDICTS, INCIDENTS))
    end_ms = T0_MS - T0_MS % HOUR_MS
    window = TimeWindow(start := end_ms - int(age.total_seconds()) * 1_000, start + HOUR_MS)
    (run,) = plan_runs(config, window, run_id="r", now_ms=end_ms)
    run.replace(VERDICTS, [GOOD | {"window_start": instant_of(window.start_ms)}], [window])
    (note,) = daily_mail.run(config, now_ms=end_ms + MINUTE_MS).notes
    assert note.startswith(f"[DAY] 1 clusters: 1 {state} in the 24 hours to ")
