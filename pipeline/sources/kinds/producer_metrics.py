"""Pages of producers' exporters, kept as files."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal

from pipeline.config.section import Duration
from pipeline.sources.metrics.metric_source import PageFolder


class ProducerMetrics(PageFolder):
    """Exporter pages of producers: `<path>/<client>/<epoch ms>.prom`."""

    rank = 90

    kind: Literal["producer_metrics"]
    interval: Duration = timedelta(seconds=5)
