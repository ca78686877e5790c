"""HTTP access to servers: identity, certificates and limits; secrets come from environment variables, never from the file."""

from __future__ import annotations

import base64
import html
import ipaddress
import json
import ssl
from collections import defaultdict
from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Self
from urllib.parse import parse_qsl, quote, quote_plus, unquote, urlsplit

from pydantic import AfterValidator, Field, model_validator

from pipeline.config.section import ConfigPath, Duration, Section, TimeoutSeconds
from pipeline.environment import environment_secret
from pipeline.errors import ConfigError
from pipeline.files import check_regular
from pipeline.model.window import milliseconds_of

if TYPE_CHECKING:
    import httpx


HIDDEN = "***"
_MOST_WORDS = 4_000
_LEAST_TOLD = 8  # so many characters of a secret in a row are hidden, also where a server cut it; of a shorter one all
_LEAST_PART = 6  # of an address: `api`, `hook` and `v2` are no secrets
_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}  # one character each, as `str.lower` is not


def hide_secrets(words: str, *secrets: str | None, user: str = "") -> str:
    """The words, cut at 4,000 characters, with `***` for parts of a secret, as it is or encoded in ways in which it is sent.

    >>> hide_secrets("Cannot POST /services/T0/B0/SECRETHOOK", "/services/T0/B0/SECRETHOOK")
    'Cannot POST ***'
    """
    words = words[:_MOST_WORDS]
    pieces: defaultdict[int, set[str]] = defaultdict(set)
    for secret in filter(None, secrets):
        for form in _list_forms(secret, user):
            length = min(len(form), _LEAST_TOLD)
            pieces[length] |= {form[at : at + length] for at in range(len(form) - length + 1)}
    lowered, is_hidden = words.translate(_LOWER), bytearray(len(words))
    for length, wanted in pieces.items():
        for at in range(len(words) - length + 1):
            if lowered[at : at + length] in wanted:
                is_hidden[at : at + length] = b"\1" * length
    shown = []
    for at, char in enumerate(words):
        if not is_hidden[at]:
            shown.append(char)
        elif not at or not is_hidden[at - 1]:
            shown.append(HIDDEN)
    return "".join(shown)


def list_parts(url: str) -> tuple[str, ...]:
    """What is secret of an address that is a secret: all of it, and each longer part of its path and query by itself."""
    try:
        parts = urlsplit(url)
        values = [value for _, value in parse_qsl(parts.query)]
    except ValueError:
        return (url,)
    candidates = [*parts.path.split("/"), *values, *parts.netloc.rpartition("@")[0].split(":")]
    return (url, unquote(url), *(part for part in candidates if len(part) >= _LEAST_PART))


def _list_forms(secret: str, user: str) -> Iterator[str]:
    # a file's bytes may be no UTF-8
    secret, user = (text.encode("utf-8", "replace").decode() for text in (secret, user))
    plain = {secret, unquote(secret), quote(secret), quote(secret, safe=""), quote_plus(secret)}
    plain |= {html.escape(secret), json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]}
    in_base64 = {base64.b64encode(f"{before}{secret}".encode()).decode() for before in ("", f"{user}:", f"\0{user}\0")}
    in_base64 |= {_encode_inside(secret.encode(), before) for before in range(3)}
    in_base64 |= {text.replace("+", "-").replace("/", "_") for text in in_base64}
    for form in plain | {text.rstrip("=") for text in in_base64}:
        if len(form) >= min(len(secret), 4):
            yield form.translate(_LOWER)


def _encode_inside(secret: bytes, before: int) -> str:
    """A secret within a longer base64 text: the characters that depend on it alone. `before`: bytes in front of it, modulo 3."""
    text = base64.b64encode(b"\0" * before + secret).decode()
    return text[-(-8 * before // 6) : (8 * (before + len(secret))) // 6]


_PROBE_TIMEOUT_S = 5.0


def is_this_machine(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class BasicAuth(Section):
    """`basic_auth` of Prometheus' own configuration."""

    username: str
    """Login."""
    password_variable: str


class TlsConfig(Section):
    """`tls_config` of Prometheus' own configuration."""

    ca_file: ConfigPath | None = None
    """PEM file of the authority that signed the server's certificate; the system's by default."""
    cert_file: ConfigPath | None = None
    """PEM file of a client certificate."""
    key_file: ConfigPath | None = None
    """PEM file of its key."""
    insecure_skip_verify: bool = False
    """Accept any certificate."""

    def context(self) -> ssl.SSLContext:
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
            raise ValueError("basic_auth and bearer_token_variable: set only one of them")
        return self

    @property
    def password(self) -> str | None:
        """The secret of `basic_auth`, read when it is used; `ConfigError` where the variable is not set, or no text."""
        if self.basic_auth is None:
            return None
        password = environment_secret(self.basic_auth.password_variable) or ""
        if any("\ud800" <= char <= "\udfff" for char in password):
            raise ConfigError(f"environment variable {self.basic_auth.password_variable} is not UTF-8")
        return password

    @property
    def bearer_token(self) -> str | None:
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
    timeout_s: TimeoutSeconds = 30
    """Seconds that an answer may take, from the request to its last byte."""
    max_bytes: int = Field(256 << 20, gt=0)
    """Most bytes of an answer, after decompression."""
    attempts: int = Field(4, ge=1, le=10)
    """Most tries of a request, the first one included. It is tried again after 429, 5xx or no answer."""
    redirects_to: tuple[str, ...] = ()
    """Hosts (`host` or `host:port`) a redirect may lead to besides the one asked."""

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
        raise ValueError(f"the URL of {parts.hostname} has a port that is not a number from 1 to 65535")
    try:
        _ = httpx.URL(url).host  # decoded when it is asked for
    except (httpx.InvalidURL, ValueError) as error:
        raise ValueError(f"{url!r} is not a valid address: {error}") from error
    return url


HttpUrl = Annotated[str, AfterValidator(check_url)]


class PrometheusServer(Section):
    """How a Prometheus server is asked; the kind `prometheus` says what each key means."""

    url: HttpUrl
    """Base address; `/api/v1/query_range` is appended."""
    access: HttpAccess = HttpAccess()
    """How the server is read."""
    step: Duration = timedelta(seconds=30)
    """Time between two points; the scrape interval is the best choice."""
    queries: dict[str, str] = Field(default_factory=dict)
    """PromQL by canonical metric name: replaces (or with "" drops) the query generated for it."""
    selector: str = ""
    """Label matchers put into every generated query, such as `cluster="prod"`."""
    instance_label: str = "instance"
    """Label that names the scraped target."""
    brokers: dict[str, int] = Field(default_factory=dict)
    """Broker id by instance; unneeded where the instance is the number or `broker_label` is there."""
    broker_label: str = "broker_id"
    """Label that names the broker, where series have one."""

    @property
    def interval_ms(self) -> int:
        return milliseconds_of(self.step)
