"""The DAGs under a real scheduler: SQLite, LocalExecutor, `airflow backfill create` over two windows.

Oracle: one run over the same windows, by the command: window by window has to give the same tables and the same mail.
"""

import sqlite3
import subprocess
import sys
import time
from contextlib import ExitStack, closing
from datetime import UTC, datetime

import pytest

from dags.serve import answers, serve_settings
from pipeline.config_file import load_config
from pipeline.jobs import maintain
from pipeline.model.window import format_instant
from pipeline.storage.tables_on_disk import count_rows
from tests.dags.airflow_process import AIRFLOW, ROOT
from tests.lab.process import PATIENCE_S, free_ports
from tests.mail_parts import read_mail
from tests.spark.capture_runs import differences

UNHEALTHY = 4  # exit code of `run`
DAGS_WITH_WINDOWS = 3  # ingest, replay, health
RUNS = "SELECT dag_id, partition_key, state FROM dag_run"
TASKS = """
    SELECT r.dag_id, r.partition_key, t.task_id, t.state, t.try_number
    FROM task_instance t JOIN dag_run r ON t.dag_id = r.dag_id AND t.run_id = r.run_id
"""


def query(home, sql):
    with closing(sqlite3.connect(f"file:{home.folder}/airflow.db?mode=ro", uri=True, timeout=PATIENCE_S)) as database:
        return database.execute(sql).fetchall()


def wait_for(home, what, condition):
    deadline_s = time.monotonic() + 3 * PATIENCE_S
    while not condition():
        if time.monotonic() > deadline_s:
            states = query(home, TASKS)
            logs = "\n".join(f"{log.name}\n{log.read_text()[-2000:]}" for log in sorted(home.folder.glob("*.log")))
            raise AssertionError(f"no {what}: {states}\n{logs}")
        time.sleep(0.5)


def settings(port, url):
    """What keeps this Airflow apart from any other on the machine, and patient as `make serve`."""
    return serve_settings("127.0.0.1", port, url) | {
        "AIRFLOW__API__WORKERS": "1",
        "AIRFLOW__API_AUTH__JWT_SECRET": "for this test only: " + "x" * 44,
        "AIRFLOW__SCHEDULER__SCHEDULER_HEARTBEAT_SEC": "1",
    }


@pytest.fixture(scope="module")
def backfilled(described, capture_slice, tmp_path_factory):
    """Task states and the configuration, after the backfill and the replay and health runs that its asset events cause."""
    folder = tmp_path_factory.mktemp("scheduled")
    spark = {"engine": "spark"}  # a JVM alone takes longer
    config = capture_slice.write_config(folder, late_after="PT5S", spark=spark)
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    home = described["home"].copy_to(folder / "airflow", config, **settings(port, url))
    windows = capture_slice.windows
    first, last = (datetime.fromtimestamp(w.start_ms / 1000, UTC).isoformat() for w in (windows[0], windows[-1]))
    with home.service("api-server"), home.service("dag-processor"), ExitStack() as later:
        wait_for(home, "DAGs", lambda: len(query(home, "SELECT dag_id FROM serialized_dag")) == 4)
        wait_for(home, "API server", lambda: answers(url))  # a task that cannot reach it is tried again
        later.enter_context(home.service("scheduler", "--skip-serve-logs"))
        span = ["--from-date", first, "--to-date", last, "--max-active-runs", "1"]
        home.run([AIRFLOW, "backfill", "create", "--dag-id", "partition_health_ingest", *span])
        run_count = DAGS_WITH_WINDOWS * len(windows)
        wait_for(home, "end of all runs", lambda: _all_over(query(home, RUNS), run_count))
        states = query(home, TASKS)
        pools = query(home, "SELECT pool, slots FROM slot_pool")
    return {"tasks": states, "pools": dict(pools), "config": load_config(config)}


@pytest.fixture(scope="module")
def ranged(capture_slice, tmp_path_factory):
    """The configuration of one run over both windows, without Airflow, by Sail, and of maintenance after it."""
    path = capture_slice.write_config(tmp_path_factory.mktemp("ranged"))
    command = [sys.executable, "-m", "pipeline", "run", "--config", str(path), "--window", str(capture_slice.span)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == UNHEALTHY, done.stderr[-4000:]
    config = load_config(path)
    maintain.run(config, now_ms=time.time_ns() // 1_000_000)
    return config


def _all_over(runs, count):
    """Whether all runs about windows, and those of maintenance, are there and over."""
    by_its_schedule = [dag_id for dag_id, _, _ in runs if dag_id == "partition_health_maintenance"]
    is_whole = len(runs) == count + len(by_its_schedule) > count
    return is_whole and all(state in {"success", "failed"} for _, _, state in runs)


def test_every_window_is_ingested_replayed_and_scored_once(backfilled, capture_slice):
    keys = [format_instant(window.start_ms) for window in capture_slice.windows]
    work = {"ingest": ["ingest"], "replay": ["replay"], "health": ["score_health", "deliver_alerts"]}
    expected = [(name, task) for name, tasks in work.items() for task in (*tasks, "hand_over")]
    found = sorted(row for row in backfilled["tasks"] if row[2] in {task for _, task in expected})
    assert found == sorted(
        (f"partition_health_{name}", key, task, "success", 1) for key in keys for name, task in expected
    )


def test_the_verdict_on_the_last_window_fails(backfilled, capture_slice):
    verdicts = {key: (state, tries) for _, key, task, state, tries in backfilled["tasks"] if task == "health_verdict"}
    # A health run may find later windows committed already and judge them too, so the earlier ones may fail as well.
    assert verdicts[format_instant(capture_slice.windows[-1].start_ms)] == ("failed", 1)
    assert len(verdicts) == len(capture_slice.windows)


def test_maintenance_runs_by_its_own_schedule(backfilled):
    """Once, as its last instant is over, and once more where the next one passes meanwhile."""
    found = {row[2:] for row in backfilled["tasks"] if row[0] == "partition_health_maintenance"}
    assert found == {("maintain", "success", 1)}


def test_the_scheduler_made_the_pool_of_one_writer(backfilled):
    assert backfilled["pools"]["partition_health_writer"] == 1


def test_window_by_window_gives_the_tables_of_one_ranged_run(backfilled, ranged):
    found = differences(backfilled["config"].warehouse, ranged.warehouse)
    assert found.keys() <= {"gold.alert_outbox"}  # its texts name what ran
    counts = count_rows(ranged.warehouse)
    assert min(counts["silver.record_batches"], counts["gold.hash_verdicts"], counts["gold.scenario_comparison"]) > 0


def test_a_run_that_takes_too_long_is_told_as_late(backfilled, capture_slice):
    mails = [read_mail(p.read_bytes()) for p in backfilled["config"].outbox.glob("*.eml")]
    subjects = [mail["Subject"].strip().removeprefix("[partition health] ") for mail in mails]
    late = {subject for subject in subjects if "is late" in subject}
    keys = [format_instant(window.start_ms) for window in capture_slice.windows]
    assert {f"partition_health_health is late: {key}" for key in keys} <= late
    # a backfill: all its runs were queued at once
    assert not any(told.startswith("partition_health_ingest ") for told in late)


def test_and_the_same_mail(backfilled, ranged):
    names = [sorted(p.name for p in config.outbox.glob("*_K-*.eml")) for config in (backfilled["config"], ranged)]
    assert names[0] == names[1]
    assert len(names[0]) == 1
