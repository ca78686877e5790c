"""Configuration of metric sources: where producer and broker metrics come from, and how they are asked for.

Secrets never stand in the file: it names environment variables. What a scraper must not do unasked (follow a redirect to
another host, take any amount of bytes) is off unless allowed here.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from pipeline.config.section import Duration, Section
from pipeline.environment import environment_secret

METRIC_KINDS = (
    "producer_metrics",
    "broker_metrics",
    "exporter_urls",
    "prometheus",
    "librdkafka_statistics",
    "perf_test_output",
)
"""In order of precedence where two sources tell of the same client: the nearest to the client first."""


class BasicAuth(Section):
    """`basic_auth` of Prometheus' own configuration, with the password in an environment variable."""

    username: str
    password_variable: str


class TlsConfig(Section):
    """`tls_config` of Prometheus' own configuration: files of the authority, of a client certificate, of its key."""

    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    insecure_skip_verify: bool = False


class HttpAccess(Section):
    """How a URL is read.

    Attributes:
        basic_auth: User, and the variable that holds the password.
        bearer_token_variable: The variable that holds a token for `Authorization: Bearer`.
        tls_config: For `https`.
        timeout_s: For each answer, from asking to its last byte.
        max_bytes: Most bytes of an answer, after decompression.
        attempts: How often an answer of 429 or 5xx, or none, is asked for again, the first time included.
        redirects_to: Hosts (`host` or `host:port`) a redirect may lead to beside the one asked.
    """

    basic_auth: BasicAuth | None = None
    bearer_token_variable: str | None = None
    tls_config: TlsConfig = TlsConfig()
    timeout_s: float = Field(30, gt=0)
    max_bytes: int = Field(256 << 20, gt=0)
    attempts: int = Field(4, ge=1, le=10)
    redirects_to: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _one_identity(self) -> HttpAccess:
        if self.basic_auth and self.bearer_token_variable:
            raise ValueError("basic_auth and bearer_token_variable: a request carries one of them")
        return self

    def with_files_under(self, base: Path) -> HttpAccess:
        """The same with relative file names taken from a folder."""
        names = ("ca_file", "cert_file", "key_file")
        found = {name: getattr(self.tls_config, name) for name in names}
        paths = {name: base / path.expanduser() for name, path in found.items() if path is not None}
        return self.model_copy(update={"tls_config": self.tls_config.model_copy(update=paths)})

    @property
    def password(self) -> str | None:
        """The secret of `basic_auth`, read when it is used.

        Raises:
            ConfigError: if the variable is not set.
        """
        return None if self.basic_auth is None else environment_secret(self.basic_auth.password_variable)

    @property
    def bearer_token(self) -> str | None:
        """The token, read when it is used.

        Raises:
            ConfigError: if the variable is named but not set.
        """
        return environment_secret(self.bearer_token_variable)


class Prometheus(Section):
    """A Prometheus server (or anything with its HTTP API) that scrapes brokers and producers.

    Attributes:
        url: Base address; `/api/v1/query_range` is appended.
        access: How it is read.
        step: Distance of the points asked for; the scrape interval is the best choice.
        queries: PromQL by canonical metric name: replaces (or with "" drops) the query generated for it.
        selector: Label matchers put into every generated query, such as `cluster="prod"`.
        instance_label: Label that tells producers and brokers apart.
        brokers: Broker id by instance; unneeded where the instance is the number or `broker_label` is there.
        broker_label: Label that holds the broker id.
    """

    kind: Literal["prometheus"]
    url: str
    access: HttpAccess = HttpAccess()
    step: Duration = timedelta(seconds=30)
    queries: dict[str, str] = Field(default_factory=dict)
    selector: str = ""
    instance_label: str = "instance"
    brokers: dict[str, int] = Field(default_factory=dict)
    broker_label: str = "broker_id"

    @field_validator("url")
    @classmethod
    def _plain_url(cls, url: str) -> str:
        return check_url(url)

    @property
    def interval(self) -> timedelta:
        """Distance of two scrapes of an instance."""
        return self.step


class ExporterUrls(Section):
    """Exporters that are scraped by the run itself, once; pages are kept, since counters need a predecessor.

    Attributes:
        producers: URL by client folder.
        brokers: URL by broker id.
        path: Where pages are kept: `<path>/<client or broker id>/<epoch ms>.prom`.
        access: How the URLs are read.
        interval: Distance of two runs.
    """

    kind: Literal["exporter_urls"]
    producers: dict[str, str] = Field(default_factory=dict)
    brokers: dict[int, str] = Field(default_factory=dict)
    path: Path
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
        both = {*self.producers} & {str(broker_id) for broker_id in self.brokers}
        if both:
            raise ValueError(
                f"{', '.join(sorted(both))}: a client and a broker would share a folder, it stands there twice"
            )
        return self


class PerfTestOutput(Section):
    """What `kafka-producer-perf-test` printed, best with `--print-metrics`: files, or folders of `*.out` and `*.txt`."""

    kind: Literal["perf_test_output"]
    paths: tuple[Path, ...] = Field(min_length=1)


class LibrdkafkaStatistics(Section):
    """Statistics of librdkafka, one JSON object a line: files, or folders with `*.json` and `*.jsonl` at any depth."""

    kind: Literal["librdkafka_statistics"]
    paths: tuple[Path, ...] = Field(min_length=1)
    interval: Duration = timedelta(seconds=5)


def check_url(url: str) -> str:
    """A URL of `http` or `https` with a host and without a password.

    Raises:
        ValueError: saying what is wrong with it, without repeating a password.
    """
    parts = urlsplit(url)
    if parts.username or parts.password:
        raise ValueError(f"the URL of {parts.hostname} holds a user or password: use access.basic_auth")
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError(f"{url!r} is no URL of http or https")
    return url
