"""HTTP access to servers: identity and certificates, and the limits of a reader of metrics.

Secrets never stand in the file: it names environment variables. What a scraper must not do unasked (follow a redirect to
another host, take any amount of bytes) is off unless allowed here.
"""

from __future__ import annotations

import ipaddress
import ssl
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from pipeline.config.secret_words import hide_secrets
from pipeline.config.section import ConfigPath, Duration, Section, TimeoutSeconds
from pipeline.environment import environment_secret
from pipeline.errors import ConfigError
from pipeline.model.window import milliseconds_of
from pipeline.regular_files import check_regular

if TYPE_CHECKING:
    import httpx

_PROBE_TIMEOUT_S = 5.0


def is_this_machine(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class BasicAuth(Section):
    """`basic_auth` of Prometheus' own configuration.

    Attributes:
        username: Login.
    """

    username: str
    password_variable: str


class TlsConfig(Section):
    """`tls_config` of Prometheus' own configuration.

    Attributes:
        ca_file: PEM file of the authority that signed the server's certificate; the system's by default.
        cert_file: PEM file of a client certificate.
        key_file: PEM file of its key.
        insecure_skip_verify: Accept any certificate.
    """

    ca_file: ConfigPath | None = None
    cert_file: ConfigPath | None = None
    key_file: ConfigPath | None = None
    insecure_skip_verify: bool = False

    def context(self) -> ssl.SSLContext:
        """Makes the TLS context of a client; `ConfigError` where a file cannot be used."""
        try:
            check_regular(self.ca_file, self.cert_file, self.key_file)
            context = ssl.create_default_context(cafile=None if self.ca_file is None else str(self.ca_file))
            if self.cert_file is not None:
                context.load_cert_chain(self.cert_file, self.key_file)
        except (OSError, ssl.SSLError) as error:
            files = ", ".join(str(path) for path in (self.ca_file, self.cert_file, self.key_file) if path is not None)
            raise ConfigError(f"tls_config: {files} cannot be used: {error}") from error
        if self.insecure_skip_verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context


class HttpLogin(Section):
    """Identity towards a server, and how long an answer may take."""

    basic_auth: BasicAuth | None = None
    bearer_token_variable: str | None = None
    tls_config: TlsConfig = TlsConfig()
    timeout_s: TimeoutSeconds = 30

    @model_validator(mode="after")
    def _one_identity(self) -> Self:
        if self.basic_auth and self.bearer_token_variable:
            raise ValueError("basic_auth and bearer_token_variable: a request carries one of them")
        return self

    @property
    def password(self) -> str | None:
        """The secret of `basic_auth`, read when it is used; `ConfigError` where the variable is not set, or no text."""
        if self.basic_auth is None:
            return None
        password = environment_secret(self.basic_auth.password_variable) or ""
        if any("\ud800" <= char <= "\udfff" for char in password):
            raise ConfigError(f"environment variable {self.basic_auth.password_variable} holds no UTF-8")
        return password

    @property
    def bearer_token(self) -> str | None:
        """The token, read when it is used; `ConfigError` where the variable is not set, or no header can carry it."""
        token = environment_secret(self.bearer_token_variable)
        if token is not None and not (token and all("!" <= char <= "~" for char in token)):
            name = self.bearer_token_variable
            raise ConfigError(f"environment variable {name} holds no token: expected one line of visible ASCII")
        return token

    def sends_in_clear(self, url: str) -> bool:
        """Whether who listens between here and the address reads the password or token."""
        parts = urlsplit(url)
        is_secret = bool(self.basic_auth or self.bearer_token_variable)
        return is_secret and parts.scheme == "http" and not is_this_machine(parts.hostname or "")

    def hide(self, words: str) -> str:
        """A server's words without the secrets that were sent to it."""
        user = "" if self.basic_auth is None else self.basic_auth.username
        return hide_secrets(words, self.bearer_token, self.password, user=user)

    def async_client(self) -> httpx.AsyncClient:
        """A client with this identity that follows no redirect; `ConfigError` for a secret not set, a file of no use."""
        import httpx  # noqa: PLC0415 - reading the configuration stays quick

        headers = {"User-Agent": "partition-health", "Accept-Encoding": "gzip, deflate"}
        if self.bearer_token is not None:
            headers["Authorization"] = f"Bearer {self.bearer_token}"
        auth = None if self.basic_auth is None else httpx.BasicAuth(self.basic_auth.username, self.password or "")
        context = self.tls_config.context()
        return httpx.AsyncClient(headers=headers, auth=auth, timeout=self.timeout_s, verify=context, trust_env=False)


class HttpAccess(HttpLogin):
    """How a URL is read.

    Attributes:
        timeout_s: For each answer, from asking to its last byte.
        max_bytes: Most bytes of an answer, after decompression.
        attempts: How often an answer of 429 or 5xx, or none, is asked for again, the first time included.
        redirects_to: Hosts (`host` or `host:port`) a redirect may lead to besides the one asked.
    """

    max_bytes: int = Field(256 << 20, gt=0)
    attempts: int = Field(4, ge=1, le=10)
    redirects_to: tuple[str, ...] = ()

    def quick(self) -> Self:
        """The same for a probe: one attempt within seconds."""
        return self.model_copy(update={"timeout_s": _PROBE_TIMEOUT_S, "attempts": 1})


def check_url(url: str) -> str:
    """A URL of `http` or `https` that can be asked, without a password; else a `ValueError` that repeats no password."""
    import httpx  # noqa: PLC0415 - reading a configuration without URLs stays quick

    parts = urlsplit(url)
    if parts.username or parts.password:
        raise ValueError(f"the URL of {parts.hostname} holds a user or password: use access.basic_auth")
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError(f"{url!r} is not an http or https URL")
    try:
        has_port = parts.port != 0
    except ValueError:  # its words may be a password
        has_port = False
    if not has_port:
        raise ValueError(f"the URL of {parts.hostname} has a port that is no number from 1 to 65535")
    try:
        _ = httpx.URL(url).host  # decoded when it is asked for
    except (httpx.InvalidURL, ValueError) as error:
        raise ValueError(f"{url!r} is no address that can be asked: {error}") from error
    return url


HttpUrl = Annotated[str, AfterValidator(check_url)]


class PrometheusServer(Section):
    """How a Prometheus server is asked; the kind `prometheus` says what each key means."""

    url: HttpUrl
    access: HttpAccess = HttpAccess()
    step: Duration = timedelta(seconds=30)
    queries: dict[str, str] = Field(default_factory=dict)
    selector: str = ""
    instance_label: str = "instance"
    brokers: dict[str, int] = Field(default_factory=dict)
    broker_label: str = "broker_id"

    @property
    def interval_ms(self) -> int:
        return milliseconds_of(self.step)
