"""What the newest replayed window says, in a few lines. No Spark: the tables are small."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deltalake import DeltaTable

from pipeline.replay_settings import IN_USE
from pipeline.storage.rows import load_rows
from pipeline.storage.tables_on_disk import table_path
from pipeline.tables.back_tests import BACK_TESTS
from pipeline.tables.replay import HASH_VERDICTS, REPLAY_BROKERS
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


def describe_shares(warehouse: Path) -> list[str]:
    """A line per topic with records without a key, of the window in which its worst broker had most: shares of that broker.

    Args:
        warehouse: Folder of all tables; nothing is said where nothing was simulated.
    """
    if not DeltaTable.is_deltatable(str(table_path(warehouse, BACK_TESTS))):
        return []
    tests = {_place(row): row for row in load_rows(warehouse, BACK_TESTS).to_pylist()}
    simulated = {_place(row) for row in load_rows(warehouse, SCENARIO_COMPARISON).to_pylist() if _is_keyless(row)}
    by_place: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in load_rows(warehouse, REPLAY_BROKERS).to_pylist():
        if _place(row) in simulated and row["recorded_log_share"] is not None:
            by_place.setdefault(_place(row), []).append(row)
    worst: dict[tuple[Any, ...], dict[str, Any]] = {}
    for rows in by_place.values():
        found = max((row for row in rows if row["candidate"] == IN_USE), key=_observed, default=None)
        topic = None if found is None else (found["cluster"], found["topic"], found["topic_id"])
        if (
            found is not None
            and topic is not None
            and (topic not in worst or _observed(found) > _observed(worst[topic]))
        ):
            worst[topic] = found
    return [_describe_share(row, by_place[_place(row)], tests.get(_place(row), {})) for _, row in sorted(worst.items())]


def _describe_share(worst: dict[str, Any], rows: list[dict[str, Any]], tested: dict[str, Any]) -> str:
    candidates = [row for row in rows if row["broker_id"] == worst["broker_id"] and row["log_share"] is not None]
    told = ", ".join(
        f"{row['candidate']} {_range(row)}" for row in sorted(candidates, key=lambda row: row["candidate"])
    )
    error = tested.get("share_error_points")
    off = "" if error is None else f"; back-test {error:.1f} points off, {str(tested['trust']).split(':')[0]}"
    return (
        f"{worst['topic']} at {worst['window_start']:%H:%M}, broker {worst['broker_id']}: observed {_observed(worst):.1%};"
        f" predicted (5 to 95 % of the seeds): {told}{off}"
    )


def _range(row: dict[str, Any]) -> str:
    return f"{row['log_share']:.1%} ({row['log_share_low']:.1%}-{row['log_share_high']:.1%})"


def _observed(row: dict[str, Any]) -> float:
    return float(row["recorded_log_share"])


def _is_keyless(row: dict[str, Any]) -> bool:
    return row["candidate"] == IN_USE and row["seed_count"] is not None and row["keyless_record_count"] > 0


def _place(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("cluster", "window_start", "topic", "topic_id"))


def _newest(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    newest = max((row["window_start"] for row in rows), default=None)
    kept = (row for row in rows if row["window_start"] == newest)
    return sorted(kept, key=lambda row: (row["topic"], row["topic_id"], row.get("candidate", "")))
