"""A live cluster as a source, as the configuration declares it: where, as whom, what to read and for how long to try.

Settings of the client have Kafka's own names. A secret is never in the file: it is named by the environment variable
that holds it, and read when a connection is made, in every process that makes one.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path  # pydantic reads it
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, field_validator, model_validator

from pipeline.config.section import Duration, Section
from pipeline.environment import environment_secret
from pipeline.errors import ConfigError

LIVE_CLUSTER = "live_cluster"


def _as_addresses(value: Any) -> Any:  # noqa: ANN401  (whatever YAML holds)
    return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value


@dataclass(frozen=True, slots=True, repr=False)
class Secrets:
    """What is never shown: it has no text of its own, and no option of Spark holds it."""

    password: str | None = None
    key_password: str | None = None


class ClientSettings(Section):
    """How to connect; names are Kafka's. Certificates and keys are PEM files.

    `sasl.password_variable` and `ssl.key.password_variable` name environment variables.
    """

    model_config = ConfigDict(populate_by_name=True)

    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = Field(
        "PLAINTEXT", alias="security.protocol"
    )
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None = Field(None, alias="sasl.mechanism")
    sasl_username: str | None = Field(None, alias="sasl.username")
    sasl_password_variable: str | None = Field(None, alias="sasl.password_variable")
    ssl_truststore_location: Path | None = Field(None, alias="ssl.truststore.location")
    ssl_keystore_location: Path | None = Field(None, alias="ssl.keystore.location")
    ssl_key_location: Path | None = Field(None, alias="ssl.key.location")
    ssl_key_password_variable: str | None = Field(None, alias="ssl.key.password_variable")
    ssl_endpoint_identification_algorithm: Literal["https", ""] = Field(
        "https", alias="ssl.endpoint.identification.algorithm"
    )
    client_id: str = Field("partition-health", alias="client.id")

    @model_validator(mode="after")
    def _sasl_is_whole(self) -> ClientSettings:
        wanted = (self.sasl_mechanism, self.sasl_username, self.sasl_password_variable)
        if self.uses_sasl and None in wanted:
            raise ValueError(f"{self.security_protocol} needs sasl.mechanism, sasl.username and sasl.password_variable")
        if not self.uses_sasl and any(wanted):
            raise ValueError(f"sasl.* is set, but security.protocol is {self.security_protocol}")
        return self

    @property
    def uses_sasl(self) -> bool:
        """Whether the client logs in."""
        return self.security_protocol.startswith("SASL_")

    @property
    def uses_tls(self) -> bool:
        """Whether the connection is encrypted."""
        return self.security_protocol.endswith("SSL")

    def read_secrets(self) -> Secrets:
        """Reads the secrets that the settings name.

        Raises:
            ConfigError: a variable is not set.
        """
        return Secrets(
            environment_secret(self.sasl_password_variable), environment_secret(self.ssl_key_password_variable)
        )

    def tls_context(self, secrets: Secrets) -> ssl.SSLContext:
        """The certificates to trust and to show.

        Raises:
            ConfigError: a file cannot be used.
        """
        try:
            context = ssl.create_default_context(cafile=self.ssl_truststore_location)
            if self.ssl_keystore_location is not None:
                password = secrets.key_password or ""  # without one OpenSSL would ask the terminal
                context.load_cert_chain(self.ssl_keystore_location, self.ssl_key_location, password)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(f"ssl.truststore.location or ssl.keystore.location cannot be used: {error}") from error
        context.check_hostname = self.ssl_endpoint_identification_algorithm == "https"
        return context

    def absolute(self, base: Path) -> ClientSettings:
        """The same with paths taken from a folder."""
        names = ("ssl_truststore_location", "ssl_keystore_location", "ssl_key_location")
        paths = {name: getattr(self, name) for name in names}
        return self.model_copy(
            update={name: base / path.expanduser() for name, path in paths.items() if path is not None}
        )


class Sampling(Section):
    """What part of the records to read; every number derived from them carries the rate.

    Attributes:
        partitions: Part of each topic's partitions, 0..1; at least one of each.
        time: Part of each window, 0..1: one slice of it, at a place drawn from window and cluster.
    """

    partitions: float = Field(1.0, gt=0, le=1)
    time: float = Field(1.0, gt=0, le=1)

    @property
    def is_whole(self) -> bool:
        """Nothing is left out."""
        return self.partitions == 1 and self.time == 1


class LiveCluster(Section):
    """A running cluster, read through its brokers.

    Attributes:
        bootstrap_servers: Addresses, `host:port`.
        client: Connection settings by Kafka's names.
        read: How the records of a window are known: `record_batches` are fetched (exact, batches and producers known),
            `offsets` only looks up offsets and sizes (records are an upper bound, bytes an estimate).
        sampling: What part of the records to read.
        internal_topics: Read `__consumer_offsets` and its like too: they are load of brokers.
        groups: Describe consumer groups too.
        lateness: How long after a window its late records are looked for.
        connect_timeout: How long to try to reach the cluster.
        request_timeout: How long one request may take.
        read_timeout: How long a reading may stand still before what is left of it is given up.
        fetch_bytes: Bytes asked for in one Fetch request.
    """

    kind: Literal["live_cluster"]
    bootstrap_servers: Annotated[tuple[str, ...], BeforeValidator(_as_addresses)] = Field(min_length=1)
    client: ClientSettings = ClientSettings()
    read: Literal["record_batches", "offsets"] = "record_batches"
    sampling: Sampling = Sampling()
    internal_topics: bool = True
    groups: bool = True
    lateness: Duration = timedelta(hours=1)
    connect_timeout: Duration = timedelta(seconds=15)
    request_timeout: Duration = timedelta(seconds=15)
    read_timeout: Duration = timedelta(minutes=2)
    fetch_bytes: int = Field(4 << 20, ge=1024, le=64 << 20)

    @field_validator("bootstrap_servers")
    @classmethod
    def _host_and_port(cls, addresses: tuple[str, ...]) -> tuple[str, ...]:
        for address in addresses:
            host, colon, port = address.rpartition(":")
            if not (colon and host and port.isdecimal() and 0 < int(port) < 65536):
                raise ValueError(f"{address!r} is no host:port")
        return addresses

    def absolute(self, base: Path) -> LiveCluster:
        """The same with paths taken from a folder."""
        return self.model_copy(update={"client": self.client.absolute(base)})
