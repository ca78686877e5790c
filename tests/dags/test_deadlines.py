"""Which runs are told late, and under whose name runs are. Oracle: Airflow's models of a run, its deadlines and its log."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SCRIPT = """
import json, sys
from dags.defaults import dag_settings
from dags.notifiers import mail_late_run
for state, run_type in json.loads(sys.argv[1]):
    run = {"dag_id": "health", "dag_run_id": "r", "partition_key": f"{run_type} {state}", "queued_at": "q"}
    mail_late_run({"dag_run": run | {"state": state, "run_type": run_type}, "deadline": {"deadline_time": "d"}})
print(dag_settings("health", "")["default_args"]["owner"])
"""
IS_TOLD = {
    ("queued", "asset_triggered"): True,
    ("running", "scheduled"): True,
    ("failed", "asset_triggered"): False,  # its mail has left; Airflow prunes deadlines of successes only
    ("success", "scheduled"): False,
    ("queued", "backfill"): False,  # all are queued at once
}


def test_runs_that_are_not_over_are_told_late_and_owners_fit_into_airflows_log(tmp_path):
    """The log's column has 500 characters; Postgres refuses more in the transaction that starts a task."""
    sources = [{"kind": "log_directories", "paths": ["logs"]}]
    clusters = {f"c{n}": {"sources": sources, "owner": f"team-of-cluster-number-{n}"} for n in range(20)}
    path, mail = tmp_path / "own.yaml", {"to": ["platform@example.org"]}
    path.write_text(json.dumps({"warehouse": "w", "outbox": "o", "mail": mail, "clusters": clusters}))
    own = {"AIRFLOW_HOME": str(tmp_path), "PARTITION_HEALTH_CONFIG": str(path)}
    command = [sys.executable, "-c", SCRIPT, json.dumps([*IS_TOLD])]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, **own}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    mails = "".join(path.read_text() for path in tmp_path.glob("o/*.eml"))
    assert {run: f"health is late: {run[1]} {run[0]}" in mails for run in IS_TOLD} == IS_TOLD
    owner = done.stdout.splitlines()[-1]
    assert owner.startswith("team-of-cluster-number-0, team-of-cluster-number-1, ")
    assert len(owner) == 200
