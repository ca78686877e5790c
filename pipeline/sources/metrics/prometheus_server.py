"""The settings of a Prometheus server."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from pydantic import AfterValidator, Field

from pipeline.config.section import Duration, Section
from pipeline.model.window import milliseconds_of
from pipeline.sources.metrics.http_access import HttpAccess, check_url


class PrometheusServer(Section):
    """How a Prometheus server is asked; the kind `prometheus` says what each key means."""

    url: Annotated[str, AfterValidator(check_url)]
    access: HttpAccess = HttpAccess()
    step: Duration = timedelta(seconds=30)
    queries: dict[str, str] = Field(default_factory=dict)
    selector: str = ""
    instance_label: str = "instance"
    brokers: dict[str, int] = Field(default_factory=dict)
    broker_label: str = "broker_id"

    @property
    def interval_ms(self) -> int:
        """Distance of two points."""
        return milliseconds_of(self.step)
