"""The replay of a recording, in two tables that fit a terminal. No Spark: the tables read are small."""

import textwrap
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

from pipeline.cli.terminal import format_table, show_table, text_width
from pipeline.config.replay import IN_USE
from pipeline.config.storage import Folder
from pipeline.storage.durability import has_table
from pipeline.storage.rows import load_rows
from pipeline.storage.tables_on_disk import table_path
from pipeline.tables import Table
from pipeline.tables.replay import BACK_TESTS, HASH_VERDICTS, REPLAY_BROKERS, SCENARIO_COMPARISON

Row = Mapping[str, Any]

_WIDTH = 98
_TOPICS_PER_TABLE = 3
_NONE = "-"
_TIE = "\N{NO-BREAK SPACE}"  # where no line ends


def describe_keys(warehouse: Folder) -> list[str]:
    """A line per topic with keys, of the newest window: the verdict on its hash, and the keys each candidate would move; none where nothing was replayed."""
    return format_keys(_load(warehouse, HASH_VERDICTS), _load(warehouse, SCENARIO_COMPARISON))


def describe_shares(warehouse: Folder) -> list[str]:
    """Tables of records without a key, in the window in which a broker had most of such a topic: topics by candidates; none where nothing was simulated."""
    return format_shares(*(_load(warehouse, table) for table in (REPLAY_BROKERS, SCENARIO_COMPARISON, BACK_TESTS)))


def format_keys(verdicts: Sequence[Row], comparison: Sequence[Row]) -> list[str]:
    """Lines of `describe_keys`, from rows of `gold.hash_verdicts` and `gold.scenario_comparison`."""
    newest = max((row["window_start"] for row in verdicts), default=None)
    found = [row for row in verdicts if row["window_start"] == newest and row["record_count"]]
    if not found:
        return []
    found.sort(key=lambda row: (row["topic"], row["topic_id"]))
    header = ["topic", "placed by", "keys that would move to another partition"]
    starts = format_table(header, [[row["topic"], row["verdict"], ""] for row in found]).splitlines()
    indent = starts[0].index(header[-1])
    lines = starts[:1]
    for start, row in zip(starts[1:], found, strict=True):
        text = _describe_moves([other for other in comparison if _place(other) == _place(row)])
        wrapped = textwrap.wrap(text, max(20, text_width(_WIDTH) - indent), break_on_hyphens=False)
        lines += [f"{left:<{indent}}{right}" for left, right in zip_longest([start], wrapped, fillvalue="")]
    return [line.replace(_TIE, " ") for line in lines]


def _describe_moves(candidates: Sequence[Row]) -> str:
    """84 % librdkafka; 51 % twice-the-partitions."""
    names: dict[int, list[str]] = defaultdict(list)
    for row in sorted(candidates, key=lambda row: row["candidate"]):
        if row["candidate"] != IN_USE and row["keys_moved_ratio"] is not None:
            names[round(100 * row["keys_moved_ratio"])].append(row["candidate"])
    if not names:
        return "not known"
    tied = {percent: [name.replace(" ", _TIE) for name in found] for percent, found in names.items()}
    moving = (f"{percent}{_TIE}% {' / '.join(tied[percent])}" for percent in sorted(tied, reverse=True) if percent)
    return "; ".join(moving) or "none"


def format_shares(brokers: Sequence[Row], comparison: Sequence[Row], back_tests: Sequence[Row]) -> list[str]:
    """Lines of `describe_shares`, from rows of `gold.replay_brokers`, `gold.scenario_comparison`, `gold.back_tests`."""
    simulated = {_place(row) for row in comparison if _is_keyless(row)}
    shares = [row for row in brokers if _place(row) in simulated and row["recorded_log_share"] is not None]
    in_use = sorted((row for row in shares if row["candidate"] == IN_USE), key=_place)
    if not in_use:
        return []
    worst = max(in_use, key=lambda row: row["recorded_log_share"])
    here = [
        row
        for row in shares
        if (row["cluster"], row["window_start"], row["broker_id"])
        == (worst["cluster"], worst["window_start"], worst["broker_id"])
    ]
    topics = sorted({_place(row) for row in here if row["candidate"] == IN_USE})
    seeds = max(row["seed_count"] for row in comparison if _place(row) == _place(worst) and row["seed_count"])
    lines = [
        f"Broker {worst['broker_id']}'s share of each topic's bytes in the log, %, in the window from "
        f"{worst['window_start']:%H:%M} UTC",
        f"(its highest of {worst['topic']}). Predicted: median of {seeds} seeds, and range for nine of ten real runs.",
    ]
    tests = {_place(row): row for row in back_tests}
    compared = {(*_place(row), row["candidate"]): row for row in comparison}
    for first in range(0, len(topics), _TOPICS_PER_TABLE):
        columns = topics[first : first + _TOPICS_PER_TABLE]
        lines += ["", *_format_topics(columns, here, compared, tests)]
    return lines


def _format_topics(
    topics: Sequence[tuple[Any, ...]],
    here: Sequence[Row],
    compared: Mapping[tuple[Any, ...], Row],
    tests: Mapping[tuple[Any, ...], Row],
) -> list[str]:
    """A table: topics are its columns."""
    cells = {(*_place(row), row["candidate"]): row for row in here}
    tested = [tests.get(topic, {}) for topic in topics]
    used = [cells[*topic, IN_USE] for topic in topics]
    rows = [
        ["current partitioner", *(test.get("partitioner") or _NONE for test in tested)],
        ["current client", *(test.get("client") or _NONE for test in tested)],
        ["observed", *(_percent(row["recorded_log_share"]) for row in used)],
        ["current, predicted", *(_range(row) for row in used)],
    ]
    for candidate in sorted({row["candidate"] for row in here} - {IN_USE}):
        found = [
            _NONE if row is None else "same as current" if compared[*topic, candidate]["is_as_in_use"] else _range(row)
            for topic in topics
            for row in [cells.get((*topic, candidate))]
        ]
        if set(found) != {_NONE}:
            rows.append([candidate, *found])
    errors = [test.get("share_error_points") for test in tested]
    rows.append(["back-test", *(_NONE if error is None else f"{error:.1f} points off" for error in errors)])
    rows.append(["trusted", *("yes" if test.get("is_trusted") else "no" for test in tested)])
    return show_table(["", *(topic[2] for topic in topics)], rows).splitlines()


def _range(row: Row) -> str:
    """76.6 (75.9-77.1)."""
    if row["log_share"] is None:
        return _NONE
    return f"{_percent(row['log_share'])} ({_percent(row['log_share_low'])}-{_percent(row['log_share_high'])})"


def _percent(ratio: float) -> str:
    return f"{100 * ratio:.1f}"


def _is_keyless(row: Row) -> bool:
    return row["candidate"] == IN_USE and row["seed_count"] is not None and row["keyless_record_count"] > 0


def _place(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("cluster", "window_start", "topic", "topic_id"))


def _load(warehouse: Folder, table: Table) -> list[dict[str, Any]]:
    """Rows of a table; none where it was never made."""
    is_there = has_table(table_path(warehouse, table))
    rows: list[dict[str, Any]] = load_rows(warehouse, table).to_pylist() if is_there else []
    return rows
