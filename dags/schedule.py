"""From the configured window and grace time to a cron schedule whose partition keys are window starts."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pipeline.errors import ConfigError
from pipeline.model.window import DAY_MS, HOUR_MS, MINUTE_MS, parse_instant_ms

if TYPE_CHECKING:
    from pipeline.config.pipeline_config import PipelineConfig


@dataclass(frozen=True, slots=True)
class Schedule:
    """When `ingest` fires, and which window a run is about.

    Attributes:
        cron: Ticks, in UTC, one per window.
        run_offset: Ticks from the run back to the tick that names its window.
        key_format: Turns that tick into the partition key, the window's start.
    """

    cron: str
    run_offset: int
    key_format: str


def plan_schedule(window_ms: int, grace_ms: int) -> Schedule:
    """A run per window, `grace_ms` after the window's end (rounded up where cron cannot say it).

    Windows of whole hours fire at the minute of the grace time, and the key drops that minute. Shorter windows fire on
    their own boundaries, so the grace time is rounded up to whole windows.

    Args:
        window_ms: Length of a window: whole minutes that divide an hour, or whole hours that divide a day.
        grace_ms: How long to wait after a window's end.

    Raises:
        ConfigError: where no cron expression fires once per window.

    >>> plan_schedule(HOUR_MS, 5 * MINUTE_MS)
    Schedule(cron='5 * * * *', run_offset=-1, key_format='%Y-%m-%dT%H:00:00Z')
    >>> plan_schedule(15 * MINUTE_MS, 5 * MINUTE_MS)
    Schedule(cron='*/15 * * * *', run_offset=-2, key_format='%Y-%m-%dT%H:%M:00Z')
    """
    if window_ms % MINUTE_MS == 0 and HOUR_MS % window_ms == 0 and window_ms < HOUR_MS:
        minutes = window_ms // MINUTE_MS
        late_windows = -(-grace_ms // window_ms)
        return Schedule(
            "* * * * *" if minutes == 1 else f"*/{minutes} * * * *", -1 - late_windows, "%Y-%m-%dT%H:%M:00Z"
        )
    if window_ms % HOUR_MS == 0 and DAY_MS % window_ms == 0:
        hours = window_ms // HOUR_MS
        late_windows, rest_ms = divmod(grace_ms, window_ms)
        minute = -(-rest_ms // MINUTE_MS)
        if minute >= HOUR_MS // MINUTE_MS:
            late_windows, minute = late_windows + 1, 0
        hour = {1: "*", 24: "0"}.get(hours, f"*/{hours}")
        return Schedule(f"{minute} {hour} * * *", -1 - late_windows, "%Y-%m-%dT%H:00:00Z")
    raise ConfigError(
        f"a window of {window_ms / 1000:g} s cannot be scheduled: "
        "it has to be whole minutes that divide an hour, or whole hours that divide a day"
    )


def last_tick(config: PipelineConfig) -> datetime | None:
    """When scheduling ends: for recordings, after their last window; None where a cluster is live.

    Windows of a recording are backfilled; runs of today's windows would find nothing but old data.
    """
    ends = [cluster.as_of for cluster in config.clusters.values()]
    if None in ends:
        return None
    newest_ms = max(parse_instant_ms(end) for end in ends if end is not None)
    return datetime.fromtimestamp((newest_ms + config.window_ms + config.grace_ms) / 1000, UTC)
