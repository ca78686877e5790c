"""A Prometheus server."""

import time
from collections.abc import Iterator
from typing import Any, Literal

from pipeline.config.http_access import PrometheusServer
from pipeline.errors import ConfigError, InputError
from pipeline.sources.metrics.metric_source import MetricReading, MetricSource, SampleQuestion
from pipeline.sources.questions import Finding


class Prometheus(PrometheusServer, MetricSource):
    """A Prometheus server (or anything with its HTTP API) that scrapes brokers and producers.

    Attributes:
        url: Base address; `/api/v1/query_range` is appended.
        step: Time between two points; the scrape interval is the best choice.
        queries: PromQL by canonical metric name: replaces (or with "" drops) the query generated for it.
        selector: Label matchers put into every generated query, such as `cluster="prod"`.
        access: How the server is read.
        instance_label: Label that names the scraped target.
        broker_label: Label that names the broker, where series have one.
        brokers: Broker id by instance; unneeded where the instance is the number or `broker_label` is there.
    """

    rank = 120
    reports_brokers = True

    kind: Literal["prometheus"]

    @classmethod
    def of_location(cls, location: str) -> dict[str, Any] | None:
        return {"url": location} if location.startswith(("http://", "https://")) else None

    def read_samples(self, question: SampleQuestion) -> MetricReading:
        from pipeline.sources.metrics.prometheus import read_prometheus

        return read_prometheus(self, question)

    def probe(self) -> Iterator[Finding]:
        from pipeline.sources.metrics.prometheus import probe_prometheus

        try:
            yield from probe_prometheus(self.model_copy(update={"access": self.access.quick()}), pause=time.sleep)
        except (InputError, ConfigError) as error:
            yield Finding(name="", is_ok=False, found=str(error), advice="correct url or access of the source")
