"""The DAG `ingest`; `ingest.md` is its page."""

from typing import Any

from airflow.sdk import DAG, CronPartitionTimetable, TriggerRule, task

from dags.defaults import INGESTED, dag_settings, link_reports, turns
from dags.phases import add_step
from pipeline.config.sections import plan_schedule
from pipeline.config_file import load_usable

_CONFIG = load_usable()
_SCHEDULE = plan_schedule(_CONFIG.window, _CONFIG.grace)

with DAG(
    schedule=CronPartitionTimetable(
        _SCHEDULE.cron, timezone="UTC", run_offset=_SCHEDULE.run_offset, key_format=_SCHEDULE.key_format
    ),
    end_date=_CONFIG.schedule_end,
    **dag_settings("ingest"),
) as dag:

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

    does = "Reads a cluster's sources, writes bronze and silver, judges them, commits the windows."
    _, handed_over = add_step("ingest", "ingest_windows", INGESTED, does)
    handed_over >> take_up.expand(turn=turns(_CONFIG, "take_up"))
    link_reports(dag)
