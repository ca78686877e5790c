"""Which runs are told late, and under whose name runs are. Oracle: Airflow's models of a run, its deadlines and its log."""

import json

from tests.config_files import write_configuration
from tests.dags.scripts import SOURCES, run_under

SCRIPT = """
import json, sys
from dags.defaults import dag_settings
from dags.notifiers import mail_late_run
for state, run_type in json.loads(sys.argv[1]):
    run = {"dag_id": "health", "dag_run_id": "r", "partition_key": f"{run_type} {state}", "queued_at": "q"}
    mail_late_run({"dag_run": run | {"state": state, "run_type": run_type}, "deadline": {"deadline_time": "d"}})
print(dag_settings("health")["default_args"]["owner"])
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
    clusters = {f"c{n}": {"sources": SOURCES, "owner": f"team-of-cluster-number-{n}"} for n in range(20)}
    config = write_configuration(tmp_path, clusters, mail={"to": ["platform@example.org"]})
    done = run_under(config, SCRIPT, json.dumps([*IS_TOLD]))
    mails = "".join(path.read_text() for path in tmp_path.glob("outbox/*.eml"))
    assert {run: f"health is late: {run[1]} {run[0]}" in mails for run in IS_TOLD} == IS_TOLD
    owner = done.stdout.splitlines()[-1]
    assert owner.startswith("team-of-cluster-number-0, team-of-cluster-number-1, ")
    assert len(owner) == 200
