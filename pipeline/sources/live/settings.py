"""How to reach a running cluster and what to read of it; names are Kafka's own, and secrets are those of environment variables."""

import ssl
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import BeforeValidator, ConfigDict, Field, field_validator, model_validator

from pipeline.config.http_access import HttpUrl
from pipeline.config.section import ConfigPath, Duration, Section
from pipeline.environment import environment_secret
from pipeline.errors import ConfigError
from pipeline.files import check_regular

_THIS_MACHINE = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True, repr=False)
class Secrets:  # no option of Spark holds them
    password: str | None = None
    key_password: str | None = None


class ClientSettings(Section):
    """How to connect; names are Kafka's. Certificates and keys are PEM files."""

    model_config = ConfigDict(
        populate_by_name=True, alias_generator=lambda name: name.replace("_", ".").replace(".variable", "_variable")
    )
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    """Whether the listener wants TLS, a login, or both."""
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "AWS_MSK_IAM"] | None = None
    """How to log in. `AWS_MSK_IAM` takes credentials and region as AWS's own tools do, and needs `[iam]`."""
    sasl_username: str | None = None
    """Login; with `OAUTHBEARER` the client's id."""
    sasl_password_variable: str | None = None
    """Environment variable that holds the password; with `OAUTHBEARER` the client's secret."""
    sasl_oauthbearer_token_endpoint_url: HttpUrl | None = None
    """Where tokens come from, for the client's id and secret (client credentials)."""
    sasl_oauthbearer_scope: str | None = None
    """Scope to ask for."""
    ssl_truststore_location: ConfigPath | None = None
    """Certificates of the authorities to trust; the system's by default."""
    ssl_keystore_location: ConfigPath | None = None
    """Client certificate, for mutual TLS."""
    ssl_key_location: ConfigPath | None = None
    """Its key, where that is a file of its own."""
    ssl_key_password_variable: str | None = None
    """Environment variable that holds the key's password."""
    ssl_endpoint_identification_algorithm: Literal["https", ""] = "https"
    """`https` checks the broker's host name, "" does not."""
    client_id: str = "partition-health"
    """Name under which brokers know us, in their quotas and logs."""

    @model_validator(mode="after")
    def _sasl_is_whole(self) -> Self:
        login = (self.sasl_username, self.sasl_password_variable)
        url, is_iam = self.sasl_oauthbearer_token_endpoint_url, self.sasl_mechanism == "AWS_MSK_IAM"
        if not self.uses_sasl and any((self.sasl_mechanism, *login, url)):
            raise ValueError(f"sasl.* is set, but security.protocol is {self.security_protocol}")
        if self.uses_sasl and (self.sasl_mechanism is None or (None in login and not is_iam)):
            raise ValueError(f"{self.security_protocol} needs sasl.mechanism, sasl.username and sasl.password_variable")
        if (url is None) == (self.sasl_mechanism == "OAUTHBEARER"):
            raise ValueError("sasl.oauthbearer.token.endpoint.url goes with sasl.mechanism OAUTHBEARER")
        if url is not None and url.startswith("http:") and urlsplit(url).hostname not in _THIS_MACHINE:
            sent = "the client's secret would be sent in clear"
            raise ValueError(f"{sent}: sasl.oauthbearer.token.endpoint.url needs https")
        if is_iam and self.security_protocol != "SASL_SSL":
            raise ValueError("sasl.mechanism AWS_MSK_IAM needs security.protocol SASL_SSL")
        return self

    @property
    def uses_sasl(self) -> bool:
        return self.security_protocol.startswith("SASL_")

    @property
    def uses_tls(self) -> bool:
        return self.security_protocol.endswith("SSL")

    def read_secrets(self) -> Secrets:
        return Secrets(*map(environment_secret, (self.sasl_password_variable, self.ssl_key_password_variable)))

    def tls_context(self, secrets: Secrets) -> ssl.SSLContext:
        import ssl  # with OpenSSL

        try:
            check_regular(self.ssl_truststore_location, self.ssl_keystore_location, self.ssl_key_location)
            context = ssl.create_default_context(cafile=self.ssl_truststore_location)
            if self.ssl_keystore_location is not None:
                password = secrets.key_password or ""  # without one OpenSSL would ask the terminal
                context.load_cert_chain(self.ssl_keystore_location, self.ssl_key_location, password)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(f"ssl.truststore.location or ssl.keystore.location cannot be used: {error}") from error
        context.check_hostname = self.ssl_endpoint_identification_algorithm == "https"
        return context


class Sampling(Section):
    """Sampling of records; every number derived from them carries the rate."""

    partitions: float = Field(1.0, gt=0, le=1)
    """Part of each topic's partitions, 0..1; at least one of each."""
    time: float = Field(1.0, gt=0, le=1)
    """Part of each window, 0..1: one slice of it, at a place drawn from window and cluster."""

    @property
    def is_whole(self) -> bool:
        return self.partitions == 1 and self.time == 1


class LiveSettings(Section):
    """How a running cluster is reached and read; the kind `live_cluster` says what each key means."""

    bootstrap_servers: Annotated[
        tuple[str, ...],
        BeforeValidator(
            lambda value: [one.strip() for one in value.split(",") if one.strip()] if isinstance(value, str) else value
        ),
    ] = Field(min_length=1)
    """Brokers to connect to first, `host:port`, as a list or with commas; name three, so that no single broker is
    believed alone."""
    client: ClientSettings = ClientSettings()
    """How to connect."""
    read: Literal["record_batches", "offsets"] = "record_batches"
    """How records are counted: `record_batches` fetches them (exact, with batches and producers), `offsets` only looks
    up offsets and sizes (records are an upper bound, bytes an estimate)."""
    sampling: Sampling = Sampling()
    """What part of the records to read."""
    internal_topics: bool = True
    """Also read `__consumer_offsets` and other internal topics: they are load of brokers, too."""
    groups: bool = True
    """Ask for consumer groups too."""
    lateness: Duration = timedelta(hours=1)
    """How long after a window its late records are looked for. A topic that takes records stamped further ahead is read
    to its end."""
    connect_timeout: Duration = timedelta(seconds=15)
    """How long to wait for a connection."""
    request_timeout: Duration = timedelta(seconds=15)
    """How long to wait for an answer."""
    read_timeout: Duration = timedelta(minutes=2)
    """How long a read may make no progress before the rest of it is given up."""
    fetch_bytes: int = Field(4 << 20, ge=1024, le=64 << 20)
    """Most bytes of one answer to a fetch."""

    @field_validator("bootstrap_servers")
    @classmethod
    def _host_and_port(cls, addresses: tuple[str, ...]) -> tuple[str, ...]:
        for address in addresses:
            host, colon, port = address.rpartition(":")
            if not (colon and host and port.isdecimal() and 0 < int(port) < 65536):
                raise ValueError(f"{address!r} is not host:port")
        return addresses


@dataclass(frozen=True, slots=True)
class FetchRead:
    topic: str
    topic_id: str
    partition: int
    leader_id: int  # whom to ask first
    start_offset: int
    end_offset: int
    is_first: bool  # first range of its partition: takes the batch that its start is within
    is_last: bool
    size_bytes: int = 0
    taken_until: int = 0  # batches that begin before this offset were read with an earlier slice of the time

    @property
    def path(self) -> str:  # stands for a file's in problems
        return f"{self.topic}-{self.partition}"

    @property
    def offset_count(self) -> int:
        return self.end_offset - self.start_offset
