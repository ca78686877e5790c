"""The producer sessions of some windows: listed, and looked at by tasks that read them from the tables' files."""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.calibration.partitioner.baseline import ConfiguredProducer
from pipeline.replay.calibrated import (
    ARRIVAL_COLUMNS,
    BATCH_COLUMNS,
    CalibrationPlan,
    SessionFinding,
    find_sessions,
    in_order,
)
from pipeline.replay.plan import strategy_in_use
from pipeline.replay.producers import is_simulated
from pipeline.replay.units import deal
from pipeline.storage.files import iter_file_rows, list_files, read_window_rows
from pipeline.tables.arrivals import ARRIVALS
from pipeline.tables.silver import RECORD_BATCHES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql import SparkSession

    from pipeline.model.window import TimeWindow
    from pipeline.replay.calibrated import Session
    from pipeline.replay.results import ClusterFacts
    from pipeline.runs import RunContext

_TASKS_PER_CORE = 3
_SESSION_RECORDS = 20_000
"""What looking at a session costs, in records."""
_LISTED = ("window_start", "producer_id", "producer_epoch", "record_count")


def look_at_sessions(
    spark: SparkSession,
    run: RunContext,
    windows: Sequence[TimeWindow],
    cluster: ClusterFacts,
    key_families: Mapping[tuple[int, str, str], str],
) -> list[SessionFinding]:
    """What every producer session of some windows uses.

    Args:
        spark: Session.
        run: What the run is about.
        windows: Which windows.
        cluster: Leaders.
        key_families: Which hash placed a topic's keys, by start of the window, topic and topic id.

    Returns:
        A finding for each session and topic; none where no arrivals are stored, or `replay.arrivals` is off.
    """
    if not run.config.replay.arrivals:
        return []
    arrivals = list_files(run.warehouse, ARRIVALS, run.cluster_name, windows)
    sessions = _list_sessions(arrivals, windows)
    if not sessions:
        return []
    plan = CalibrationPlan(
        partition_counts={place: sum(leader >= 0 for leader in led.values()) for place, led in cluster.leaders.items()},
        key_families=key_families,
        configured=_configured(run, {topic for _, topic, _ in cluster.leaders}),
    )
    batches = list_files(run.warehouse, RECORD_BATCHES, run.cluster_name, windows)
    tasks = deal([_SESSION_RECORDS + count for count in sessions.values()], count_tasks(spark))
    listed = list(sessions)
    find = partial(
        find_sessions,
        plan=plan,
        read_arrivals=partial(read_sessions, arrivals, ARRIVAL_COLUMNS),
        read_batches=partial(read_sessions, batches, BATCH_COLUMNS, every_epoch=True),
    )
    dealt = [tuple(listed[piece] for piece in task) for task in tasks]
    return in_order(spark.sparkContext.parallelize(dealt, len(dealt)).flatMap(find).collect())


def count_tasks(spark: SparkSession) -> int:
    """How many tasks keep every core busy to the end."""
    return _TASKS_PER_CORE * spark.sparkContext.defaultParallelism


def read_sessions(
    paths: Sequence[str],
    columns: Sequence[str],
    start_ms: int,
    sessions: Iterable[tuple[int, int]],
    *,
    every_epoch: bool = False,
) -> pa.Table:
    """Rows of some sessions in a window; called where tasks run.

    Args:
        paths: Files of the table.
        columns: Which columns.
        start_ms: Start of the window.
        sessions: Producer ids and epochs.
        every_epoch: Rows of the other epochs too: arrivals pool those of transactional producers.
    """
    wanted = set(sessions)
    rows = read_window_rows(paths, columns, start_ms, {"producer_id": sorted({one for one, _ in wanted})})
    if every_epoch:
        return rows
    pairs = zip(rows["producer_id"].to_pylist(), rows["producer_epoch"].to_pylist(), strict=True)
    is_wanted = [pair in wanted for pair in pairs]
    return rows if all(is_wanted) else rows.filter(pa.array(is_wanted, pa.bool_()))  # a filter copies


def _list_sessions(paths: Sequence[str], windows: Sequence[TimeWindow]) -> dict[Session, int]:
    """Records by session, in order of window, producer id and epoch."""
    wanted = {window.start_ms for window in windows}
    counts: dict[Session, int] = defaultdict(int)
    for path in paths:
        for batch in iter_file_rows(path, _LISTED):
            starts = pc.cast(batch["window_start"], pa.timestamp("ms"), safe=False).cast(pa.int64())
            columns = (starts, *(batch[name] for name in _LISTED[1:]))
            for start_ms, producer_id, epoch, count in zip(*(c.to_pylist() for c in columns), strict=True):
                if start_ms in wanted:
                    counts[start_ms, producer_id, epoch] += count
    return dict(sorted(counts.items()))


def _configured(run: RunContext, topics: Iterable[str]) -> dict[str, ConfiguredProducer]:
    """What the configuration says of a topic's producers: strategies that the simulator follows."""
    found = {}
    for topic in topics:
        strategy = strategy_in_use(run.cluster.partitioners, topic)
        if strategy is not None and is_simulated(strategy):
            found[topic] = ConfiguredProducer(strategy=strategy)
    return found
