"""From samples of metrics to the tables made of them: `bronze.metric_samples`, producers, brokers, and what arrived when."""

from __future__ import annotations

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.model.window import TimeWindow
from pipeline.tables.broker_metrics import BROKER_METRICS, BROKER_REQUEST_TIMES, BROKER_TOPICS
from pipeline.tables.silver import PRODUCER_NODES
from pipeline.transforms import broker_metrics, producer_nodes
from pipeline.transforms.arithmetic import instant
from pipeline.transforms.broker_metrics import BrokerSamples
from pipeline.transforms.counters import SampleSettings
from pipeline.transforms.producer_nodes import summarise_nodes

COUNTS, PROBLEMS = "counts", "problems"  # names of what `summarise_samples` gives besides tables
INSTANCE = ("source", "instance")  # columns that name whose samples are summarised together
_LABELS = (*producer_nodes.LABELS, *broker_metrics.LABELS)


def summarise_samples(samples: pa.Table, settings: SampleSettings) -> dict[str, pa.Table]:
    """Everything that is derived from all samples of some instances, rows of `SAMPLE_SCHEMA`.

    Returns:
        By table name, without cluster; `silver.producer_nodes` is to be finished by `producer_nodes.finish_nodes`.
        Problems are rows of `SAMPLE_SCHEMA`; counts have the columns source, instance, start_ms, row_count,
        instant_count, first_ms and last_ms.
    """
    is_sample = pc.equal(samples["row_kind"], "sample")
    found = with_labels(samples.filter(is_sample))
    at = pl.col("observed_at_ms")
    counts = found.group_by(*INSTANCE, (at - at % settings.window_ms).alias("start_ms")).agg(
        pl.len().cast(pl.Int64).alias("row_count"),
        at.n_unique().cast(pl.Int64).alias("instant_count"),
        at.min().alias("first_ms"),
        at.max().alias("last_ms"),
    )
    summaries = {COUNTS: counts, PRODUCER_NODES.name: summarise_nodes(found, settings)}
    if settings.has_brokers:
        brokers = BrokerSamples(found, settings)
        summaries |= {
            BROKER_METRICS.name: brokers.summarise_brokers(),
            BROKER_TOPICS.name: brokers.summarise_topics(),
            BROKER_REQUEST_TIMES.name: brokers.summarise_request_times(),
        }
    tables = {name: frame.to_arrow() for name, frame in summaries.items()}
    return {**tables, PROBLEMS: samples.filter(pc.equal(samples["row_kind"], "problem"))}


def with_labels(samples: pa.Table) -> pl.DataFrame:
    """Samples with a column for each label that the summaries look at, in place of the map `labels`."""
    labels = samples["labels"]
    columns = {name: pc.map_lookup(labels, pa.scalar(name), "first") for name in _LABELS}
    plain = samples.select([*INSTANCE, "observed_at_ms", "name", "value"])
    return pl.DataFrame(pa.table([*plain.columns, *columns.values()], names=[*plain.column_names, *columns]))


def select_samples(samples: pa.Table, span: TimeWindow, window_ms: int) -> pa.Table:
    """Rows of `bronze.metric_samples` without cluster: the samples (of `SAMPLE_SCHEMA`) within the span."""
    at = samples["observed_at_ms"]
    wanted = pc.and_(pc.greater_equal(at, span.start_ms), pc.less(at, span.end_ms))
    rows = samples.filter(pc.and_(wanted, pc.equal(samples["row_kind"], "sample")))
    at = pl.col("observed_at_ms")
    instants = pl.DataFrame(rows.select(["observed_at_ms"])).select(
        instant(at - at % window_ms).alias("window_start"), instant(at).alias("observed_at")
    )
    kept = rows.select(["source", "instance", "name", "exposed_name", "labels_text", "labels", "value"])
    return pa.table([*instants.to_arrow().columns, *kept.columns], names=[*instants.columns, *kept.column_names])
