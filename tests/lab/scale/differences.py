"""What differs between tables that sources and engines made of one input, and why: for `tests.lab.scale.equal`."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING

from deltalake import DeltaTable

from pipeline.storage.tables_on_disk import table_path
from pipeline.tables import TABLES
from tests.spark.capture_runs import comparable_value, stable_columns

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pipeline.tables import Table

RECORDED, TRAFFIC = "capture", "brokers' traffic"
DISKS, COLLECTED, LIVE = "log_directories", "collected", "live_cluster"
INPUTS = ((RECORDED, DISKS), (RECORDED, COLLECTED), (TRAFFIC, DISKS), (TRAFFIC, COLLECTED), (TRAFFIC, LIVE))
CLASSIC, WORKERS, CONNECT, ON_SAIL = ENGINES = ("classic Spark", "two workers", "Spark Connect", "Sail")
BASE = "another version"
_SOURCE = re.compile(rf"\b({DISKS}|{COLLECTED}|{LIVE})\b")

_ROOT = "a collector names log directories from its own root"
_GROWS = "`__cluster_metadata` grows while brokers run, and each engine read it at another time"
_NOW = "a live broker answers with its state and settings now; the disks hold those of the window"
_COUNTED = "a live cluster expects an answer for each broker and partition, disks one for each broker"
_TAILS = "the newer version predicts no tails of latency and estimates delays in another way"
_ENDS = ("", "_low", "_high")
_IDLE = "a live broker lists a topic without records as it is now, not in earlier windows"
REASONS = {
    (COLLECTED, "bronze.cluster_state.log_directory"): _ROOT,
    (COLLECTED, "bronze.log_segments"): _ROOT,
    (COLLECTED, "bronze.log_segments.path"): _ROOT,
    (TRAFFIC, "bronze.log_segments.size_bytes"): _GROWS,
    (LIVE, "bronze.brokers.*"): _NOW,
    (LIVE, "bronze.cluster_state.*"): _NOW,
    (LIVE, "bronze.log_segments"): "brokers show no segments",
    **dict.fromkeys([(LIVE, f"bronze.window_status.{name}_count") for name in ("expected", "arrived")], _COUNTED),
    **{
        (LIVE, name): _IDLE
        for name in (
            *("gold.broker_share.leader_count", "gold.broker_share.leaders_term", "gold.broker_share.topic_mix_term"),
            *("gold.partition_health", "gold.topic_health", "gold.rule_measures", "gold.scenario_comparison"),
            "gold.back_tests",
        )
    },
    (BASE, "bronze.metric_samples"): "names of more exporters are read since",
    (BASE, "bronze.window_status.row_count"): "samples are more",
    (BASE, "silver.producer_sessions.version_range"): "the newer version also names other clients that send like these",
    (BASE, "gold.hash_verdicts.strategies"): "more strategies are known",
    (BASE, "gold.recommendations.*"): "the newer version first advises to look at a slow broker",
    (BASE, "gold.promises.*"): "promises follow the advice",
    (BASE, "bronze.window_status.as_of"): "the other version's `run` goes by the clock",
    **{
        (BASE, name): "the newer version trusts shares apart from records per batch"
        for name in ("gold.back_tests.is_trusted", "gold.back_tests.trust", "gold.scenario_comparison.trust")
    },
    (BASE, "gold.incidents.silenced_by"): "the other version runs without notices",
    (BASE, "gold.alert_outbox"): "the other version runs without notices",
    **{
        (BASE, name): _TAILS
        for name in (
            *(f"gold.scenario_comparison.latency_p{part}_ms{end}" for part in (50, 95, 99) for end in _ENDS),
            *(f"gold.back_tests.predicted_latency_{of}_ms{end}" for of in ("p99", "max") for end in _ENDS),
            *("gold.back_tests.latency_max_ratio", "gold.back_tests.observed_latency_max_ms"),
            *("gold.back_tests.assumptions", "gold.scenario_comparison.assumptions"),
        )
    },
}
"""Why rows (by the table), columns, or both (`table.*`) differ, by the engine, the input or the source."""


def list_columns(warehouse: Path, table: Table) -> tuple[list[tuple], dict[str, list]]:
    """The keys of a table's rows, ascending, and its stable columns in this order."""
    path = table_path(warehouse, table)
    if not path.exists():
        return [], {}
    rows = DeltaTable(path).to_pyarrow_table()  # as stored: another version has fewer columns
    values = {
        name: [_plain(comparable_value(value, rows[name].type)) for value in rows[name].to_pylist()]
        for name in rows.column_names
    }
    keys = list(zip(*(values[name] for name in table.key), strict=True))
    order = sorted(range(len(keys)), key=lambda place: str(keys[place]))
    kept = [name for name in stable_columns(table) if name in values]
    return [keys[place] for place in order], {name: [values[name][place] for place in order] for name in kept}


