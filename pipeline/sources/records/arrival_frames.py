"""Recorded arrivals as a Spark frame."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pipeline.sources.files.segment_plan import format_plan
from pipeline.sources.records.arrival_source import SLICES, SOURCE_NAME, ArrivalSource
from pipeline.sources.records.record_options import record_options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

    from pipeline.model.window import TimeWindow
    from pipeline.runs import RunContext
    from pipeline.sources.files.segment_plan import SegmentRead


def arrival_options(run: RunContext, slices: Sequence[TimeWindow] = ()) -> dict[str, str]:
    """Options of `kafka_arrivals` (and `kafka_live_batches`) that say what is read and stored: all but the plan.

    Args:
        run: Says which windows, and what is stored about keys.
        slices: Of a sampled source the times that are read.

    Raises:
        ConfigError: The secret cannot be made or read.
    """
    return {**record_options(run), SLICES: json.dumps([(piece.start_ms, piece.end_ms) for piece in slices])}


def arrival_frame(spark: SparkSession, run: RunContext, reads: Sequence[SegmentRead]) -> DataFrame:
    """Rows of `kafka_arrivals` over the segments, for the run's windows; see there.

    Args:
        spark: Session.
        run: Says which windows, and what is stored about keys.
        reads: Segments to scan.

    Raises:
        ConfigError: The secret cannot be made or read.
    """
    spark.dataSource.register(ArrivalSource)
    options = {
        "plan": format_plan(reads),
        "spark_partitions": str(spark.sparkContext.defaultParallelism),
        **arrival_options(run),
    }
    return spark.read.format(SOURCE_NAME).options(**options).load()
