"""When records were created."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pipeline.jobs.ingest.found import reads_arrivals
from pipeline.jobs.ingest.windows import fresh_windows
from pipeline.jobs.ingest.writing import clear, replace_fresh
from pipeline.sources.live.frames import live_arrivals
from pipeline.sources.records.arrival_frames import arrival_frame
from pipeline.sources.records.record_options import PSEUDONYMOUS
from pipeline.tables.arrivals import ARRIVALS
from pipeline.transforms.arrivals import join_arrivals

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pipeline.jobs.ingest.found import Found
    from pipeline.model.window import TimeWindow
    from pipeline.runs import RunContext


def write_arrivals(
    spark: SparkSession, run: RunContext, found: Found, expired: dict[str, set[TimeWindow]]
) -> dict[str, int]:
    """When each record was created, how large it was and which key it had, by producer session.

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
    if not reads_arrivals(run, found.reading):
        clear(run, ARRIVALS, fresh)
        return {}  # nobody vouches for arrivals that were not read
    live = found.reading.live
    chunks = arrival_frame(spark, run, found.reads) if found.fetched is None else live_arrivals(found.fetched)
    joined = join_arrivals(
        chunks.where(F.col("window_start_ms").isin([window.start_ms for window in fresh])),
        run.cluster_name,
        is_named=run.config.keys.mode == PSEUDONYMOUS,
        sampling_rate=1.0 if live is None else live.source.sampling.time * live.source.sampling.partitions,
    )
    record_count = sum(row["record_count"] for row in found.window_rows())
    return {ARRIVALS.name: replace_fresh(run, ARRIVALS, joined, fresh, record_count)}
