"""Pages of brokers' exporters, kept as files."""

from datetime import timedelta
from typing import Literal

from pipeline.config.section import Duration
from pipeline.sources.metrics.metric_source import PageFolder


class BrokerMetrics(PageFolder):
    """Exporter pages of brokers: `<path>/<broker id>/<epoch ms>.prom`."""

    rank = 100
    reports_brokers = True

    kind: Literal["broker_metrics"]
    interval: Duration = timedelta(minutes=1)
