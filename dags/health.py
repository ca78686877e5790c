"""Health: measures each broker's share, judges it, opens and closes incidents, sends their mails.

**When it runs.** For every window `replay` is done with (same partition key), and it also takes up earlier committed
windows never judged before, the newest half day of them, so events lost while it was paused do no harm. A window is judged
once: again only after a new ingest of it, its replay, or a changed configuration. A range of windows in one run:
`airflow dags trigger partition_health_health --conf '{"window": "2026-11-21T09:00:00Z/PT6H"}'`.

**Triage**

| what failed | what it means | what to do |
|---|---|---|
| `health_verdict` alone | a broker carries more than its share: the mail says which, since when, why and by which topics | it is the cluster that needs care, not this DAG; `SELECT * FROM gold.broker_share ORDER BY share_ratio DESC` |
| `deliver_alerts` | the mail server refused; messages stay in `gold.alert_outbox` and go out with the next try or run | check the connection `smtp_default` or `mail.smtp` of the configuration |
| `score_health`: `DataGateError` | measures, verdicts or incidents do not follow from the traffic; incidents were queued before, do not trust them | the rows in the log; GATES.md says what each check compares |
| `score_health`: `GateBrokenError` | a check itself raised; nothing is known about the cluster | the suite named in the log and the table's columns |
| `score_health`: other | infrastructure: retried five times within half an hour | Spark's error is in the log; clear the task to rerun |

Order: incidents are queued in `score_health`, delivered in `deliver_alerts`, and only then `health_verdict` fails.
"""

from collections.abc import Sequence
from typing import Any

from airflow.sdk import DAG, PartitionedAssetTimetable, TriggerRule, task

from dags.defaults import JUDGED, REPLAYED, dag_settings, each_cluster, link_reports, turns
from dags.phases import show_phases
from pipeline.config_file import load_usable

_CONFIG = load_usable()

with DAG(schedule=PartitionedAssetTimetable(assets=REPLAYED), **dag_settings("health", __doc__)) as dag:

    @task(**each_cluster(_CONFIG, 3))  # type: ignore[untyped-decorator]  # whatever settings there are
    def score_health(turn: int, dag_run: Any = None, ti: Any = None, params: Any = None) -> dict[str, Any]:
        """Measures and judges a cluster, queues incident mails; says whether the gate failed."""
        from dags.runs import take_step

        report = take_step("judge_windows", turn, dag_run, ti, params)
        return {"failed": not report.is_healthy, "summary": "\n  ".join((report.verdict, *report.notes))}

    @task(outlets=[JUDGED], priority_weight=4)
    def hand_over(dag_run: Any = None, ti: Any = None, params: Any = None, outlet_events: Any = None) -> None:
        """Passes the verdicts on to others' DAGs, mails the failures; skipped where all failed."""
        from dags.runs import hand_over_clusters

        outlet_events[JUDGED].extra = hand_over_clusters("score_health", dag_run, ti, params)

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

    judged = score_health.expand(turn=turns(_CONFIG))
    show_phases(judged, "judge_windows")
    judged >> deliver_alerts() >> health_verdict(judged)
    judged >> hand_over().as_teardown()
    link_reports(dag)
