"""A warehouse of made-up rows for the report: as many topics, partitions, brokers and windows as asked, any names."""

import polars as pl
import pyarrow as pa
from deltalake import write_deltalake

from pipeline.config_file import load_config
from pipeline.model.window import HOUR_MS, instant_of
from pipeline.storage.frames import arrow_schema
from pipeline.storage.tables_on_disk import ensure_tables, table_path
from pipeline.tables import TABLES

CLUSTER = "demo"
T0_MS = 1_795_219_200_000  # 2026-11-21 00:00 UTC
_BLANK = {"string": "", "bigint": 0, "double": None, "boolean": False, "timestamp": instant_of(T0_MS)}
_TABLES = {table.name: table for table in TABLES}


def blank_rows(table, frame):
    """Arrow rows of a declared table: what the frame lacks is blank."""
    columns = []
    for column, kind in zip(table.columns, arrow_schema(table), strict=True):
        if column.name in frame.columns:
            columns.append(frame[column.name].to_arrow().cast(kind.type))
        elif column.name == "window_date" and "window_start" in frame.columns:
            columns.append(frame["window_start"].dt.date().to_arrow())
        else:
            filler = None if column.nullable else _BLANK.get(column.type, [])
            columns.append(
                pa.array([filler], kind.type).take(pa.array([0] * frame.height))
                if frame.height
                else pa.array([], kind.type)
            )
    return pa.table(columns, schema=arrow_schema(table))


def write_rows(warehouse, name, frame):
    """Appends rows to a table."""
    table = _TABLES[name]
    frame = (
        frame.with_columns(cluster=pl.lit(CLUSTER), run_id=pl.lit("r1")) if "cluster" not in frame.columns else frame
    )
    write_deltalake(table_path(warehouse, table), blank_rows(table, frame), mode="append")


def write_config(folder, *, cluster=CLUSTER):
    """A configuration over hourly windows whose tables lie in `folder`."""
    path = folder / "partition-health.yaml"
    name = cluster.replace("'", "''")
    path.write_text(
        "warehouse: warehouse\noutbox: outbox\nwindow: PT1H\n"
        f"clusters:\n  '{name}':\n    sources:\n      - {{kind: log_directories, paths: [{folder}]}}\n"
    )
    return load_config(path)


