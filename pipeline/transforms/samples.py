"""From samples of metrics to the tables made of them: `bronze.metric_samples`, producers, brokers, and what arrived when."""

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from pipeline.model.window import TimeWindow
from pipeline.tables.broker_metrics import BROKER_METRICS, BROKER_REQUEST_TIMES, BROKER_TOPICS
from pipeline.tables.silver import PRODUCER_NODES
from pipeline.transforms import broker_metrics, producer_nodes
from pipeline.transforms.broker_metrics import BrokerSamples
from pipeline.transforms.counters import SampleSettings
from pipeline.transforms.producer_nodes import summarise_nodes

COUNTS, PROBLEMS = "counts", "problems"  # names of what `summarise_samples` gives besides tables
POINT = ("source", "instance", "observed_at_ms", "name", "labels_text")  # columns of the key of `bronze.metric_samples`
REPEATED = "points of a series are given more than once: the largest value of each counts"
INSTANCE = ("source", "instance")  # columns that name whose samples are summarised together
_LABELS = dict.fromkeys((*producer_nodes.LABELS, *broker_metrics.LABELS))


def summarise_samples(samples: pa.Table, settings: SampleSettings) -> dict[str, pa.Table]:
    """All that is derived from the samples of some instances, rows of `SAMPLE_SCHEMA`, by table, without cluster."""
    given = samples.filter(pc.equal(samples["row_kind"], "sample"))
    sums = with_labels(keep_one(given))
    at = pl.col("observed_at_ms")
    counts = sums.group_by(*INSTANCE, (at - at % settings.window_ms).alias("start_ms")).agg(
        pl.len().cast(pl.Int64).alias("row_count"),
        at.n_unique().cast(pl.Int64).alias("instant_count"),
        at.min().alias("first_ms"),
        at.max().alias("last_ms"),
    )
    summaries = {COUNTS: counts, PRODUCER_NODES.name: summarise_nodes(sums, settings)}
    if settings.has_brokers:
        brokers = BrokerSamples(sums, settings)
        summaries |= {
            BROKER_METRICS.name: brokers.summarise_brokers(),
            BROKER_TOPICS.name: brokers.summarise_topics(),
            BROKER_REQUEST_TIMES.name: brokers.summarise_request_times(),
        }
    tables = {name: _plain(frame.to_arrow()) for name, frame in summaries.items()}
    problems = samples.filter(pc.equal(samples["row_kind"], "problem"))
    # a problem for each instance that gives points of a series again
    points = pl.DataFrame(given.select([*POINT, "path"]))
    repeated = points.filter(points.select(POINT).is_duplicated())
    found = repeated.group_by(*INSTANCE).agg(pl.col("observed_at_ms").min(), pl.col("path").min()).sort(*INSTANCE)
    rows = [
        {**row, "row_kind": "problem", "reason": REPEATED, "severity": "suspect", "first_bytes_hex": ""}
        for row in found.to_dicts()
    ]
    return {**tables, PROBLEMS: pa.concat_tables([problems, pa.Table.from_pylist(rows, schema=given.schema)])}


def keep_one(samples: pa.Table) -> pa.Table:
    """Samples without those that give a point of a series again: the largest value counts."""
    points = pl.DataFrame(samples.select([*POINT, "value", "exposed_name"])).with_row_index("place")
    if not points.select(POINT).is_duplicated().any():
        return samples
    kept = points.sort("value", "exposed_name", nulls_last=False).unique(POINT, keep="last", maintain_order=True)
    return samples.take(kept["place"].sort().to_arrow())


def _plain(rows: pa.Table) -> pa.Table:
    kinds = [f.with_type(pa.string()) if pa.types.is_large_string(f.type) else f for f in rows.schema]
    return rows.cast(pa.schema(kinds))


def with_labels(samples: pa.Table) -> pl.DataFrame:
    """Samples with a column for each label that the summaries look at, in place of the map `labels`."""
    labels = samples["labels"]
    columns = {name: pc.map_lookup(labels, pa.scalar(name), "first") for name in _LABELS}
    plain = samples.select([*INSTANCE, "observed_at_ms", "name", "value"])
    return pl.DataFrame(pa.table([*plain.columns, *columns.values()], names=[*plain.column_names, *columns]))


def select_samples(samples: DataFrame, span: TimeWindow, window_ms: int, *, has_repeated: bool = False) -> DataFrame:
    """Rows of `bronze.metric_samples` without cluster: the samples within the span, each point once (`keep_one`)."""
    at = F.col("observed_at_ms")
    wanted = (F.col("row_kind") == "sample") & (at >= span.start_ms) & (at < span.end_ms)
    taken = samples.where(wanted)
    if has_repeated:  # some points are given again
        best = Window.partitionBy(*POINT).orderBy(F.desc_nulls_last("value"), F.desc("exposed_name"))
        taken = taken.withColumn("place", F.row_number().over(best)).where(F.col("place") == 1)
    return taken.select(
        F.timestamp_millis(at - at % window_ms).alias("window_start"),
        F.timestamp_millis(at).alias("observed_at"),
        *("source", "instance", "name", "exposed_name", "labels_text", "labels", "value"),
    )