def _plain(value: object) -> object:
    """A source's name as `source`; a decoded mail without its `Date`, which is the clock, and without the line breaks that
    its paths move; other values as they are.
    """
    if isinstance(value, str):
        return _SOURCE.sub("source", value)
    is_mail = isinstance(value, tuple) and any(str(part).startswith("('Message-ID'") for part in value)
    if not is_mail:
        return value
    return tuple(" ".join(str(part).split()) for part in value if not str(part).startswith("('Date'"))


def find_differences(left: Path, right: Path) -> dict[str, str]:
    """What differs, by column or, where rows lack or are more, by table: how much."""
    found = {}
    for table in TABLES:
        (left_keys, left_columns), (right_keys, right_columns) = (list_columns(side, table) for side in (left, right))
        if left_keys != right_keys:
            found[table.name] = f"{len(left_keys)} and {len(right_keys)} rows"
        common = sorted({*left_keys} & {*right_keys}, key=str)
        places = [{key: place for place, key in enumerate(keys)} for keys in (left_keys, right_keys)]
        for name in left_columns.keys() & right_columns.keys():
            pairs = ((left_columns[name][places[0][key]], right_columns[name][places[1][key]]) for key in common)
            unlike = [pair for pair in pairs if pair[0] != pair[1]]
            if unlike:
                found[f"{table.name}.{name}"] = f"{len(unlike)} of {len(common)} rows, such as {str(unlike[0])[:300]}"
    return found


def find_reason(key: tuple[str, str, str], name: str) -> str:
    """Why a column differs in a run; nothing where no reason is known."""
    whole = ".".join((*name.split(".")[:2], "*"))
    places = [(where, one) for where in key for one in (name, whole)]
    return next((REASONS[place] for place in places if place in REASONS), "")


def format_paper(found: Mapping[tuple[str, str, str], Mapping[str, str]]) -> str:
    """Two tables: how many columns are equal, and the others with the reason."""
    count = sum(len(stable_columns(table)) for table in TABLES)
    lines = ["| engine | " + " | ".join(f"{name}, {source}" for name, source in INPUTS) + " |"]
    lines.append("|---" * (1 + len(INPUTS)) + "|")
    for engine in dict.fromkeys(engine for engine, *_ in found):
        cells = [_tell(found.get((engine, *given)), count) for given in INPUTS]
        lines.append(f"| {engine} | {' | '.join(cells)} |")
    wheres: dict[tuple[str, str], set[str]] = defaultdict(set)
    for key, names in found.items():
        for name in names:
            why = find_reason(key, name) or "**not known**"
            wheres[name, why].add(key[0] if key[0] == BASE else f"{key[1]}, {key[2]}")
    lines += ["", "| differs | in | why |", "|---|---|---|"]
    lines += [f"| `{name}` | {', '.join(sorted(where))} | {why} |" for (name, why), where in sorted(wheres.items())]
    return "\n".join(lines) + "\n"


def _tell(differences: Mapping[str, str] | None, count: int) -> str:
    if differences is None:
        return "not run"
    return f"all {count} columns" if not differences else f"all but {len(differences)}"
