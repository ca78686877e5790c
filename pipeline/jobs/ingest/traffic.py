"""Record batches, and what the partitions got."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.jobs.ingest.windows import fresh_windows
from pipeline.jobs.ingest.writing import replace_fresh
from pipeline.sources.files.cluster_rows import compacted_topics
from pipeline.sources.live.frames import offset_traffic_frame
from pipeline.sources.records.frames import leader_epoch_frame
from pipeline.storage.delta import load
from pipeline.storage.predicates import format_predicate
from pipeline.tables.silver import PARTITION_TRAFFIC, RECORD_BATCHES
from pipeline.transforms.batches import as_record_batches, with_leader, with_window
from pipeline.transforms.traffic import summarise_traffic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pipeline.jobs.ingest.found import Found
    from pipeline.model.window import TimeWindow
    from pipeline.runs import RunContext


def write_traffic(
    spark: SparkSession, run: RunContext, found: Found, expired: dict[str, set[TimeWindow]]
) -> dict[str, int]:
    """Record batches, then what the partitions got: summed up from the batches as they were stored.

    Args:
        spark: Session.
        run: What the run is about.
        found: What it found.
        expired: Windows that keep what is stored, by source.

    Returns:
        Versions of the tables written.
    """
    fresh = fresh_windows(run, expired.get(found.reading.record_source, set()))
    if not fresh:
        return {}
    batches = with_window(found.batches, run.window_ms)
    led = with_leader(batches, leader_epoch_frame(spark, found.reading.history))
    record_batches = as_record_batches(led, run.cluster_name)
    batch_count = found.count(found.reading.record_source)
    versions = {RECORD_BATCHES.name: replace_fresh(run, RECORD_BATCHES, record_batches, fresh, batch_count)}
    stored = load(spark, run.warehouse, RECORD_BATCHES).where(format_predicate(RECORD_BATCHES, run.cluster_name, fresh))
    compacted = compacted_topics(found.reading.history.state_at(run.as_of_ms), found.reading.tree)
    live = found.reading.live
    rate = 1.0 if live is None else live.source.sampling.time
    traffic = summarise_traffic(stored, compacted, run.cluster.batch_size_bytes, sampling_rate=rate)
    if live is not None and live.offset_traffic:
        by_offsets = offset_traffic_frame(
            spark,
            live,
            cluster=run.cluster_name,
            compacted=compacted,
            batch_size_bytes=run.cluster.batch_size_bytes,
        )
        traffic = traffic.unionByName(by_offsets, allowMissingColumns=True)
    return versions | {PARTITION_TRAFFIC.name: replace_fresh(run, PARTITION_TRAFFIC, traffic, fresh)}
