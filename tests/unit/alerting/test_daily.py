"""The mail of the day about all clusters. Oracle: verdicts and incidents as a run writes them, by hand."""

from __future__ import annotations

from email import message_from_bytes
from email.policy import default

from pipeline.jobs import daily_mail, deliver_alerts
from pipeline.model.window import DAY_MS, TimeWindow, instant_of
from pipeline.runs import plan_runs
from pipeline.sources.kinds.log_directories import LogDirectories
from pipeline.storage.tables_on_disk import ensure_tables
from pipeline.tables.gold import VERDICTS
from pipeline.tables.incidents import ALERT_OUTBOX, INCIDENTS
from tests.unit.alerting.examples import MINUTE_MS, T0_MS
from tests.unit.alerting.test_queue_messages import a_run, change

NOW_MS = T0_MS + 10 * MINUTE_MS
GOOD = {
    "subject": "broker 1",
    "rule": "broker_share",
    "limit_value": 1.2,
    "verdict": "ok",
    "is_above": False,
    "above_count": 0,
    "reason": "",
}
CLUSTERS = ("well", "hot", "silent", "stopped")


def test_a_line_for_each_cluster_once_a_day_and_those_in_need_first(tmp_path):
    base = a_run(tmp_path, to=("platform@x.org",), daily=True).config
    source = LogDirectories(kind="log_directories", paths=(tmp_path,))
    clusters = dict.fromkeys(CLUSTERS, next(iter(base.clusters.values())).model_copy(update={"sources": (source,)}))
    config = base.model_copy(update={"clusters": clusters})
    ensure_tables(config.warehouse, (ALERT_OUTBOX, VERDICTS, INCIDENTS))
    for name, start_ms in (("well", T0_MS), ("hot", T0_MS), ("stopped", T0_MS - DAY_MS)):
        span = TimeWindow(start_ms, start_ms + 2 * MINUTE_MS)
        (run,) = plan_runs(config, span, run_id="r", now_ms=NOW_MS, cluster=name)
        run.replace(VERDICTS, [GOOD | {"window_start": instant_of(start_ms)}], run.windows)
        incidents = {"hot": [change(1), change(2), change(2, state="resolved", minute=1)]}
        run.replace(INCIDENTS, incidents.get(name, []), run.windows)
    for _ in range(2):
        daily_mail.run(config, now_ms=NOW_MS)
    ((message, _),) = deliver_alerts.run(config, None, now_ms=NOW_MS).deliveries
    mail = message_from_bytes(message.payload, policy=default)
    assert mail["To"] == "platform@x.org"
    assert mail["Subject"].startswith("[DAY] 4 clusters: 2 not judged, 1 incidents, 1 well in the 24 hours to ")
    lines = [line.split() for line in mail.get_body(("plain",)).get_content().splitlines()]
    table = [line[line[0] == ">" :] for line in lines if len(line) > 1 and {*line[:2]} & {*CLUSTERS}]
    assert [line[0] for line in table] == ["silent", "stopped", "hot", "well"]
    assert table[0][1:6] == ["not", "judged", "0", "of", "1440"]
    assert table[3][1:5] == ["well", "1", "of", "1440"]
    assert "source_1" in " ".join(table[2])
    assert "source_2" not in " ".join(table[2])
