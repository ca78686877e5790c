"""Replay: recorded keys through the current strategy and every candidate, and which hash placed them.

**When it runs.** For every window `ingest` has committed (same partition key), and it then takes up earlier committed
windows never replayed before, newest first, half a day of them each time. A range of windows in one run:
`airflow dags trigger partition_health_replay --conf '{"window": "2026-11-21T09:00:00Z/PT6H"}'`.

**Triage**

| what failed | what it means | what to do |
|---|---|---|
| `DataGateError` | a candidate does not hold as many records as were recorded, or is missing; the rows are there, do not trust them | read the rows in the log; `SELECT * FROM gold.scenario_comparison` |
| `ConfigError` | a candidate's strategy is not known, does not look at keys, or was not asked when the keys were read | the message names the candidate and what to do |
| anything else | infrastructure: retried five times within half an hour | Spark's error is in the log; clear the task to rerun, a rerun replaces the window |

Health does not wait for a what-if that failed: `hand_over` lets it go on either way.
"""

from typing import Any

from airflow.sdk import DAG, PartitionedAssetTimetable, task

from dags.defaults import INGESTED, REPLAYED, dag_settings, each_cluster, link_reports, turns
from dags.phases import show_phases
from pipeline.config_file import load_usable

_CONFIG = load_usable()

with DAG(schedule=PartitionedAssetTimetable(assets=INGESTED), **dag_settings("replay", __doc__)) as dag:

    @task(**each_cluster(_CONFIG, 2))  # type: ignore[untyped-decorator]  # whatever settings there are
    def replay(turn: int, dag_run: Any = None, ti: Any = None, params: Any = None) -> list[str]:
        """Replays a cluster's windows, judges what came out."""
        from dags.runs import describe_report, take_step

        return describe_report(take_step("replay_windows", turn, dag_run, ti, params))

    @task(outlets=[REPLAYED], priority_weight=4)
    def hand_over(dag_run: Any = None, ti: Any = None, params: Any = None, outlet_events: Any = None) -> None:
        """Passes the window on to `health`; the event lacks clusters whose replay failed."""
        from dags.runs import hand_over_clusters

        outlet_events[REPLAYED].extra = hand_over_clusters("replay", dag_run, ti, params, needs_one=False)

    replayed = replay.expand(turn=turns(_CONFIG))
    show_phases(replayed, "replay_windows")
    replayed >> hand_over().as_teardown()
    link_reports(dag)
