"""What the newest replayed window says, in a few lines. No Spark: the tables are small."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deltalake import DeltaTable

from pipeline.replay_settings import IN_USE
from pipeline.storage.rows import load_rows
from pipeline.storage.tables_on_disk import table_path
from pipeline.tables.replay import HASH_VERDICTS
from pipeline.tables.scenario_comparison import SCENARIO_COMPARISON

if TYPE_CHECKING:
    from pathlib import Path


def describe_replay(warehouse: Path) -> list[str]:
    """A line per topic with keys, of the newest window: the verdict on its hash, and the keys each candidate would move.

    Args:
        warehouse: Folder of all tables; nothing is said where nothing was replayed.
    """
    if not DeltaTable.is_deltatable(str(table_path(warehouse, HASH_VERDICTS))):
        return []
    verdicts = _newest(load_rows(warehouse, HASH_VERDICTS).to_pylist())
    comparison = _newest(load_rows(warehouse, SCENARIO_COMPARISON).to_pylist())
    lines = []
    for row in verdicts:
        topic = row["cluster"], row["topic"], row["topic_id"]
        found = [other for other in comparison if (other["cluster"], other["topic"], other["topic_id"]) == topic]
        moved = [
            f"{other['candidate']} {other['keys_moved_ratio']:.0%}"
            for other in found
            if other["candidate"] != IN_USE and other["keys_moved_ratio"] is not None
        ]
        if row["record_count"]:
            lines.append(f"{row['topic']}: {row['verdict']}; keys that would move: {', '.join(moved) or 'not known'}")
    return lines


def _newest(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    newest = max((row["window_start"] for row in rows), default=None)
    kept = (row for row in rows if row["window_start"] == newest)
    return sorted(kept, key=lambda row: (row["topic"], row["topic_id"], row.get("candidate", "")))
