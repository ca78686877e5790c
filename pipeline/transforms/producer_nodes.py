"""From samples of producers' metrics to `silver.producer_nodes`: one row per producer client, broker and window.

Java producers' metrics (of an exporter, of Prometheus, of kafka-producer-perf-test) and librdkafka's statistics become
the same columns. Where two sources hold the same client in a window, the one nearest to the client counts.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl
import pyarrow as pa

from pipeline.codec.metrics.metric_names import (
    APP_INFO_PREFIX,
    CLIENT_PREFIX,
    CLIENT_VERSION,
    LIBRDKAFKA_PREFIX,
    NODE_PREFIX,
)
from pipeline.transforms.arithmetic import divide, divide_by, instant, mean_sorted, sum_in_order
from pipeline.transforms.counters import SampleSettings, with_increases, with_scrape_before

_TELLS = ("client_software_name", "client_software_version", "client_rack")  # labels that tell about the client itself
LABELS = ("client_id", "node_id", "topic", "version", "client_instance_id", *_TELLS)  # that the summary looks at
_BROKER_PREFIX = f"{LIBRDKAFKA_PREFIX}broker_"
START_NAMES = (f"{APP_INFO_PREFIX}start_time_ms", f"{LIBRDKAFKA_PREFIX}start_time_ms")
_CLIENT = ("source", "instance", "client_id")
_SAMPLE = (*_CLIENT, "node_id", "observed_at_ms")
_PAIR = ("window_start_ms", *_CLIENT, "broker_id")
_NODE_VALUES = {
    "request_total": (f"{NODE_PREFIX}request_total", f"{_BROKER_PREFIX}tx_total"),
    "byte_total": (f"{NODE_PREFIX}outgoing_byte_total", f"{_BROKER_PREFIX}txbytes_total"),
    "request_rate": (f"{NODE_PREFIX}request_rate",),
    "byte_rate": (f"{NODE_PREFIX}outgoing_byte_rate",),
    "error_total": (f"{_BROKER_PREFIX}txerrs_total",),
    "retry_total": (f"{_BROKER_PREFIX}txretries_total",),
    "latency_avg": (f"{NODE_PREFIX}request_latency_avg", f"{_BROKER_PREFIX}rtt_avg_ms"),
    "latency_max": (f"{NODE_PREFIX}request_latency_max", f"{_BROKER_PREFIX}rtt_max_ms"),
    "in_flight": (f"{_BROKER_PREFIX}waitresp_cnt",),
    "queue_time": (f"{_BROKER_PREFIX}int_latency_avg_ms",),
    "queue_time_max": (f"{_BROKER_PREFIX}int_latency_max_ms",),
    "throttle_time": (f"{_BROKER_PREFIX}throttle_avg_ms",),
}
_CLIENT_VALUES = {
    "record_total": (f"{CLIENT_PREFIX}record_send_total", f"{LIBRDKAFKA_PREFIX}txmsgs_total"),
    "error_total": (f"{CLIENT_PREFIX}record_error_total",),
    "retry_total": (f"{CLIENT_PREFIX}record_retry_total",),
    "buffer_wait_ns_total": (f"{CLIENT_PREFIX}bufferpool_wait_time_ns_total",),
    "produce_total": (f"{_BROKER_PREFIX}produce_total",),
    "batch_size_avg": (f"{CLIENT_PREFIX}batch_size_avg", f"{LIBRDKAFKA_PREFIX}topic_batchsize_avg_bytes"),
    "records_per_request_avg": (f"{CLIENT_PREFIX}records_per_request_avg",),
    "queue_time_avg": (f"{CLIENT_PREFIX}record_queue_time_avg",),
    "queue_time_max": (f"{CLIENT_PREFIX}record_queue_time_max",),
    "throttle_time_avg": (f"{CLIENT_PREFIX}produce_throttle_time_avg",),
    "throttle_time_max": (f"{CLIENT_PREFIX}produce_throttle_time_max",),
    "requests_in_flight": (f"{CLIENT_PREFIX}requests_in_flight",),
    "buffer_available": (f"{CLIENT_PREFIX}buffer_available_bytes",),
    "buffer_total": (f"{CLIENT_PREFIX}buffer_total_bytes", f"{LIBRDKAFKA_PREFIX}msg_size_max_bytes"),
    "buffer_used": (f"{LIBRDKAFKA_PREFIX}msg_size_bytes",),
    "queue_messages": (f"{LIBRDKAFKA_PREFIX}msg_max",),
}
_SUMMED = ("produce_total",)
_OF_TOPICS = ("record_total", "error_total", "retry_total")  # OpenTelemetry's agent has them by topic
_OF_NODE_TOO = [
    *("throttle_time_avg_ms", "queue_time_avg_ms", "queue_time_max_ms"),
    *("requests_in_flight", "error_rate_per_s", "retry_rate_per_s"),
]
"""Columns of the client, else of the broker's connection."""


