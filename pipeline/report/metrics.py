"""Metrics for Prometheus about the newest judged window, as OpenMetrics and node_exporter read them: to a file, to a Pushgateway."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.resources import files

import yaml
from prometheus_client import CollectorRegistry, push_to_gateway
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.registry import Collector

from pipeline.config.sections import Pushgateway, cluster_slug
from pipeline.errors import DeliveryError, PipelineError
from pipeline.files import replace_file
from pipeline.http_request import EXCHANGE_ERRORS, describe_exchange, exchange_once
from pipeline.model.window import END_OF_TIME_MS
from pipeline.report.answers import ask_newest
from pipeline.runs import RunContext

PREFIX = "partition_health_"


@dataclass(frozen=True, slots=True, kw_only=True)
class GaugeFamily:
    source: str  # what follows FROM
    labels: Mapping[str, str] = field(default_factory=dict)  # expressions by label, beside `cluster`
    metrics: Mapping[str, tuple[str, str]]  # by name without prefix: aggregate over the rows of a label set, meaning
    first: str = "1"  # which label sets come first where there are too many: an aggregate, descending
    limit: str = "1000"  # most label sets; in braces a key of the configuration's section `metrics`

    @property
    def table(self) -> str:
        return self.source.split()[0]

    @property
    def sql(self) -> str:
        selected = [f"{expression} AS {label}" for label, expression in self.labels.items()]
        selected += [f"{expression} AS {name}" for name, (expression, _) in self.metrics.items()]
        grouped = f" GROUP BY {', '.join(self.labels.values())}" if self.labels else ""
        order = ", ".join((f"{self.first} DESC NULLS LAST", *self.labels))
        return f"SELECT {', '.join(selected)} FROM {self.source}{grouped} ORDER BY {order} LIMIT {self.limit}"


FAMILIES = tuple(
    GaugeFamily(**one) for one in yaml.safe_load(files("pipeline.report").joinpath("metrics.yaml").read_text())
)
_JOB = "partition_health"


class WindowMetrics(Collector):
    def __init__(self, run: RunContext) -> None:
        self._run = run

    def collect(self) -> Iterator[GaugeMetricFamily]:
        run, limits = self._run, self._run.config.metrics.model_dump(include={"topics", "partitions"})
        asker = ask_newest(run, END_OF_TIME_MS)
        if asker is None:
            return
        for family in FAMILIES:
            rows = asker.answer(family.table, family.sql, limits).rows
            for name, (_, meaning) in family.metrics.items():
                samples = GaugeMetricFamily(PREFIX + name, meaning, labels=["cluster", *family.labels])
                for row in rows:
                    if row[name] is not None:
                        samples.add_metric([run.cluster_name, *(str(row[label]) for label in family.labels)], row[name])
                yield samples


def publish_metrics(run: RunContext) -> tuple[str, ...]:
    config = run.config.metrics
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
    except (OSError, PipelineError) as error:
        return (f"the metrics could not be published: {error}",)
    return ()


def _push(registry: CollectorRegistry, gateway: Pushgateway, cluster: str) -> None:
    def handler(
        *, url: str, method: str, headers: list[tuple[str, str]], data: bytes, **_: object
    ) -> Callable[[], object]:
        client = gateway.async_client()
        request = client.build_request(method, url, headers=dict(headers), content=data)
        return exchange_once(client, request, most_bytes=0)[0].raise_for_status  # its words are not told

    try:
        push_to_gateway(gateway.url, _JOB, registry, grouping_key={"cluster": cluster}, handler=handler)
    except EXCHANGE_ERRORS as error:
        raise DeliveryError(f"{gateway.url}: {describe_exchange(error, gateway.hide)}") from None
