"""Silver tables of the calibration: what producers were like and how long brokers took, as a replay takes both."""

from __future__ import annotations

from pipeline.tables.table import (
    BROKER_ID,
    CLUSTER,
    RUN_ID,
    TOPIC,
    TOPIC_ID,
    WINDOW_DATE,
    WINDOW_START,
    Column,
    Table,
)

_PRODUCER_ID = Column(
    name="producer_id",
    type="bigint",
    nullable=False,
    doc="Producer id; -1 for all producers without idempotence, pooled.",
)
_PRODUCER_EPOCH = Column(
    name="producer_epoch",
    type="bigint",
    nullable=False,
    doc="Producer epoch; -1 where pooled, and for transactional producers, whose epochs are one session.",
)
_ASSUMPTIONS = Column(
    name="assumptions",
    type="string",
    nullable=False,
    doc="What the data cannot tell, or has against the configuration; '' for nothing.",
)

PRODUCER_SESSIONS = Table(
    name="silver.producer_sessions",
    grain="producer session x topic x window",
    key=("cluster", "window_start", "topic", "topic_id", "producer_id", "producer_epoch"),
    partitioned_by=("cluster", "window_date"),
    columns=(
        CLUSTER,
        WINDOW_DATE,
        WINDOW_START,
        TOPIC,
        TOPIC_ID,
        _PRODUCER_ID,
        _PRODUCER_EPOCH,
        Column(name="record_count", type="bigint", nullable=False, unit="records", doc="Data records it sent."),
        Column(
            name="keyless_record_count", type="bigint", nullable=False, unit="records", doc="Of them, without a key."
        ),
        Column(name="batch_count", type="bigint", nullable=False, unit="batches", doc="Batches they came in."),
        Column(
            name="traffic_pattern",
            type="string",
            nullable=False,
            doc="How records lie within a millisecond: `burst` or `steady`.",
        ),
        Column(
            name="strategy",
            type="string",
            doc="Partitioner in use, as `partition-health partition --strategies` lists it; NULL where nothing tells.",
        ),
        Column(
            name="source",
            type="string",
            nullable=False,
            doc="How it is known: `configured`, `inferred` from the batches, or `none`.",
        ),
        Column(
            name="confidence",
            type="double",
            nullable=False,
            unit="ratio",
            doc="Chance that the strategy is the one in use, as the data have it; 1 where configured.",
        ),
        Column(name="runner_up", type="string", nullable=False, doc="The next best strategy; '' for none."),
        Column(name="client", type="string", nullable=False, doc="`kafka-clients`, `librdkafka`, or ''."),
        Column(
            name="client_version", type="string", nullable=False, doc="Version that stands for the range; '' for none."
        ),
        Column(name="version_range", type="string", nullable=False, doc="Versions that do so, in words."),
        Column(
            name="settings",
            type="map<string,string>",
            nullable=False,
            doc="Settings by the client's own names.",
        ),
        Column(
            name="setting_sources",
            type="map<string,string>",
            nullable=False,
            doc="Of each setting: `configured`, `inferred` or `default`; with the bounds the data give, as in `inferred, 3 to 7`.",
        ),
        Column(
            name="reason", type="string", nullable=False, doc="What the order of batches or the keys say, in words."
        ),
        _ASSUMPTIONS,
        RUN_ID,
    ),
)


def _parameter(name: str, doc: str) -> tuple[Column, ...]:
    """A number, its range and its source."""
    return (
        Column(name=f"{name}_ms", type="double", nullable=False, unit="ms", doc=f"{doc}."),
        Column(name=f"{name}_low_ms", type="double", nullable=False, unit="ms", doc=f"Lower end of `{name}_ms`."),
        Column(name=f"{name}_high_ms", type="double", unit="ms", doc=f"Upper end of `{name}_ms`; NULL for none."),
        Column(
            name=f"{name}_source",
            type="string",
            nullable=False,
            doc=f"Origin of `{name}_ms`: `measured` of this connection, `inferred` by a fit, `configured`, or `assumed`.",
        ),
    )


SERVICE_MODELS = Table(
    name="silver.service_models",
    grain="producer session x broker x window",
    key=("cluster", "window_start", "producer_id", "producer_epoch", "topic", "topic_id", "broker_id"),
    partitioned_by=("cluster", "window_date"),
    columns=(
        CLUSTER,
        WINDOW_DATE,
        WINDOW_START,
        _PRODUCER_ID,
        _PRODUCER_EPOCH,
        Column(
            name="topic",
            type="string",
            nullable=False,
            doc="Topic of a pooled session; '' where the session has an id and the model stands for all its topics.",
        ),
        Column(name="topic_id", type="string", nullable=False, doc="Its id, or ''."),
        BROKER_ID,
        Column(name="client_id", type="string", doc="`client.id` whose metrics the model is fitted to; NULL for none."),
        *_parameter("request", "What the broker takes for a request, on average"),
        *_parameter("partition", "For each partition in a request beyond the first"),
        *_parameter("kib", "For each 1,024 bytes of batches"),
        *_parameter("delay", "What a request takes beyond these; of several minutes the median"),
        Column(
            name="delay_starts_ms",
            type="array<bigint>",
            nullable=False,
            unit="ms",
            doc="Epoch milliseconds from which each delay of `delays_us` holds; empty for one delay throughout.",
        ),
        Column(
            name="delays_us", type="array<bigint>", nullable=False, unit="us", doc="The delays, one for each start."
        ),
        Column(
            name="is_identifiable",
            type="boolean",
            nullable=False,
            doc="The data tell the delay; else it is configured, or assumed to be none.",
        ),
        _ASSUMPTIONS,
        RUN_ID,
    ),
)

SESSIONS = (PRODUCER_SESSIONS, SERVICE_MODELS)
