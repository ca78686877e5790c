"""Silver tables of the calibration: what producers were like and how long brokers took, as a replay takes both."""

from __future__ import annotations

from pipeline.tables.columns import flag, number, text, whole
from pipeline.tables.table import (
    BROKER_ID,
    BY_DATE,
    CLUSTER,
    RUN_ID,
    TOPIC,
    TOPIC_ID,
    WINDOW_DATE,
    WINDOW_START,
    Column,
    Table,
)

_PRODUCER_ID = whole("producer_id", "Producer id; -1 for all producers without idempotence, pooled.")
_PRODUCER_EPOCH = whole(
    "producer_epoch", "Producer epoch; -1 where pooled, and for transactional producers, whose epochs are one session."
)
_ASSUMPTIONS = text("assumptions", "What the data cannot tell, or has against the configuration; '' for nothing.")

PRODUCER_SESSIONS = Table(
    name="silver.producer_sessions",
    grain="producer session x topic x window",
    key=("cluster", "window_start", "topic", "topic_id", "producer_id", "producer_epoch"),
    partitioned_by=BY_DATE,
    columns=(
        CLUSTER,
        WINDOW_DATE,
        WINDOW_START,
        TOPIC,
        TOPIC_ID,
        _PRODUCER_ID,
        _PRODUCER_EPOCH,
        whole("record_count", "Data records it sent.", "records"),
        whole("keyless_record_count", "Of them, without a key.", "records"),
        whole("batch_count", "Batches they came in.", "batches"),
        text("traffic_pattern", "How records lie within a millisecond: `burst` or `steady`."),
        text(
            "strategy",
            "Partitioner in use, as `partition-health partition --strategies` lists it; NULL where nothing tells.",
            nullable=True,
        ),
        text("source", "How it is known: `configured`, `inferred` from the batches, or `none`."),
        number(
            "confidence",
            "Chance that the strategy is the one in use, as the data have it; 1 where configured.",
            "ratio",
            nullable=False,
        ),
        text("runner_up", "The next best strategy; '' for none."),
        text("client", "`kafka-clients`, `librdkafka`, or ''."),
        text("client_version", "Version that stands for the range; '' for none."),
        text("version_range", "Versions that do so, in words."),
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
        text("reason", "What the order of batches or the keys say, in words."),
        _ASSUMPTIONS,
        RUN_ID,
    ),
)


def _parameter(name: str, doc: str) -> tuple[Column, ...]:
    """A number, its range and its source."""
    return (
        number(f"{name}_ms", f"{doc}.", "ms", nullable=False),
        number(f"{name}_low_ms", f"Lower end of `{name}_ms`.", "ms", nullable=False),
        number(f"{name}_high_ms", f"Upper end of `{name}_ms`; NULL for none.", "ms"),
        text(
            f"{name}_source",
            f"Origin of `{name}_ms`: `measured` of this connection, `inferred` by a fit, `configured`, or `assumed`.",
        ),
    )


SERVICE_MODELS = Table(
    name="silver.service_models",
    grain="producer session x broker x window",
    key=("cluster", "window_start", "producer_id", "producer_epoch", "topic", "topic_id", "broker_id"),
    partitioned_by=BY_DATE,
    columns=(
        CLUSTER,
        WINDOW_DATE,
        WINDOW_START,
        _PRODUCER_ID,
        _PRODUCER_EPOCH,
        text(
            "topic",
            "Topic of a pooled session; '' where the session has an id and the model stands for all its topics.",
        ),
        text("topic_id", "Its id, or ''."),
        BROKER_ID,
        text("client_id", "`client.id` whose metrics the model is fitted to; NULL for none.", nullable=True),
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
        flag("is_identifiable", "The data tell the delay; else it is configured, or assumed to be none."),
        _ASSUMPTIONS,
        RUN_ID,
    ),
)

SESSIONS = (PRODUCER_SESSIONS, SERVICE_MODELS)