def summarise_nodes(samples: pl.DataFrame, settings: SampleSettings) -> pl.DataFrame:
    """Summarises the samples of each window; those before the span serve to compare the first ones with."""
    named = samples.filter(pl.col("client_id").is_not_null())
    nodes = with_increases(
        _with_instants(read_node_values(named), named, _NODE_VALUES),
        ("request_total", "byte_total", "error_total", "retry_total"),
        (*_CLIENT, "node_id"),
        settings,
    )
    clients = with_increases(
        _with_instants(read_client_values(named), named, _CLIENT_VALUES),
        ("record_total", "error_total", "retry_total", "buffer_wait_ns_total", "produce_total"),
        _CLIENT,
        settings,
    )
    return _per_node(nodes).join(_per_client(clients), on=["window_start_ms", *_CLIENT], how="left")


def finish_nodes(
    nodes: pa.Table, *, precedence: Sequence[str], client_configs: Mapping[str, Mapping[str, str]]
) -> pa.Table:
    """Rows of `silver.producer_nodes`; of sources that hold a client the first in `precedence` counts."""
    order = {source: place for place, source in enumerate(precedence)}
    source = pl.col("source").replace_strict(order, default=len(order), return_dtype=pl.Int64)
    place = source * 2 + pl.col("node_is_pushed")
    nearest = (
        pl.DataFrame(nodes)
        .filter(place == place.min().over("window_start_ms", "client_id"))
        .with_columns(pl.coalesce(name, f"node_{name}") for name in _OF_NODE_TOO)
        .with_columns(instant(pl.col("window_start_ms")).alias("window_start"))
        .with_columns(instant(pl.col(name)) for name in ("inner_from", "inner_until"))
    )
    reported = nearest.select("client_id", "buffer_total_bytes", "node_queue_messages").to_dicts()
    configs = [_known_config(row, client_configs.get(row["client_id"], {})) for row in reported]
    columns = [name for name in nearest.columns if not name.startswith("node_") and name != "window_start_ms"]
    rows = nearest.select(columns).to_arrow()
    return rows.append_column("client_config", pa.array(configs, pa.map_(pa.string(), pa.string())))


def _values(names: Mapping[str, tuple[str, ...]]) -> dict[str, pl.Expr]:
    """One column per value: of several metrics of that meaning the largest, of counters of parts the sum; NaN is NULL already."""
    values = {}
    for column, sources in names.items():
        is_found, is_topic = pl.col("name").is_in(sources), pl.col("topic").is_not_null()
        summed = sum_in_order(pl.col("value").filter(is_found & (is_topic | (column in _SUMMED))).sort())
        largest = pl.col("value").filter(is_found & ~(is_topic & (column in _OF_TOPICS))).max()
        values[column] = summed if column in _SUMMED else pl.coalesce(largest, summed)
    return values


def read_node_values(samples: pl.DataFrame) -> pl.DataFrame:
    names = [name for sources in _NODE_VALUES.values() for name in sources]
    is_node = pl.col("node_id").str.contains(r"^node-(0|[1-9][0-9]{0,9})$")  # bootstrap ones are node--1, …
    return (
        samples.filter(pl.col("name").is_in(names) & is_node)
        .group_by(_SAMPLE)
        .agg(
            **_values(_NODE_VALUES),
            is_librdkafka=pl.col("name").str.starts_with(LIBRDKAFKA_PREFIX).any(),
            is_pushed=pl.col("client_instance_id").is_not_null().any(),
        )
        .with_columns(pl.col("node_id").str.extract(r"(\d+)$", 1).cast(pl.Int64).alias("broker_id"))
    )


def read_client_values(samples: pl.DataFrame) -> pl.DataFrame:
    names = [CLIENT_VERSION, *(name for sources in _CLIENT_VALUES.values() for name in sources)]
    # Rules that cache, as Confluent's do, give `<cache>`.
    is_version = (pl.col("name") == CLIENT_VERSION) & pl.col("version").str.contains(r"^\d")
    version = pl.col("version").filter(is_version).max()
    tells = {name: pl.col(name).max() for name in _TELLS}
    tells["client_version"] = pl.coalesce(version, tells.pop("client_software_version"))
    chosen = samples.filter(pl.col("name").is_in(names)).group_by(*_CLIENT, "observed_at_ms")
    available = pl.coalesce("buffer_available", pl.col("buffer_total") - pl.col("buffer_used"))
    return chosen.agg(**tells, **_values(_CLIENT_VALUES)).with_columns(available.alias("buffer_available"))


def _with_instants(values: pl.DataFrame, samples: pl.DataFrame, names: Mapping[str, tuple[str, ...]]) -> pl.DataFrame:
    """Adds when the client last started, where it says so, and when it was scraped before for such metrics."""
    alike = samples.filter(pl.col("name").is_in([name for sources in names.values() for name in sources]))
    started = samples.filter(pl.col("name").is_in(START_NAMES)).group_by(*_CLIENT, "observed_at_ms")
    starts = started.agg(pl.col("value").cast(pl.Int64).max().alias("started_at_ms"))
    return with_scrape_before(values.join(starts, on=[*_CLIENT, "observed_at_ms"], how="left"), _CLIENT, alike)


