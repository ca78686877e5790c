"""The DAG `health`; `health.md` is its page."""

from collections.abc import Sequence
from typing import Any

from airflow.sdk import DAG, PartitionedAssetTimetable, TriggerRule, task

from dags.defaults import JUDGED, REPLAYED, dag_settings, link_reports
from dags.phases import add_step

with DAG(schedule=PartitionedAssetTimetable(assets=REPLAYED), **dag_settings("health")) as dag:

    @task(trigger_rule=TriggerRule.ALL_DONE, pool="default_pool")  # it has a lock of its own
    def deliver_alerts(ti: Any = None) -> list[str]:
        """Sends what is queued, also from earlier runs; needs no Spark."""
        from dags.mail import deliver_queued
        from pipeline.model.window import milliseconds_of

        return deliver_queued(now_ms=milliseconds_of(ti.start_date))

    @task(trigger_rule=TriggerRule.NONE_FAILED, retries=0, pool="default_pool", on_failure_callback=None)
    def health_verdict(judged: Sequence[dict[str, Any]]) -> str:
        """Fails when the health gate of a cluster failed, after the mails left; those mails report its failure."""
        from pipeline.errors import HealthGateError

        found = judged[:]  # to iterate would ask for one more than there is, which is an error line in Airflow's log
        if unhealthy := [one["summary"] for one in found if one["failed"]]:
            raise HealthGateError("\n".join(unhealthy))
        return "\n".join(one["summary"] for one in found)

    does = "Measures and judges a cluster, queues incident mails; says whether the gate failed."
    judged, _ = add_step("score_health", "judge_windows", JUDGED, does, priority=3)
    judged >> deliver_alerts() >> health_verdict(judged)
    link_reports(dag)
