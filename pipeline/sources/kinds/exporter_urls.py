"""Exporters that the run itself scrapes."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING, Literal

from pydantic import Field, field_validator, model_validator

from pipeline.config.section import Duration
from pipeline.sources.metrics.http_access import HttpAccess, check_url
from pipeline.sources.metrics.page_sources import PageFolder

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pipeline.model.finding import Finding
    from pipeline.model.window import TimeWindow
    from pipeline.sources.metrics.metric_readings import MetricReading
    from pipeline.sources.metrics.sample_arrivals import InstanceArrivals
    from pipeline.sources.source import SampleQuestion


class ExporterUrls(PageFolder):
    """Exporters that are scraped by the run itself, once; pages are kept, since counters need a predecessor.

    Attributes:
        producers: URL by client folder.
        brokers: URL by broker id.
        path: Where pages are kept: `<path>/<client or broker id>/<epoch ms>.prom`.
        access: How the URLs are read.
        interval: Distance of two runs.
    """

    rank = 110
    reports_brokers = True

    kind: Literal["exporter_urls"]
    producers: dict[str, str] = Field(default_factory=dict)
    brokers: dict[int, str] = Field(default_factory=dict)
    access: HttpAccess = HttpAccess()
    interval: Duration = timedelta(hours=1)

    @field_validator("producers")
    @classmethod
    def _producer_urls(cls, urls: dict[str, str]) -> dict[str, str]:
        for name, url in urls.items():
            if not name or name.startswith(".") or "/" in name:
                raise ValueError(f"{name!r} names a folder: letters, digits, - and _ serve")
            check_url(url)
        return urls

    @field_validator("brokers")
    @classmethod
    def _broker_urls(cls, urls: dict[int, str]) -> dict[int, str]:
        for url in urls.values():
            check_url(url)
        return urls

    @model_validator(mode="after")
    def _any(self) -> ExporterUrls:
        if not self.producers and not self.brokers:
            raise ValueError("no URL: give producers or brokers")
        both = ", ".join(sorted({*self.producers} & {str(broker_id) for broker_id in self.brokers}))
        if both:
            raise ValueError(f"{both}: a client and a broker would share a folder, it stands there twice")
        return self

    @property
    def urls(self) -> dict[str, str]:
        """URL by folder of pages: clients, then brokers."""
        return self.producers | {str(broker_id): url for broker_id, url in self.brokers.items()}

    def read_samples(self, question: SampleQuestion) -> MetricReading:
        """Scrapes every URL once into its folder, unless the run is about the past, and lists all pages."""
        from pipeline.sources.metrics.scrape import scrape

        problems = () if question.is_recorded else tuple(scrape(self, question))
        found = super().read_samples(question)
        return found.with_problems(question.name, problems)

    def expected_instances(self, arrivals: Sequence[InstanceArrivals], window: TimeWindow) -> set[str]:
        """Every exporter configured."""
        return set(self.urls)

    def count_expected(self, arrivals: Sequence[InstanceArrivals], window: TimeWindow, interval_ms: int) -> int:
        """Once an interval each."""
        return len(self.urls) * max(1, window.duration_ms // interval_ms)

    def probe(self) -> Iterator[Finding]:
        """Reads every page once."""
        from pipeline.sources.metrics.scrape import probe_page

        return (probe_page(url, self.access.quick(), time.sleep) for url in self.urls.values())
