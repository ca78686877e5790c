"""Ingest: what the cluster and its producers say about a window, into bronze and silver, then the data gates.

**When it runs.** Once per window, at the window's end plus the grace time; the partition key is the window's start in
UTC. Windows of the last day that are not trusted (Airflow was down, their runs failed) are ingested by `take_up`, once its own is
handed over, until each was tried six times; a mail says which are given up. Older ones are ingested by
`airflow backfill create --dag-id partition_health_ingest --from-date … --to-date …`. A range of windows in one run:
`airflow dags trigger partition_health_ingest --conf '{"window": "2026-11-21T09:00:00Z/PT6H"}'`; such a run has no partition key, and
`health` takes its windows up with its next runs, half a day of them each.

**Triage**

| what failed | what it means | what to do |
|---|---|---|
| `DataGateError` | input is incomplete, stale or contradicts itself; the window is not trusted, nothing after it runs | read the rows in the log; `SELECT * FROM bronze.window_status` and `bronze.quarantine` name the source and the file |
| `NothingUsableError` | no log directory or cluster state could be read | check the mounts and permissions of the sources: `partition-health doctor` |
| `ConfigError` | the configuration or the parameters are wrong | the message names the key |
| anything else | infrastructure: retried five times within half an hour | Spark's error is in the log; rerun by clearing the task, a rerun replaces the window |

Each cluster is a task of its own, and none waits for another's error: `hand_over` passes those that were ingested to `replay`.
Bad files never stop a run: they are rows of `bronze.quarantine` with file, position and reason.
"""

from typing import Any

from airflow.sdk import DAG, CronPartitionTimetable, TriggerRule, task

from dags.defaults import INGESTED, dag_settings, each_cluster, link_reports, turns
from dags.phases import show_phases
from pipeline.config.schedule import plan_schedule, schedule_end_date
from pipeline.config_file import load_usable

_CONFIG = load_usable()
_SCHEDULE = plan_schedule(_CONFIG.window, _CONFIG.grace)

with DAG(
    schedule=CronPartitionTimetable(
        _SCHEDULE.cron, timezone="UTC", run_offset=_SCHEDULE.run_offset, key_format=_SCHEDULE.key_format
    ),
    end_date=schedule_end_date(_CONFIG),
    **dag_settings("ingest", __doc__),
) as dag:

    @task(**each_cluster(_CONFIG))  # type: ignore[untyped-decorator]  # whatever settings there are
    def ingest(turn: int, dag_run: Any = None, ti: Any = None, params: Any = None) -> list[str]:
        """Reads a cluster's sources, writes bronze and silver, judges them, commits the windows."""
        from dags.runs import describe_report, take_step

        return describe_report(take_step("ingest_windows", turn, dag_run, ti, params))

    @task(outlets=[INGESTED], priority_weight=4)
    def hand_over(dag_run: Any = None, ti: Any = None, params: Any = None, outlet_events: Any = None) -> None:
        """Passes the clusters that are ingested on to `replay`, mails the failures; skipped where all failed."""
        from dags.runs import hand_over_clusters

        outlet_events[INGESTED].extra = hand_over_clusters("ingest", dag_run, ti, params)

    @task(
        trigger_rule=TriggerRule.ALL_DONE,
        priority_weight=0,
        execution_timeout=_CONFIG.late_after,
        map_index_template="{{ cluster }}",
    )
    def take_up(turn: int, dag_run: Any = None, ti: Any = None, params: Any = None) -> None:
        """Ingests a cluster's lost windows while no newer one has to be replayed or judged."""
        from dags.runs import take_up_lost

        take_up_lost("ingest_windows", turn, dag_run, ti, params)

    ingested = ingest.expand(turn=[*range(len(_CONFIG.cluster_names))])  # one that is unusable fails here, and is told
    show_phases(ingested, "ingest_windows")
    ingested >> hand_over().as_teardown() >> take_up.expand(turn=turns(_CONFIG))
    link_reports(dag)
