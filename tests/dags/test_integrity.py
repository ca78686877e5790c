"""Policy over all DAGs, present and future; oracle: the tables below and docs/ARCHITECTURE.md, "What runs"."""

import json
from itertools import pairwise
from pathlib import Path

import pytest

PHASES = {
    "ingest": ("sources", "bronze_and_silver", "gate"),
    "replay": ("keys", "sessions", "candidates", "gate"),
    "score_health": ("measures", "advice", "verdicts", "report", "gate"),
}


def phases_of(work):
    """The boxes of a task's phases, as they hang together."""
    phases = PHASES[work]
    failed = {f"{phase}.failed": [f"{phase}.passed"] for phase in phases}
    passed = {f"{phase}.passed": [f"{after}.passed"] for phase, after in pairwise(phases)}
    return failed | passed | {f"{phases[-1]}.passed": []}


def ahead(work, *others):
    """What comes after a task that has phases."""
    return sorted([*others, *(f"{phase}.failed" for phase in PHASES[work])])


GRAPH = {
    "partition_health_ingest": {"ingest": ahead("ingest", "hand_over"), "hand_over": ["take_up"], "take_up": []}
    | phases_of("ingest"),
    "partition_health_replay": {"replay": ahead("replay", "hand_over"), "hand_over": []} | phases_of("replay"),
    "partition_health_health": {
        "score_health": ahead("score_health", "deliver_alerts", "hand_over", "health_verdict"),
        "hand_over": [],
        "deliver_alerts": ["health_verdict"],
        "health_verdict": [],
    }
    | phases_of("score_health"),
    "partition_health_maintenance": {"maintain": []},
}
TELLS_BY_ITSELF = {("partition_health_health", "health_verdict")}  # the incident's mail has left before it fails

RETRIED = [
    *("DeliveryError", "MemoryError", "PipelineError", "SourceUnreachableError", "SparkFailedError"),
    *("StorageConflictError", "StorageError", "SystemFailedError", "UnusableServerError"),
]
"""Others come of data, of the configuration or of our own faults: a retry does not help."""


def tasks(described):
    """All but the boxes of phases, which do no work."""
    return [
        (dag_id, name, task)
        for dag_id, dag in described["dags"].items()
        for name, task in dag["tasks"].items()
        if "." not in name
    ]


def test_what_is_no_dag_file_is_not_read_as_one():
    folder = Path(__file__).parents[2] / "dags"
    ignored = (folder / ".airflowignore").read_text().splitlines()
    files = [path for path in folder.glob("*.py") if path.name not in ignored]
    assert sorted(path.name for path in files if "DAG(" not in path.read_text()) == []
    assert len(files) == len(GRAPH)


def test_dag_files_load(described):
    assert described["errors"] == {}


def test_graph(described):
    found = {
        dag_id: {name: task["downstream"] for name, task in dag["tasks"].items()}
        for dag_id, dag in described["dags"].items()
    }
    assert found == GRAPH


def test_loading_them_loads_nothing_heavy(described):
    assert described["heavy"] == []


def test_every_dag_is_tagged_documented_and_runs_once_at_a_time(described):
    for dag_id, dag in described["dags"].items():
        assert dag["tags"] == ["partition-health"], dag_id
        assert "Triage" in dag["doc"], dag_id
        assert (dag["catchup"], dag["max_active_runs"]) == (False, 1), dag_id


def test_every_task_has_the_clusters_owner_a_time_limit_and_retries_that_outlast_a_slow_start(described):
    for dag_id, name, task in tasks(described):
        assert task["owner"] == "kafka-team", (dag_id, name)
        assert 0 < task["timeout_s"] <= 4 * 3600, (dag_id, name)
        assert sorted(task["retried"]) == RETRIED, (dag_id, name)
        if (dag_id, name) not in TELLS_BY_ITSELF:
            waits_s = [task["retry_delay_s"] * task["backoff"] ** n for n in range(task["retries"])]
            assert 20 * 60 < sum(min(wait_s, task["max_retry_delay_s"]) for wait_s in waits_s) < 3600, (dag_id, name)


def test_every_failure_is_told_once(described):
    silent = {(dag_id, name) for dag_id, name, task in tasks(described) if task["notifiers"] != ["FailureMail"]}
    assert silent == TELLS_BY_ITSELF
    assert described["dags"]["partition_health_health"]["tasks"]["health_verdict"]["retries"] == 0


