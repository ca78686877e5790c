"""Compares candidates topic by topic: tasks take a topic's runs and its traffic, and write the rows of the replay's tables."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.engine import count_task_slots
from pipeline.model.window import TimeWindow
from pipeline.replay.recorded import TopicWindow
from pipeline.replay.rows import TABLES, list_rows
from pipeline.replay.simulated.runs import TOPIC, make_run_rows
from pipeline.replay.topics import TopicInput, replay_topic
from pipeline.runs import RunContext, TableRows
from pipeline.stages import Parts, map_groups, pack_value, unpack_value
from pipeline.storage.file_writer import WRITTEN
from pipeline.tables.silver import PARTITION_TRAFFIC

_NO_GROUP = -1  # in the row that holds the topic itself
_TRAFFIC_COLUMNS = (
    *("topic", "topic_id", "partition", "leader_id", "leader_epoch", "first_offset", "record_count", "batch_count"),
    *("size_bytes", "missing_offset_count", "compacted_record_count", "is_compacted", "crc_error_count"),
)


def pack_topics(topics: Iterable[TopicInput]) -> pa.Table:
    """A row of `RUN_SCHEMA` for each topic, beside those of its runs."""
    return make_run_rows([(*topic.where, _NO_GROUP, 0, 0, pack_value(topic)) for topic in topics])


def compare_candidates(run: RunContext, parts: Parts, windows: Sequence[TimeWindow]) -> dict[str, int]:
    """Replaces the windows' rows in the replay's tables; returns versions by table.

    `parts`: topics and their runs, rows of `RUN_SCHEMA`.
    """
    kernel = run.to_files(partial(_compare_topics, run), TABLES, windows)
    compared = map_groups(parts.frame(), TOPIC, count_task_slots(parts.spark), kernel, WRITTEN)
    return run.replace_by_files("compare candidates", compared, TABLES, windows)


def _compare_topics(run: RunContext, rows: pa.Table) -> TableRows:
    """Kernel: rows of some topics and their runs to rows of tables."""
    topics: list[TopicInput] = []
    packed: dict[TopicWindow, list[tuple[int, int, int, bytes]]] = defaultdict(list)
    for start_ms, topic, topic_id, group, candidate, seed, value in zip(
        *(c.to_pylist() for c in rows.columns), strict=True
    ):
        if group == _NO_GROUP:
            topics.append(unpack_value(value))
        else:
            packed[start_ms, topic, topic_id].append((group, candidate, seed, value))
    traffic = load_traffic(run, {topic.where for topic in topics})
    for topic in sorted(topics, key=lambda topic: topic.where):
        results = [
            (group, candidate, seed, unpack_value(value)) for group, candidate, seed, value in packed[topic.where]
        ]
        replayed = replay_topic(topic, traffic[topic.where], topic.merge_runs(results))
        yield from ((table.name, listed) for table, listed in list_rows(topic, replayed).items())


def load_traffic(run: RunContext, wanted: set[TopicWindow]) -> dict[TopicWindow, list[dict[str, Any]]]:
    """Rows of `silver.partition_traffic` of some topics in their windows."""
    traffic: dict[TopicWindow, list[dict[str, Any]]] = defaultdict(list)
    for start_ms in sorted({start_ms for start_ms, _, _ in wanted}):
        stored = run.load(PARTITION_TRAFFIC, (run.window_at(start_ms),), _TRAFFIC_COLUMNS)
        names = pa.array({topic for _, topic, _ in wanted}, stored.schema.field("topic").type)
        for row in stored.filter(pc.is_in(stored["topic"], names)).to_pylist():
            traffic[start_ms, row["topic"], row["topic_id"]].append(row)
    return traffic
