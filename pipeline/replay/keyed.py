"""The keyed replay over Spark: files of `silver.key_traffic` and `silver.key_hashes` to sums per candidate.

Two stages. Tasks read files and cut them into buckets of keys; then each bucket is joined with its hashes and every
candidate is placed, all in one pass over the rows. What a task holds is one bucket.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql.types import BinaryType, IntegerType, StructField, StructType

from pipeline.replay.buckets import Sums, replay_bucket, sum_unnamed
from pipeline.replay.packing import ANSWERS, HASHES, TRAFFIC, UNNAMED, pack_files, unpack

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import DataFrame

    from pipeline.replay.packing import ReadFile
    from pipeline.replay.plan import ReplayPlan

SUMS = StructType(
    [
        StructField("topic", IntegerType()),
        StructField("window", IntegerType()),
        StructField("placing", IntegerType()),
        StructField("width", IntegerType()),
        StructField("cells", BinaryType()),
        StructField("totals", BinaryType()),
    ]
)


def replay_keys(files: DataFrame, plan: ReplayPlan, read_file: ReadFile) -> DataFrame:
    """Places all recorded keys under all candidates.

    Args:
        files: `content` (`traffic`, `hashes`, `answers`) and `path` of every file with rows of the plan's windows.
        plan: What is to be replayed.
        read_file: Gives a file's rows; called where the tasks run.

    Returns:
        Partial `Sums`, numbers as little-endian int64; `merge_sums` adds them up.
    """

    def replay(bucket: pa.Table) -> pa.Table:
        payloads: dict[str, list[bytes]] = {}
        for content, payload in zip(bucket["content"].to_pylist(), bucket["payload"].to_pylist(), strict=True):
            payloads.setdefault(content, []).append(payload)
        columns = {content: unpack(found) for content, found in payloads.items()}
        found: Iterator[Sums] = iter(())
        if UNNAMED in columns:
            found = sum_unnamed(plan, columns[UNNAMED])
        elif TRAFFIC in columns:
            found = replay_bucket(plan, columns[TRAFFIC], columns.get(HASHES, {}), columns.get(ANSWERS, {}))
        return _as_table(found)

    return pack_files(files, plan, read_file).groupBy("bucket").applyInArrow(replay, SUMS)


def merge_sums(partial: pa.Table) -> dict[tuple[int, int, int], list[Sums]]:
    """Groups collected rows by topic, window and placing."""
    merged: dict[tuple[int, int, int], list[Sums]] = {}
    columns = [partial[field.name].to_pylist() for field in SUMS]
    for topic, window, placing, width, cells, totals in zip(*columns, strict=True):
        sums = Sums(
            topic,
            window,
            placing,
            np.frombuffer(cells, dtype="<i8").reshape(-1, width),
            np.frombuffer(totals, dtype="<i8"),
        )
        merged.setdefault((topic, window, placing), []).append(sums)
    return merged


def _as_table(found: Iterable[Sums]) -> pa.Table:
    rows = list(found)
    return pa.table(
        {
            "topic": pa.array([row.topic for row in rows], pa.int32()),
            "window": pa.array([row.window for row in rows], pa.int32()),
            "placing": pa.array([row.placing for row in rows], pa.int32()),
            "width": pa.array([row.cells.shape[1] for row in rows], pa.int32()),
            "cells": pa.array([row.cells.astype("<i8").tobytes() for row in rows], pa.binary()),
            "totals": pa.array([row.totals.astype("<i8").tobytes() for row in rows], pa.binary()),
        }
    )
