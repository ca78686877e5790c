"""The DAG `maintenance`; `maintenance.md` is its page."""

from typing import Any

from airflow.sdk import DAG, task

from dags.defaults import dag_settings
from pipeline.config_file import load_usable

with DAG(schedule="30 2 * * *", **dag_settings("maintenance", of_windows=False)) as dag:

    @task
    def maintain(ti: Any = None) -> list[str]:
        """Compaction, then vacuum, table by table."""
        from pipeline.jobs import maintain as job
        from pipeline.model.window import milliseconds_of

        return list(job.run(load_usable(), now_ms=milliseconds_of(ti.start_date)).notes)

    @task(pool="default_pool")
    def daily_mail(ti: Any = None) -> list[str]:
        """Queues and sends the mail of the day."""
        from dags.mail import deliver_queued
        from pipeline.jobs import daily_mail as job
        from pipeline.model.window import milliseconds_of

        now_ms = milliseconds_of(ti.start_date)
        return [*job.run(load_usable(), now_ms=now_ms).notes, *deliver_queued(now_ms)]

    maintain()
    if load_usable().mail.daily:
        daily_mail()
