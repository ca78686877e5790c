"""What a person reads in the log of a try that never began. Oracle: the form of Airflow's own lines, by hand."""

import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

from dags.notifiers import read_tail
from dags.plugin import append_to_log

ROOT = Path(__file__).parents[2]
ERROR = "Executor LocalExecutor reported failed. Extra info: [Errno 111] Connection refused"


def test_the_log_of_a_try_that_never_began_says_why(tmp_path):
    log = tmp_path / "dag_id=ingest/attempt=1.log"
    append_to_log(log, ERROR, datetime(2026, 11, 22, 1, 27, 17, tzinfo=UTC))
    assert read_tail(log) == (f"2026-11-22T01:27:17 error {ERROR}",)


LOST = """
from datetime import UTC, datetime
from types import SimpleNamespace
from dags.plugin import on_task_instance_failed
for dag_id in ("partition_health_health", "theirs"):
    ti = SimpleNamespace(dag_id=dag_id, task_id="deliver_alerts", run_id="r", map_index=-1, try_number=1, pool="default_pool")
    ti.end_date = datetime(2026, 11, 22, tzinfo=UTC)
    on_task_instance_failed(None, ti, "Connection refused")
"""


def test_every_task_of_our_dags_has_such_a_line_whatever_its_pool_and_no_other(tmp_path):
    clusters = "clusters: {one: {sources: [{kind: log_directories, paths: [logs]}]}}"
    (tmp_path / "own.yaml").write_text(f"warehouse: w\noutbox: o\n{clusters}\n")
    logs = {"AIRFLOW__LOGGING__BASE_LOG_FOLDER": str(tmp_path / "logs")}
    own = {"AIRFLOW_HOME": str(tmp_path), "PARTITION_HEALTH_CONFIG": str(tmp_path / "own.yaml"), **logs}
    command = [sys.executable, "-c", LOST]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, **own}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (told,) = (tmp_path / "logs").rglob("attempt=1.log")
    assert "dag_id=partition_health_health" in str(told)
    assert read_tail(told) == ("2026-11-22T00:00:00 error Connection refused",)


def test_what_the_log_has_already_stays(tmp_path):
    log = tmp_path / "attempt=1.log"
    log.write_text("Pre Execute\n")
    append_to_log(log, ERROR, datetime(2026, 11, 22, tzinfo=UTC))
    assert read_tail(log)[0] == "Pre Execute"
