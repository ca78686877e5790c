"""Frames of declared tables from a few named values; every other column gets a harmless one."""

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from expectations.checkpoints import run_checkpoint
from expectations.gate import select_named
from expectations.reports import SuiteReport, make_reports
from expectations.suite_files import read_suite
from pipeline.config.pipeline_config import PipelineConfig
from pipeline.model.window import TimeWindow
from pipeline.runs import RunContext, plan_runs
from pipeline.storage.tables_on_disk import ensure_tables
from pipeline.tables import TABLES
from pipeline.tables.arrow_types import ARROW_TYPES

MINUTE_0 = datetime(2026, 11, 21, 9, 0, tzinfo=UTC)
MINUTE_0_MS = int(MINUTE_0.timestamp() * 1000)

SUMS = {
    "log_counts_gate": "silver.partition_traffic",
    "log_ends_gate": "bronze.log_segments",
    "key_traffic_gate": "silver.partition_traffic",
    "arrival_counts_gate": "silver.arrivals",
}
"""Suites about sums over several tables, and whose columns their rows have."""
ADDED = {
    "cluster_state_gate": ("replica_count", "leading_count"),
    "log_counts_gate": ("batch_record_count", "batch_size_bytes", "batch_offset_count"),
    "log_ends_gate": ("log_end_offset",),
    "key_traffic_gate": ("key_record_count", "unreadable_record_count"),
    "arrival_counts_gate": ("arrival_record_count", "uneven_row_count", "digest_difference"),
    "scenario_comparison_gate": (
        *("replayed_record_count", "replayed_size_bytes", "batch_record_count", "broker_size_bytes"),
        *("uneven_broker_count", "open_leader_count", "candidate_count", "expected_candidate_count"),
        *(
            "expected_seed_count",
            "back_test_count",
            "recorded_peak_to_mean",
            "replayed_peak_to_mean",
            "replayed_peak_to_mean_high",
        ),
    ),
    "back_tests_gate": (
        *("history_share_error_points", "replayed_share", "recorded_share", "range_points", "comparison_count"),
        "replayed_trust",
    ),
    "hash_verdicts_gate": ("traffic_record_count",),
}
"""Columns that a suite's rows have besides those of the table."""

_HARMLESS: dict[str, Any] = {
    "string": "x",
    "bigint": 0,
    "double": 0.0,
    "boolean": False,
    "timestamp": MINUTE_0,
    "date": date(2026, 11, 21),
    "map<string,bigint>": {},
    "map<string,double>": {},
    "map<string,string>": {},
    "array<int>": [],
    "array<bigint>": [],
}


def at(minute: float) -> datetime:
    """The instant that many minutes after the first window's start."""
    return MINUTE_0 + timedelta(minutes=minute)


def declared(name: str):
    return next(table for table in TABLES if table.name == name)


def rows_of(name: str, rows: list[dict[str, Any]], *, counts: tuple[str, ...] = ()) -> pa.Table:
    """Rows with the table's declared columns and types, and further counts."""
    types = {column.name: column.type for column in declared(name).columns}
    types |= {count: "string" if count.endswith("_trust") else "bigint" for count in counts}
    types |= {count: "double" for count in counts if "_to_mean" in count}
    for row in rows:
        assert set(row) <= set(types), f"{name} has no {set(row) - set(types)}"
    return pa.table(
        {
            column: pa.array([_plain(row.get(column, _HARMLESS[kind])) for row in rows], ARROW_TYPES[kind])
            for column, kind in types.items()
        }
    )


def suite_rows(suite: str, rows: list[dict[str, Any]]) -> pa.Table:
    """Rows as the gate gives them to a suite."""
    table = SUMS.get(suite) or read_suite(suite)["meta"]["table"]
    found = rows_of(table, rows, counts=ADDED.get(suite, ()))
    return _add_extremes(found) if suite == "hash_verdicts_gate" else found


def _add_extremes(rows: pa.Table) -> pa.Table:
    """Rows of `gold.hash_verdicts` with the extremes of the counts in their maps, as the gate asks for them."""
    keys, records = (
        [[count for _, count in pairs] for pairs in rows[name].to_pylist()]
        for name in ("explained_key_counts", "explained_record_counts")
    )
    found = {
        "least_explained_count": [min((*k, *r), default=None) for k, r in zip(keys, records, strict=True)],
        "most_explained_key_count": [max(counts, default=None) for counts in keys],
        "most_explained_record_count": [max(counts, default=None) for counts in records],
    }
    for name, values in found.items():
        rows = rows.append_column(name, pa.array(values, pa.int64()))
    return rows


def _plain(value: Any) -> Any:
    return list(value.items()) if isinstance(value, dict) else value


def gate_run(folder: Path, *, name: str = "lab", **cluster: Any) -> RunContext:
    """A run over minutes from the first window on, with tables of its own."""
    source = {"kind": "log_directories", "paths": [str(folder)]}
    document = {"warehouse": folder / "warehouse", "outbox": folder / "outbox", "window": "PT1M"}
    config = PipelineConfig.model_validate(document | {"clusters": {name: {"sources": [source], **cluster}}})
    ensure_tables(config.warehouse)
    span = TimeWindow(MINUTE_0_MS, MINUTE_0_MS + 10 * 60_000)
    return plan_runs(config, span, run_id="test", now_ms=span.end_ms)[0]


def run_suite(suite: str, rows: Any, parameters: dict[str, Any] | None = None) -> SuiteReport:
    """Report of a suite over rows, as a gate runs it."""
    given = {suite: select_named(suite, rows)}
    (report,) = make_reports(run_checkpoint("test", given, parameters or {}), given)
    return report