def write_warehouse(
    warehouse,
    *,
    topics=("orders", "clicks"),
    partitions=6,
    brokers=3,
    windows=6,
    client="app",
    hot=1,
    key="1f2e3d4c",
    kinds=("no_key",),
):
    """Tables in which broker `hot` is above its limit from the third window before the end on, and an incident is open."""
    ensure_tables(warehouse)
    start = pl.datetime_range(
        instant_of(T0_MS),
        instant_of(T0_MS + (windows - 1) * HOUR_MS),
        "1h",
        time_unit="us",
        time_zone="UTC",
        eager=True,
    )
    hours = pl.DataFrame({"window_start": start, "window": range(windows)})
    one = pl.DataFrame({"broker_id": range(brokers)})
    all_topics = pl.DataFrame({"topic": list(topics), "topic_place": range(len(topics))})
    newest, since = start[-1], start[max(0, windows - 3)]
    is_hot = (pl.col("broker_id") == hot) & (pl.col("window") >= windows - 3)
    fair = 1 / brokers
    shares = hours.join(one, how="cross").with_columns(
        share=pl.when(is_hot)
        .then(fair * 1.5)
        .otherwise(fair * (1 - 0.5 / max(brokers - 1, 1) * (pl.col("window") >= windows - 3))),
        expected_share=pl.lit(fair),
        capacity=pl.lit(1.0),
    )
    shares = shares.with_columns(
        share_ratio=pl.col("share") / fair,
        chance_ratio=pl.lit(1.1),
        size_bytes=(pl.col("share") * 1e9).cast(pl.Int64),
        leaders_term=pl.lit(0.01),
        topic_mix_term=pl.lit(-0.02),
        partition_skew_term=pl.col("share") - fair + 0.01,
        heavy_keys_term=pl.lit(0.002),
        hash_luck_term=pl.lit(0.001),
        remainder_term=pl.col("share") - fair + 0.007,
        peak_ratio=pl.col("share") / fair * 1.2,
        excess_topic=pl.lit(topics[0]),
    )
    write_rows(warehouse, "gold.broker_share", shares)
    of_kinds = all_topics.join(pl.DataFrame({"kind": list(kinds)}, {"kind": pl.String}), how="cross")
    keys = hours.join(of_kinds, how="cross").with_columns(record_count=pl.lit(9), partition=pl.lit(0))
    write_rows(warehouse, "silver.key_traffic", keys)
    judged = shares.with_columns(
        rule=pl.lit("broker_share"),
        subject=pl.format("broker {}", "broker_id"),
        value=pl.col("share_ratio"),
        limit_value=pl.lit(1.2),
        verdict=pl.when(is_hot & (pl.col("window") == windows - 1))
        .then(pl.lit("fail"))
        .when(is_hot)
        .then(pl.lit("warn"))
        .otherwise(pl.lit("ok")),
        is_above=is_hot,
        above_count=pl.when(is_hot).then(3).otherwise(0),
        reason=pl.lit("50.0% of the bytes"),
    )
    write_rows(warehouse, "gold.verdicts", judged)
    write_rows(
        warehouse,
        "gold.incidents",
        pl.DataFrame(
            {
                "window_start": [newest],
                "incident_id": ["K-JKT62CWA"],
                "state": ["new"],
                "rule": ["broker_share"],
                "subject": [f"broker {hot}"],
                "since": [since],
                "value": [1.5],
                "peak_value": [1.5],
                "limit_value": [1.2],
                "window_count": [3],
            }
        ),
    )
    zones = {"kind": "produce", "from_zone": ["a", "b"], "to_zone": "b", "zone_source": "client", "topic": topics[0]}
    moved = {"size_bytes": [9_000_000, 5_000_000], "is_between_zones": [True, False], "cost_per_month": [131.4, 0.0]}
    write_rows(warehouse, "gold.zone_traffic", pl.DataFrame({"window_start": newest, **zones, **moved}))
    per_topic = pl.DataFrame({"partition": range(partitions)})
    places = all_topics.join(per_topic, how="cross").with_columns(
        leader_id=(pl.col("partition") + pl.col("topic_place")) % brokers,
        size_bytes=(1_000_000 // (1 + pl.col("topic_place"))) * (1 + pl.col("partition") % 5),
    )
    for day in range(0, windows, 24):  # a file a day, as compaction leaves them
        some = (
            hours.slice(day, 24)
            .join(places, how="cross")
            .with_columns(
                ratio_to_mean=pl.lit(1.0),
                excess_bytes=pl.lit(0.0) - pl.col("partition"),
                heavy_keys_bytes=pl.lit(1500.0),
                hash_luck_bytes=pl.lit(-500.0),
                remainder_bytes=pl.lit(2.5e6),
            )
        )
        write_rows(warehouse, "gold.partition_health", some)
        write_rows(warehouse, "silver.partition_traffic", some.with_columns(batch_bytes_squared=pl.lit(1.0)))
    last = hours.tail(1)
    _write_newest(
        warehouse,
        last.join(all_topics, how="cross"),
        last.join(one, how="cross"),
        hours,
        client=client,
        hot=hot,
        key=key,
    )


def _write_newest(warehouse, topics, brokers, hours, *, client, hot, key):
    """What the report reads of the newest window alone, and of every window few rows."""
    ranks = pl.DataFrame({"rank": range(1, 4)})
    write_rows(
        warehouse,
        "gold.hot_keys",
        topics.join(ranks, how="cross").with_columns(
            key=pl.lit(key),
            topic_ratio=0.5 / pl.col("rank"),
            size_bytes=1000 // pl.col("rank"),
            is_heavy=pl.col("rank") == 1,
        ),
    )
    latency = hours.join(brokers.select("broker_id"), how="cross").with_columns(
        client_id=pl.lit("*"),
        request_latency_avg_ms=3.0 + pl.col("broker_id") + pl.col("window") % 7,
        request_latency_max_ms=pl.lit(90.0),
        ratio_to_peers=pl.lit(1.5),
        ratio_to_history=pl.lit(0.5),
    )
    write_rows(warehouse, "gold.latency", latency)
    write_rows(
        warehouse,
        "silver.producer_nodes",
        brokers.with_columns(
            client_id=pl.lit(client), throttle_time_avg_ms=pl.lit(12.0), queue_time_avg_ms=pl.lit(7.0),
            buffer_blocked_ratio=pl.lit(0.03), retry_rate_per_s=pl.lit(1.25), error_rate_per_s=pl.lit(0.5),
        ),
    )  # fmt: skip  # fields of a value, several a line
    idle = {"request_handler_idle_ratio": 0.7, "network_processor_idle_ratio": 0.8}
    write_rows(
        warehouse, "silver.broker_metrics", brokers.with_columns(**{name: pl.lit(part) for name, part in idle.items()})
    )
    candidates = pl.DataFrame(
        {"candidate": ["in-use", "client 4.1.1", "twice the partitions"], "is_baseline": [True, False, False]}
    )
    ranges = {
        f"{name}{end}": pl.lit(unit * value)
        for name, unit in (("broker_peak_to_mean", 1.0), ("latency_p50_ms", 110.0))
        for end, value in (("", 1.2), ("_low", 1.1), ("_high", 1.3))
    }
    write_rows(
        warehouse,
        "gold.scenario_comparison",
        topics.join(candidates, how="cross").with_columns(
            baseline_broker_peak_to_mean=pl.lit(1.5),
            trust=pl.lit("trusted"),
            size_bytes=1000 - pl.col("topic_place"),
            keys_moved_ratio=pl.when("is_baseline").then(None).otherwise(0.25),
            records_per_batch=pl.lit(12.5),
            **ranges,
        ),
    )
    write_rows(
        warehouse,
        "gold.back_tests",
        topics.with_columns(
            partitioner=pl.lit("java-builtin"), partitioner_source=pl.lit("inferred"), observed_share=pl.lit(0.4),
            predicted_share=pl.lit(0.38), predicted_share_low=pl.lit(0.36), predicted_share_high=pl.lit(0.41),
            share_error_points=pl.lit(2.0), share_bar_points=pl.lit(1.5), is_trusted=pl.lit(value=False), trust=pl.lit("not trustworthy: ") + pl.col("topic"),
        ),
    )  # fmt: skip  # fields of a value, several a line
    write_rows(
        warehouse,
        "gold.recommendations",
        topics.head(1).with_columns(
            subject=pl.lit(f"broker {hot}"), rank=pl.lit(1), title=pl.lit("set `linger.ms=5` on producers of ") + pl.col("topic"),
            share_ratio=pl.lit(1.5), predicted_ratio=pl.lit(1.05), predicted_ratio_low=pl.lit(1.0), predicted_ratio_high=pl.lit(1.1),
            is_enough=pl.lit(value=True), text=pl.lit("why: ") + pl.col("topic"),
        ),
    )  # fmt: skip  # fields of a value, several a line
    write_rows(
        warehouse,
        "gold.promises",
        topics.head(1).with_columns(
            promised_at=pl.col("window_start"), subject=pl.lit(f"broker {hot}"), action=pl.lit("replay:linger"), rank=pl.lit(1),
            title=pl.lit("set `linger.ms=5` on producers of ") + pl.col("topic"), carried_out_at=pl.col("window_start"),
            share_ratio=pl.lit(1.5), corrected_ratio=pl.lit(1.05), corrected_ratio_low=pl.lit(1.0), corrected_ratio_high=pl.lit(1.1),
            without_ratio=pl.lit(1.4), actual_ratio=pl.lit(1.08), outcome=pl.lit("kept"), reason=pl.lit("why: ") + pl.col("topic"),
            kept_count=pl.lit(1),
        ),
    )  # fmt: skip  # fields of a value, several a line
    status = pl.DataFrame(
        {
            "source": ["log_directories", "producer_metrics"],
            "expected_count": [3, 4],
            "arrived_count": [3, 2],
            "missing": [None, client],
        }
    )
    write_rows(
        warehouse,
        "bronze.window_status",
        brokers.head(1).select("window_start").join(status, how="cross").with_columns(is_trusted=pl.lit(value=True)),
    )
    write_rows(
        warehouse,
        "bronze.quarantine",
        pl.DataFrame(
            {"source": ["log_directories"], "path": [client], "reason": [f"broken: {client}"], "severity": ["refused"]}
        ),
    )
    write_rows(
        warehouse,
        "gold.verdicts",
        topics.with_columns(
            rule=pl.lit("topic_peak"), subject=pl.lit("topic ") + pl.col("topic"), limit_value=pl.lit(2.0),
            verdict=pl.lit("not_enough_traffic"), reason=pl.lit("too little: ") + pl.col("topic"),
        ),
    )  # fmt: skip  # fields of a value, several a line


def write_what_metrics_need(warehouse):
    """The warehouse above and, in its newest window: topics (one made anew), hot partitions, a disk; an incident that is over."""
    write_warehouse(warehouse)
    newest = pl.lit(instant_of(T0_MS + 5 * HOUR_MS))
    rows = {
        "gold.topic_health": {
            "topic": ["orders", "orders", "clicks"], "topic_id": ["a", "b", "c"], "size_bytes": [70, 50, 100],
            "peak_to_mean": [1.5, 1.2, 1.1], "chance_peak_to_mean": 1.1, "top_key_ratio": 0.2,
        },
        "gold.partition_health": {"topic": "orders", "topic_id": "b", "partition": [0, 1, 2, 3], "excess_bytes": [-900, 10, 30, 20]},
        "gold.rule_measures": {"rule": "disk_hours_to_full", "subject": ["broker 2"], "value": 2.0},
        "gold.incidents": {
            "incident_id": "K-2", "state": ["new", "resolved"], "rule": "throttled", "subject": "broker 2", "limit_value": 1.0,
        },
    }  # fmt: skip  # fields of a value, several a line
    for name, columns in rows.items():
        write_rows(warehouse, name, pl.DataFrame(columns).with_columns(window_start=newest, since=newest))
