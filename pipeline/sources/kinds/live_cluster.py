"""A running cluster, read through its brokers.

Settings of the client have Kafka's own names. A secret is never in the file: it is named by the environment variable
that holds it, and read when a connection is made.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, field_validator, model_validator

from pipeline.config.section import ConfigPath, Duration, Section
from pipeline.environment import environment_secret
from pipeline.errors import ConfigError, SourceUnreachableError
from pipeline.model.finding import Finding
from pipeline.sources.numbers import Number, rated
from pipeline.sources.source import ClusterQuestion, ClusterReading, Described, RecordSource, SourceAvailability

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator, Mapping, Sequence

    from pipeline.model.window import TimeWindow
    from pipeline.sources.numbers import How

_PROBE_TIMEOUT = timedelta(seconds=5)
_BY_OFFSETS = "live_cluster, read: offsets"
_AT_THE_RUN = rated(
    "at the run",
    *(Number.LEADER_COUNTS, Number.TOPIC_REPLICAS, Number.REPLICAS, Number.VOLUMES),
    *(Number.REASSIGNMENTS, Number.GROUPS),
)


@dataclass(frozen=True, slots=True, repr=False)
class Secrets:
    """What is never shown: it has no text of its own, and no option of Spark holds it."""

    password: str | None = None
    key_password: str | None = None


def _kafka_name(name: str) -> str:
    return name.replace("_", ".").replace(".variable", "_variable")


class ClientSettings(Section):
    """How to connect; names are Kafka's. Certificates and keys are PEM files.

    Attributes:
        security.protocol: Whether the listener wants TLS, a login, or both.
        sasl.mechanism: How to log in.
        sasl.username: Login.
        sasl.password_variable: Environment variable that holds the password.
        ssl.truststore.location: Certificates of the authorities to trust; the system's by default.
        ssl.keystore.location: Client certificate, for mutual TLS.
        ssl.key.location: Its key, where that is a file of its own.
        ssl.key.password_variable: Environment variable that holds the key's password.
        ssl.endpoint.identification.algorithm: `https` checks the broker's host name, "" does not.
        client.id: Name under which brokers know us, in their quotas and logs.
    """

    model_config = ConfigDict(populate_by_name=True, alias_generator=_kafka_name)

    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None = None
    sasl_username: str | None = None
    sasl_password_variable: str | None = None
    ssl_truststore_location: ConfigPath | None = None
    ssl_keystore_location: ConfigPath | None = None
    ssl_key_location: ConfigPath | None = None
    ssl_key_password_variable: str | None = None
    ssl_endpoint_identification_algorithm: Literal["https", ""] = "https"
    client_id: str = "partition-health"

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
        """Reads the secrets that the settings name; `ConfigError` where a variable is not set."""
        return Secrets(
            environment_secret(self.sasl_password_variable), environment_secret(self.ssl_key_password_variable)
        )

    def tls_context(self, secrets: Secrets) -> ssl.SSLContext:
        """The certificates to trust and to show; `ConfigError` where a file cannot be used."""
        import ssl  # with OpenSSL

        try:
            context = ssl.create_default_context(cafile=self.ssl_truststore_location)
            if self.ssl_keystore_location is not None:
                password = secrets.key_password or ""  # without one OpenSSL would ask the terminal
                context.load_cert_chain(self.ssl_keystore_location, self.ssl_key_location, password)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(f"ssl.truststore.location or ssl.keystore.location cannot be used: {error}") from error
        context.check_hostname = self.ssl_endpoint_identification_algorithm == "https"
        return context


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


def _split_addresses(value: Any) -> Any:  # noqa: ANN401  (whatever YAML holds)
    return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value


class LiveCluster(RecordSource):
    """A running cluster, read through its brokers.

    Attributes:
        bootstrap_servers: Brokers to ask first, `host:port`, a list or with commas.
        client: How to connect.
        groups: Ask for consumer groups too.
        connect_timeout: How long to wait for a connection.
        request_timeout: How long to wait for an answer.
        fetch_bytes: Most bytes of one answer to a fetch.
        read: How the records of a window are known: `record_batches` are fetched (exact, batches and producers known),
            `offsets` only looks up offsets and sizes (records are an upper bound, bytes an estimate).
        sampling: What part of the records to read.
        internal_topics: Read `__consumer_offsets` and its like too: they are load of brokers.
        lateness: How long after a window its late records are looked for.
        read_timeout: How long a reading may stand still before what is left of it is given up.
    """

    is_only_one = True
    rank = 20
    column = "live_cluster"
    provides = (
        rated(
            "exact",
            *(Number.SHARES, Number.RECORD_COUNTS, Number.BATCH_COUNTS, Number.PARTITION_SIZES, Number.KEYS),
            *(Number.KEYED_REPLAY, Number.TOPIC_SIZES, Number.RULES, Number.RECOMMENDATIONS, Number.BATCH_HEADERS),
            *(Number.REPLICA_SIZES, Number.AVAILABILITY),
        )
        | rated("estimated", Number.SIMULATED_REPLAY)
        | _AT_THE_RUN
    )

    kind: Literal["live_cluster"]
    bootstrap_servers: Annotated[tuple[str, ...], BeforeValidator(_split_addresses)] = Field(min_length=1)
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

    @classmethod
    def columns(cls) -> dict[str, Mapping[Number, How]]:
        """What it gives where records are fetched, and where only offsets are looked up."""
        by_offsets = (
            rated("exact", Number.REPLICA_SIZES, Number.AVAILABILITY)
            | rated("estimated", Number.SHARES, Number.PARTITION_SIZES, Number.TOPIC_SIZES)
            | rated("estimated", Number.RULES, Number.RECOMMENDATIONS)
            | rated("upper bound", Number.RECORD_COUNTS)
            | rated("assumed", Number.BATCH_COUNTS)
            | _AT_THE_RUN
        )
        return {cls.column: cls.provides, _BY_OFFSETS: by_offsets}

    @property
    def configured_column(self) -> str:
        """The heading of what it gives as it is configured."""
        return _BY_OFFSETS if self.read == "offsets" else self.column

    @classmethod
    def read_cluster(
        cls, sources: Sequence[LiveCluster], question: ClusterQuestion, described: Described
    ) -> ClusterReading:
        """Asks the brokers, and plans what to fetch."""
        from pipeline.sources.live.reading import read_live_cluster

        (source,) = sources
        live = read_live_cluster(source, question)
        reading = ClusterReading(
            record_source=cls.column,
            history=live.history,
            problems={cls.column: live.problems},
            has_records=source.read == "record_batches",
            live=live,
        )
        if live.state is None:
            return reading
        return replace(
            reading,
            replicas=live.state.replicas,
            directory_counts=live.state.directory_counts,
            spaces=live.state.spaces,
            broker_configs=live.state.broker_configs,
        )

    def availability(
        self, reading: ClusterReading, window: TimeWindow, newest_ms: int | None
    ) -> SourceAvailability | None:
        """Expected are the brokers and partitions there are, arrived those that answered and could be read whole."""
        return None if reading.live is None else reading.live.availability(window)

    def probe(self) -> Iterator[Finding]:
        """Connects, then asks every question once."""
        from pipeline.sources.live.checkup import examine_live_cluster  # the client takes 0.2 s

        quick = self.model_copy(update={"connect_timeout": _PROBE_TIMEOUT, "request_timeout": _PROBE_TIMEOUT})
        try:
            yield from examine_live_cluster(quick)
        except (SourceUnreachableError, ConfigError) as error:
            advice = "correct the source's addresses or client settings, or see why the brokers are away"
            yield Finding(name="", is_ok=False, found=str(error), advice=advice)
