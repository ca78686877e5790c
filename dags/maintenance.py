"""Maintenance, once a day: compacts closed dates, removes files no table version within the retention refers to.

With `mail.daily` it also sends one mail about all clusters: which are healthy, which have incidents, which were not judged.

**Triage.** Nothing depends on it: tables stay correct without it, they only grow and slow down. A failure is
infrastructure (a disk, another writer); clear the task to rerun. Vacuum keeps a week, so that readers and time travel
within it are safe.
"""

from typing import Any

from airflow.sdk import DAG, task

from dags.defaults import dag_settings
from pipeline.config_file import load_usable

with DAG(schedule="30 2 * * *", **dag_settings("maintenance", __doc__, of_windows=False)) as dag:

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
