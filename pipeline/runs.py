"""What every job is told (which cluster, which windows, what the time is) and what it reports."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pipeline.errors import ConfigError
from pipeline.model.window import TimeWindow, milliseconds_of, spanning

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pipeline.config.pipeline_config import Cluster, PipelineConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """One run over one cluster.

    Attributes:
        config: The whole configuration.
        cluster_name: Which cluster of it.
        windows: Windows the run is about, ascending.
        run_id: Identity of the run, written into every row.
        now_ms: The clock.
        force: Replace stored windows even where the source now covers less.
        notify: Tell people of incidents, or store them only; None tells those of windows that are news.
    """

    config: PipelineConfig
    cluster_name: str
    windows: tuple[TimeWindow, ...]
    run_id: str
    now_ms: int
    force: bool = False
    notify: bool | None = None

    @property
    def cluster(self) -> Cluster:
        """The cluster's part of the configuration."""
        return self.config.clusters[self.cluster_name]

    @property
    def warehouse(self) -> Path:
        """Root of the tables."""
        return self.config.warehouse

    @property
    def window_ms(self) -> int:
        """Length of a window, milliseconds."""
        return milliseconds_of(self.config.window)

    @property
    def span(self) -> TimeWindow:
        """From the first window's start to the last one's end."""
        return spanning(self.windows)

    @property
    def as_of_ms(self) -> int:
        """The run's now: the configured end of a recording, else the clock."""
        return self.now_ms if self.cluster.as_of is None else milliseconds_of(self.cluster.as_of)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobReport:
    """What a job did.

    Attributes:
        job: Its name.
        table_versions: Delta version of each table after the job.
        notes: Things a person should know, in sentences.
    """

    job: str
    table_versions: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def plan_runs(
    config: PipelineConfig,
    span: TimeWindow,
    *,
    run_id: str,
    now_ms: int,
    cluster: str | None = None,
    force: bool = False,
    notify: bool | None = None,
) -> tuple[RunContext, ...]:
    """One context per cluster (or for the one named) over the windows of the span.

    Raises:
        ConfigError: if no cluster has that name.
    """
    if cluster is not None and cluster not in config.clusters:
        raise ConfigError(f"no cluster {cluster!r} in the configuration; there are: {', '.join(config.clusters)}")
    names = tuple(config.clusters) if cluster is None else (cluster,)
    windows = tuple(span.split(milliseconds_of(config.window)))
    return tuple(
        RunContext(
            config=config,
            cluster_name=name,
            windows=windows,
            run_id=run_id,
            now_ms=now_ms,
            force=force,
            notify=notify,
        )
        for name in names
    )
