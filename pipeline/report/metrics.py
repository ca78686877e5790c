"""Metrics for Prometheus about the newest judged window: a file for node_exporter, and a push to a Pushgateway.

The text keeps to what OpenMetrics and the older format share: gauges without timestamps or quotes in their help, so that
node_exporter's textfile collector reads it too.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

import httpx
from prometheus_client import CollectorRegistry, push_to_gateway
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.registry import Collector

from pipeline.alerting.http_request import exchange_once
from pipeline.config.metrics import Pushgateway
from pipeline.config.report import cluster_slug
from pipeline.durable_files import replace_file
from pipeline.errors import PipelineError
from pipeline.model.window import TimeWindow
from pipeline.report.answers import Asker
from pipeline.report.metric_families import FAMILIES, PREFIX
from pipeline.runs import RunContext

_ANSWER_BYTES = 1 << 16
_JOB = "partition_health"
_END_OF_TIME_MS = 4_102_444_800_000  # the year 2100


class WindowMetrics(Collector):
    """Metrics of a cluster's newest judged window; none where no window was judged."""

    def __init__(self, run: RunContext) -> None:
        """Takes the run whose cluster and tables they are about."""
        self._run = run

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Reads the tables and yields a family of samples per metric."""
        run, limits = self._run, self._run.config.metrics.model_dump(include={"topics", "partitions"})
        every = TimeWindow(0, _END_OF_TIME_MS)
        asker = Asker(warehouse=run.warehouse, cluster=run.cluster_name, period=every, window=every)
        start_ms = asker.find_newest()
        if start_ms is None:
            return
        asker = replace(asker, window=run.window_at(start_ms))
        for family in FAMILIES:
            rows = asker.ask(family.table, family.sql, limits).rows
            for name, (_, meaning) in family.metrics.items():
                samples = GaugeMetricFamily(PREFIX + name, meaning, labels=["cluster", *family.labels])
                for row in rows:
                    if row[name] is not None:
                        samples.add_metric([run.cluster_name, *(str(row[label]) for label in family.labels)], row[name])
                yield samples


def publish_metrics(run: RunContext) -> tuple[str, ...]:
    """Writes the file and pushes, as configured; returns a note for each failure, which stops no run."""
    config, notes = run.config.metrics, []
    if config.textfile_folder is None and config.pushgateway is None:
        return ()
    registry = CollectorRegistry(auto_describe=False)
    try:
        registry.register(WindowMetrics(run))
        if config.textfile_folder is not None:
            config.textfile_folder.mkdir(parents=True, exist_ok=True)
            path = config.textfile_folder / f"partition_health_{cluster_slug(run.cluster_name)}.prom"
            replace_file(path, generate_latest(registry), mode=0o644)
        if config.pushgateway is not None:
            _push(registry, config.pushgateway, run.cluster_name)
    except (OSError, PipelineError, httpx.HTTPError) as error:
        notes.append(f"the metrics could not be published: {error}")
    return tuple(notes)


def _push(registry: CollectorRegistry, gateway: Pushgateway, cluster: str) -> None:
    """Replaces the cluster's group."""

    def handler(
        *, url: str, method: str, headers: list[tuple[str, str]], data: bytes, **_: object
    ) -> Callable[[], None]:
        def put() -> None:
            client = gateway.async_client()
            request = client.build_request(method, url, headers=dict(headers), content=data)
            exchange_once(client, request, most_bytes=_ANSWER_BYTES)[0].raise_for_status()

        return put

    push_to_gateway(gateway.url, _JOB, registry, grouping_key={"cluster": cluster}, handler=handler)
