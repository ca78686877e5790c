"""Replay: recorded keys through the strategy in use and every candidate, and which hash placed them.

**When it runs.** For every window `ingest` has committed (same partition key), and it also takes up earlier committed
windows never replayed before. A range of windows in one run:
`airflow dags trigger replay --conf '{"window": "2026-11-21T09:00:00Z/PT6H"}'`.

**Triage**

| what failed | what it means | what to do |
|---|---|---|
| `DataGateError` | a candidate does not hold as many records as were recorded, or is missing; the rows are there, do not trust them | read the rows in the log; `SELECT * FROM gold.scenario_comparison` |
| `ConfigError` | a candidate's strategy is not known, does not look at keys, or was not asked when the keys were read | the message names the candidate and what to do |
| anything else | infrastructure: retried five times within half an hour | Spark's error is in the log; clear the task to rerun, a rerun replaces the window |

Health does not wait for a what-if that failed: `hand_over` lets it go on either way.
"""

from __future__ import annotations

from typing import Any

from airflow.sdk import DAG, PartitionedAssetTimetable, TriggerRule, task

from dags.defaults import INGESTED, REPLAYED, dag_settings, link_reports

with DAG(
    dag_id="replay",
    schedule=PartitionedAssetTimetable(assets=INGESTED),
    doc_md=__doc__,
    **dag_settings(),
) as dag:

    @task
    def replay(dag_run: Any = None, ti: Any = None, params: Any = None) -> list[str]:
        """Replays, judges what came out."""
        from dags.runs import describe_event, describe_reports, take_step

        reports = take_step("replay_windows", dag_run, ti, params)
        ti.xcom_push(key="event", value=describe_event(reports))
        return describe_reports(reports)

    @task(outlets=[REPLAYED], trigger_rule=TriggerRule.ALL_DONE)
    def hand_over(ti: Any = None, outlet_events: Any = None) -> None:
        """Tells `health` that the window's replay is over; the event is empty where it failed."""
        outlet_events[REPLAYED].extra = ti.xcom_pull(task_ids="replay", key="event") or {}

    replay() >> hand_over()
    link_reports(dag)
