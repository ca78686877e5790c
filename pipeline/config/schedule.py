"""From the configured window and grace time to a cron schedule whose partition keys are window starts."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from pipeline.config.pipeline_config import PipelineConfig
from pipeline.errors import ConfigError

_MINUTE, _HOUR, _DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Schedule:
    cron: str  # ticks, in UTC, one per window
    run_offset: int  # ticks from the run back to the tick that names its window
    key_format: str  # turns that tick into the partition key, the window's start


def plan_schedule(window: timedelta, grace: timedelta) -> Schedule:
    """A run per window, `grace` after its end, rounded up to whole windows where these are shorter than an hour; else `ConfigError`.

    >>> plan_schedule(timedelta(hours=1), timedelta(minutes=5))
    Schedule(cron='5 * * * *', run_offset=-1, key_format='%Y-%m-%dT%H:00:00Z')
    >>> plan_schedule(timedelta(minutes=15), timedelta(minutes=5))
    Schedule(cron='*/15 * * * *', run_offset=-2, key_format='%Y-%m-%dT%H:%M:00Z')
    """
    if not window % _MINUTE and not _HOUR % window and window < _HOUR:
        minutes = window // _MINUTE
        late = -(-grace // window)
        return Schedule("* * * * *" if minutes == 1 else f"*/{minutes} * * * *", -1 - late, "%Y-%m-%dT%H:%M:00Z")
    if not window % _HOUR and not _DAY % window:
        hours = window // _HOUR
        late, rest = divmod(grace, window)
        minute = -(-rest // _MINUTE)
        if minute >= 60:
            late, minute = late + 1, 0
        hour = {1: "*", 24: "0"}.get(hours, f"*/{hours}")
        return Schedule(f"{minute} {hour} * * *", -1 - late, "%Y-%m-%dT%H:00:00Z")
    raise ConfigError(
        f"window: Airflow cannot schedule windows of {window.total_seconds():g} s: "
        "they have to be whole minutes that divide an hour, or whole hours that divide a day"
    )


def schedule_end_date(config: PipelineConfig) -> datetime | None:
    """When scheduling ends: for recordings, which are backfilled, after their last window; None where a cluster is live."""
    ends = [cluster.as_of for cluster in config.clusters.values()]
    return None if None in ends or config.unusable else max(filter(None, ends)) + config.window + config.grace