def test_every_run_about_windows_has_a_deadline(described):
    late = [["DagRunQueuedAtDeadline", 3600.0, "dags.notifiers.mail_late_run"]]
    assert {dag_id: dag["deadlines"] for dag_id, dag in described["dags"].items()} == {
        "partition_health_ingest": late,
        "partition_health_replay": late,
        "partition_health_health": late,
        "partition_health_maintenance": [],
    }


def test_tasks_that_write_tables_wait_for_each_other_and_mails_for_none_of_them(described):
    """Delivery needs no Spark, and has a lock of its own: of one slot a mail would wait for the next window, or for maintenance."""
    pools = {(dag_id, name): task["pool"] for dag_id, name, task in tasks(described)}
    others = {key for key, pool in pools.items() if pool != "partition_health_writer"}
    assert others == {("partition_health_health", task) for task in ("deliver_alerts", "health_verdict")}


def test_of_those_that_wait_for_a_slot_lost_windows_come_last(described):
    """Else the newest window is not replayed, judged or mailed before a day of lost ones is ingested."""
    writers = [(name, task) for _, name, task in tasks(described) if task["pool"] == "partition_health_writer"]
    waiting = {(name, *task["priority"]) for name, task in writers}
    assert {rule for _, rule, _ in waiting} == {"absolute"}
    priorities = {"hand_over": 4, "score_health": 3, "replay": 2, "ingest": 1, "maintain": 1, "take_up": 0}
    assert {name: priority for name, _, priority in waiting} == priorities
    assert described["dags"]["partition_health_ingest"]["tasks"]["take_up"]["trigger_rule"] == "all_done"


def test_health_goes_on_when_the_replay_failed(described):
    rule = "all_done_setup_success"  # there is no setup: when all are done
    for dag in described["dags"].values():
        assert {task["trigger_rule"] for name, task in dag["tasks"].items() if name == "hand_over"} <= {rule}


def test_mail_leaves_also_when_scoring_failed_and_the_verdict_comes_last(described):
    rules = {name: task["trigger_rule"] for name, task in described["dags"]["partition_health_health"]["tasks"].items()}
    del rules["hand_over"]
    rules = {name: rule for name, rule in rules.items() if "." not in name}
    assert rules == {"score_health": "all_success", "deliver_alerts": "all_done", "health_verdict": "none_failed"}


def test_ingest_replay_and_health_are_joined_by_partitioned_assets(described):
    waited_for = []
    for name, asset in (("ingest", "ingested"), ("replay", "replayed"), ("health", "judged")):
        dag = described["dags"][f"partition_health_{name}"]
        assert dag["schedule"] == ("PartitionedAssetTimetable" if waited_for else "CronPartitionTimetable")
        assert dag["assets"] == waited_for
        assert dag["params"].keys() == {"cluster", "notify", "window"}
        waited_for = [f"partition_health_{asset}"]
        assert dag["tasks"]["hand_over"]["outlets"] == waited_for


def test_every_task_about_windows_leads_to_its_report(described):
    others = [(dag_id, name) for dag_id, name, task in tasks(described) if task["links"] != ["Report"]]
    assert others == [("partition_health_maintenance", "maintain")]


def test_boxes_of_phases_hold_no_writer_try_once_and_tell_nobody(described):
    """The scheduler skips `failed` and marks `passed` itself while all goes well; the step's own task mails its failure."""
    boxes = [task for dag in described["dags"].values() for name, task in dag["tasks"].items() if "." in name]
    failed = {(task["pool"], task["retries"]) for task in boxes if task["trigger_rule"] == "one_failed"}
    assert failed == {("default_pool", 0)}
    assert {task["trigger_rule"] for task in boxes} == {"one_failed", "none_failed"}
    assert [task["notifiers"] for task in boxes] == [[]] * 2 * sum(map(len, PHASES.values()))


def test_a_live_cluster_is_scheduled_without_end(described):
    assert described["dags"]["partition_health_ingest"]["end_date"] == "None"


@pytest.mark.parametrize("error", ["DataGateError", "ConfigError", "NothingUsableError", "GateBrokenError"])
def test_triage_notes_name_the_error(described, error):
    assert error in json.dumps([dag["doc"] for dag in described["dags"].values()])


def test_parameters_have_an_end(described):
    """They stand in logs and in the mail about a failure."""
    for dag in described["dags"].values():
        assert dag["params"] in ({}, {"window": 200, "cluster": 200, "notify": None})
