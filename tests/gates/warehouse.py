"""A small warehouse that all jobs have filled, other rows in its tables, and what the suites say of them."""

import datetime as dt
import json
from itertools import product

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from expectations import gates
from expectations.checkpoints import run_checkpoint
from expectations.gate import ask_contents, fetch_rows
from expectations.reports import make_reports
from pipeline.jobs import ingest, judge_health, measure_rules, raise_incidents, recommend, replay, score_health
from pipeline.model.verdict import Verdict
from pipeline.model.window import milliseconds_of
from pipeline.storage.frames import arrow_schema
from pipeline.storage.rows import insert_rows, load_rows
from pipeline.storage.tables_on_disk import table_path
from pipeline.storage.window_status import trust_windows
from pipeline.tables.gold import VERDICTS
from tests.engines import sail
from tests.gates.rows import declared, rows_of

REFUSED = [
    {"source": "log_directories", "path": path, "position": position, "reason": "torn", "severity": "refused"}
    for path, position in (("brokers/0/orders-0/0.log", 61), ("brokers/1/orders-1/0.log", 7), ("brokers/2/a.log", -1))
]
"""The capture has no damaged file: this is what the job would have found in one."""


def list_forecasts(run):
    """The capture is shorter than the history that a forecast needs: these are as the job makes them."""
    rows = []
    for number, window in enumerate(run.windows[-2:]):
        of = {"window_start": dt.datetime.fromtimestamp(window.start_ms / 1000, dt.UTC), "measure": "share_ratio"}
        of |= {"reason": f"{number} days could be tested, 7 are needed"}
        for broker, day in product(range(3), range(1, 8)):
            value = {
                "value": 1 + (10 * broker + day) / 100,
                "value_low": 0.9 + broker / 10,
                "value_high": 1.2 + broker / 10,
            }
            rows.append(of | value | {"subject": f"broker {broker}", "horizon_hours": 24 * day})
    return rows


def fill_warehouse(run):
    """Runs all jobs on the windows of a run, adds what the capture gives no cause for; notes which version of each table it made."""
    spark, windows = sail(), run.windows
    ingested = ingest.run(spark, run)
    trust_windows(run.warehouse, run.cluster_name, windows)
    replayed = replay.run(spark, run, windows)
    judged = [score_health.run(spark, run, windows), measure_rules.run(run, windows), recommend.run(run, windows)]
    judged.append(raise_incidents.run(run, judge_health.run(run, windows)))
    measured = {name: version for report in judged for name, version in report.table_versions.items()}
    of = {"cluster": run.cluster_name, "run_id": run.run_id}
    forecasts, refused = (
        rows_of(name, [row | of for row in rows])
        for name, rows in (("gold.forecast", list_forecasts(run)), ("bronze.quarantine", REFUSED))
    )
    measured |= run.replace(declared("gold.forecast"), forecasts, windows)
    kept = insert_rows(refused, run.warehouse, declared("bronze.quarantine"), of=tuple(of.values()))
    ingest_versions = ingested.table_versions | {"bronze.quarantine": kept}
    versions = {"ingest": ingest_versions, "replay": replayed.table_versions, "measures": measured}
    (run.warehouse / "versions.json").write_text(json.dumps({gate: dict(of) for gate, of in versions.items()}))


def rewrite(run, name, change):
    """Puts other rows in place of a table's; no check of the storage sees them, its constraints are dropped."""
    table = declared(name)
    rows = change(load_rows(run.warehouse, table).to_pylist())
    on_disk = DeltaTable(table_path(run.warehouse, table))
    for check in table.checks:
        on_disk.alter.drop_constraint(check.name, raise_if_not_exists=False)
    write_deltalake(on_disk, pa.Table.from_pylist(rows, arrow_schema(table)), mode="overwrite")


def list_batches(run):
    """The rows of every suite of the three data gates; verdicts are those that are stored."""
    verdicts = run.values(Verdict, VERDICTS, run.windows)
    written = json.loads((run.warehouse / "versions.json").read_text())
    contents = [ask_contents(gate, versions) for gate, versions in written.items()]
    return {
        **{suite: asked for batches in contents for suite, asked in batches.items()},
        **gates.list_ingested(run),
        **gates.list_replayed(run, run.windows),
        **gates.list_measured(run, run.windows, verdicts),
    }


def count_breaking(run, suites):
    """By suite and check how many rows break it, of those that fail."""
    batches = list_batches(run)
    rows = fetch_rows(sail(), run, {suite: batches[suite] for suite in suites})
    parameters = {
        "windows_ms": [window.start_ms for window in run.windows],
        "max_age_ms": milliseconds_of(run.cluster.freshness),
    }
    reports = make_reports(run_checkpoint("planted", rows, parameters), rows)
    return {
        (report.suite, check.name): check.observed for report in reports for check in report.checks if not check.success
    }