def _per_node(nodes: pl.DataFrame) -> pl.DataFrame:
    covered_ms = sum_in_order(pl.col("covered_ms"))
    from_ms = pl.col("observed_at_ms") - pl.col("covered_ms")
    is_inner = (from_ms >= pl.col("window_start_ms")) & (pl.col("gap_count") == 0)
    inner_from, inner_until = from_ms.filter(is_inner).min(), pl.col("observed_at_ms").filter(is_inner).max()
    is_whole = pl.col("covered_ms").filter(is_inner).sum() == inner_until - inner_from
    inner_bytes = pl.when(is_whole).then(sum_in_order(pl.col("byte_total_increase").filter(is_inner)))
    rates = {"node_error_rate_per_s": "error_total", "node_retry_rate_per_s": "retry_total"}
    means = {
        "request_latency_avg_ms": "latency_avg",
        "node_requests_in_flight": "in_flight",
        "node_queue_time_avg_ms": "queue_time",
        "node_throttle_time_avg_ms": "throttle_time",
    }
    return nodes.group_by(_PAIR, maintain_order=True).agg(
        pl.len().cast(pl.Int64).alias("sample_count"),
        sum_in_order(pl.col("request_total_increase")).alias("request_count"),
        sum_in_order(pl.col("byte_total_increase")).alias("outgoing_bytes"),
        pl.col("latency_max").max().alias("request_latency_max_ms"),
        pl.col("reset_count").sum().alias("counter_reset_count"),
        pl.col("gap_count").sum(),
        covered_ms.alias("covered_ms"),
        inner_bytes.alias("inner_bytes"),
        inner_from.alias("inner_from"),
        inner_until.alias("inner_until"),
        pl.coalesce(_rate("request_total"), mean_sorted(pl.col("request_rate"))).alias("request_rate_per_s"),
        pl.coalesce(_rate("byte_total"), mean_sorted(pl.col("byte_rate"))).alias("outgoing_rate_bytes_per_s"),
        pl.col("is_pushed").any().alias("node_is_pushed"),
        pl.col("queue_time_max").max().alias("node_queue_time_max_ms"),
        **{name: _rate(counter) for name, counter in rates.items()},
        **{name: mean_sorted(pl.col(value)) for name, value in means.items()},
    )


def _per_client(clients: pl.DataFrame) -> pl.DataFrame:
    rise = {name: sum_in_order(pl.col(f"{name}_total_increase")) for name in ("record", "produce", "buffer_wait_ns")}
    means = {
        "batch_size_avg_bytes": "batch_size_avg",
        "queue_time_avg_ms": "queue_time_avg",
        "throttle_time_avg_ms": "throttle_time_avg",
        "requests_in_flight": "requests_in_flight",
    }
    per_request = pl.coalesce(mean_sorted(pl.col("records_per_request_avg")), divide(rise["record"], rise["produce"]))
    return clients.group_by("window_start_ms", *_CLIENT, maintain_order=True).agg(
        per_request.alias("records_per_request_avg"),
        pl.col("buffer_available").min().alias("buffer_available_bytes"),
        pl.col("buffer_total").max().alias("buffer_total_bytes"),
        pl.col("throttle_time_max").max().alias("throttle_time_max_ms"),
        pl.col("queue_time_max").max().alias("queue_time_max_ms"),
        pl.col("queue_messages").max().alias("node_queue_messages"),
        *(pl.col(name).max() for name in ("client_version", "client_software_name", "client_rack")),
        divide(divide_by(rise["buffer_wait_ns"], 1e9), _observed_s()).alias("buffer_blocked_ratio"),
        _rate("error_total").alias("error_rate_per_s"),
        _rate("retry_total").alias("retry_rate_per_s"),
        _rate("record_total").alias("record_rate_per_s"),
        **{name: mean_sorted(pl.col(value)) for name, value in means.items()},
    )


def _rate(counter: str) -> pl.Expr:
    return divide(sum_in_order(pl.col(f"{counter}_increase")), _observed_s())


def _observed_s() -> pl.Expr:
    return divide_by(sum_in_order(pl.col("covered_ms")), 1000)


def _known_config(row: Mapping[str, Any], configured: Mapping[str, str]) -> list[tuple[str, str]] | None:
    total, messages = row["buffer_total_bytes"], row["node_queue_messages"]
    known: dict[str, str] = {}
    if total is not None and messages is None:
        known["buffer.memory"] = str(int(total))
    if total is not None and messages is not None:
        known["queue.buffering.max.kbytes"] = str(int(int(total) / 1024))
    if messages is not None:
        known["queue.buffering.max.messages"] = str(int(messages))
    others = {name: value for name, value in known.items() if name not in configured}
    return [*others.items(), *sorted(configured.items())] or None
