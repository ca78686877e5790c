"""Silver tables of the calibration: what producers were like and how long brokers took, as a replay takes both."""

from pipeline.tables.table import BROKER_ID, TOPIC_COLUMNS, Column, bigint, boolean, dated, double, string

_PRODUCER_ID = bigint("producer_id", "Producer id; -1 for all producers without idempotence, pooled.")
_PRODUCER_EPOCH = bigint("producer_epoch", "Producer epoch; -1 where pooled or transactional: newer clients raise it with every transaction, so all epochs are one session.")
_ASSUMPTIONS = string("assumptions", "What the data leave open, or where they contradict the configuration; '' for nothing.")

PRODUCER_SESSIONS = dated(
    "silver.producer_sessions", "producer session x topic x window",
    ("cluster", "window_start", "topic", "topic_id", "producer_id", "producer_epoch"),
    *TOPIC_COLUMNS, _PRODUCER_ID, _PRODUCER_EPOCH,
    bigint("record_count", "Data records it sent.", "records"),
    bigint("keyless_record_count", "Of them, without a key.", "records"),
    bigint("batch_count", "Batches they came in.", "batches"),
    string("traffic_pattern", "How records lie within a millisecond: `burst` or `steady`."),
    string("strategy", "Its partitioner, as `partition-health partition --strategies` lists it; NULL where unknown.", nullable=True),
    string("source", "How it is known: `configured`, `inferred` from the batches, or `none`."),
    double("confidence", "Probability that this is its strategy, 1 if configured; variants that look alike share it.", "ratio", nullable=False),
    string("runner_up", "The next best strategy; '' for none."),
    string("client", "`kafka-clients`, `librdkafka`, or ''."),
    string("client_version", "Version that the client tells (KIP-714, `app-info`), else one that stands for the range; '' for none."),
    string("version_range", "Versions that the evidence does not exclude, in words; `4.4.0, as the client tells` where it tells."),
    Column("settings", "map<string,string>", "Settings by the client's own names.", nullable=False),
    Column("setting_sources", "map<string,string>", "By setting: `configured`, `default`, `inferred` or `unknown` (the data leave it open, and predictions are not trusted), with the bounds that the data give: `inferred, 3 to 7`.", nullable=False),
    string("reason", "What the order of batches or the keys say, in words."),
    _ASSUMPTIONS,
    string("client_id", "`client.id` of the client whose metrics fit its bytes; NULL where none or several do.", nullable=True),
    string("zone", "Zone of its producer, as brokers name theirs in `broker.rack`; NULL where nothing says.", nullable=True),
    string("zone_source", "How the zone is known: `client` (the client says its `client.rack`), `configured` (`zones.clients`), `rack_aware` (all its keyless records are led in one rack), or `unknown`.", nullable=True),
    schema_version=2,
)  # fmt: skip  # a table: short fields share a line


def _parameter(name: str, doc: str) -> tuple[Column, ...]:
    return (
        double(f"{name}_ms", f"{doc}.", "ms", nullable=False),
        double(f"{name}_low_ms", f"Lower end of `{name}_ms`.", "ms", nullable=False),
        double(f"{name}_high_ms", f"Upper end of `{name}_ms`; NULL for none.", "ms"),
        string(f"{name}_source", f"Origin of `{name}_ms`: `measured` of this connection, `inferred` by a fit, `configured` or `assumed`."),
    )


SERVICE_MODELS = dated(
    "silver.service_models", "producer session x broker x window",
    ("cluster", "window_start", "producer_id", "producer_epoch", "topic", "topic_id", "broker_id"),
    _PRODUCER_ID, _PRODUCER_EPOCH,
    string("topic", "Topic of a pooled session; '' for a session with an id: the model stands for all its topics."),
    string("topic_id", "Its id, or ''."),
    BROKER_ID,
    string("client_id", "`client.id` whose metrics the model is fitted to; NULL for none.", nullable=True),
    *_parameter("request", "What the broker takes for a request, on average"),
    *_parameter("partition", "For each partition in a request beyond the first"),
    *_parameter("kib", "For each 1,024 bytes of batches"),
    *_parameter("delay", "What a request takes beyond these; of several minutes the median"),
    Column("delay_starts_ms", "array<bigint>", "Epoch milliseconds from which each of `delays_us` holds; empty for one delay throughout.", nullable=False),
    Column("delays_us", "array<bigint>", "The delays, one for each start.", nullable=False),
    boolean("is_identifiable", "The delay follows from the data; else it is configured, or assumed to be none."),
    _ASSUMPTIONS,
)  # fmt: skip  # a table: short fields share a line

SESSIONS = (PRODUCER_SESSIONS, SERVICE_MODELS)
