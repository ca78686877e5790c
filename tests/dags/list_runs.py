"""The first runs Airflow would schedule for a window and a grace time, and those a backfill would make."""

from datetime import UTC, datetime, timedelta

from airflow.timetables.base import TimeRestriction
from airflow.timetables.trigger import CronPartitionTimetable
from pendulum import instance

from pipeline.config.sections import plan_schedule
from pipeline.model.window import parse_duration

START = datetime(2026, 11, 21, tzinfo=UTC)


def list_runs(window: str, grace: str) -> dict[str, object]:
    schedule = plan_schedule(parse_duration(window), parse_duration(grace))
    timetable = CronPartitionTimetable(
        schedule.cron, timezone="UTC", run_offset=schedule.run_offset, key_format=schedule.key_format
    )
    runs, last = [], None
    for _ in range(3):
        last = timetable.next_dagrun_info_v2(
            last_dagrun_info=last, restriction=TimeRestriction(earliest=instance(START), latest=None, catchup=True)
        )
        runs.append([last.run_after.isoformat(), last.partition_key])
    latest = START + 3 * parse_duration(window) - timedelta(seconds=1)
    backfill = timetable.iter_partition_dagrun_infos(earliest=instance(START), latest=instance(latest))
    return {"runs": runs, "backfill": [info.partition_key for info in backfill]}
