"""Runs of the jobs on the committed capture or parts of it, and what they left, fit to be compared."""

import os
import re
import shutil
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from expectations import gates
from expectations.gates import check_health, check_measured
from pipeline.config_file import load_config
from pipeline.jobs import (
    deliver_alerts,
    ingest,
    judge_health,
    measure_rules,
    raise_incidents,
    recommend,
    replay,
    score_health,
)
from pipeline.model.window import TimeWindow, format_instant
from pipeline.runs import RunContext, plan_runs
from pipeline.storage.rows import load_rows
from pipeline.storage.window_status import trust_windows
from pipeline.tables import TABLES
from tests.config_files import write_configuration
from tests.mail_parts import read_mail

CLUSTER = "demo"
SECRET = "a70f" * 16
MINUTE_MS = 60_000
SCRAPES = ("producers/orders", "producers/jobs", "brokers/1")
"""Enough of them: one producer, three in one process, one broker."""


@dataclass(frozen=True)
class Capture:
    """An unpacked capture, or a copy with changes, and its clock."""

    folder: Path
    start_ms: int
    end_ms: int
    recorded_until_ms: int

    def span(self, first=0, last=None):
        """Minutes of the capture, the last one excluded."""
        return TimeWindow(
            self.start_ms + first * MINUTE_MS, self.end_ms if last is None else self.start_ms + last * MINUTE_MS
        )

    def minute_of(self, instant_ms):
        return (instant_ms - self.start_ms) // MINUTE_MS

    def part(self, target, *, topics, scrapes=(), with_metadata=True):
        """A tree with the same files (linked: replace them, do not write into them) of some topics (or partitions) and scrapes."""
        kept = {*topics, "__cluster_metadata"} if with_metadata else {*topics}
        for broker in (self.folder / "brokers").iterdir():
            for entry in broker.iterdir():
                if not entry.is_dir() or kept & {entry.name, entry.name.rpartition("-")[0]}:
                    _link(entry, target / "brokers" / broker.name / entry.name)
        for name in (*(f"scrapes/{scrape}" for scrape in scrapes), "tools"):
            _link(self.folder / name, target / name)
        return replace(self, folder=target)

    def write_config(
        self, folder, *, topics=(), sources=("log_directories",), gate=None, landing=None, zones=None, **document
    ):
        """A configuration whose tables and mails lie in `folder`."""
        at = self.folder
        known = {
            "log_directories": {"paths": [str(at / "brokers")]},
            "topics_describe": {"path": str(at / "tools/topics-describe.txt")},
            "consumer_groups": {"paths": [str(p) for p in sorted((at / "tools").glob("*groups-describe*.txt"))]},
            "producer_metrics": {"path": str(at / "scrapes/producers")},
            "broker_metrics": {"path": str(at / "scrapes/brokers")},
            "collected": {"path": landing},
        }
        cluster = {
            "as_of": format_instant(self.recorded_until_ms),
            "topics": list(topics),
            "gate": gate or {},
            "zones": zones or {},
            "sources": [{"kind": kind, **known[kind]} for kind in sources],
        }
        settings = {"window": "PT1M", "mail": {"to": ["kafka-platform@example.org"]}, "replay": {"seeds": 2}}
        settings |= {"candidates": FEW_CANDIDATES, **document}
        path = write_configuration(folder, {CLUSTER: cluster}, **settings)
        make_secret(folder)
        return load_config(path)


FEW_CANDIDATES = [
    {"name": "builtin", "partitioner": "java-builtin"},
    {"name": "twice-the-partitions", "partitions": "x2"},
]
"""Enough where the replay is not what a test is about; the default ones take minutes."""


def make_secret(folder):
    """The same secret for every run, so that key ids can be compared."""
    secret = folder / "partition-health.secret"
    secret.write_text(SECRET)
    secret.chmod(0o600)


ALL_SOURCES = ("log_directories", "topics_describe", "consumer_groups", "producer_metrics", "broker_metrics")


def _link(source, target):
    if source.is_dir():
        shutil.copytree(source, target, copy_function=_link_file)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        _link_file(source, target)


def _link_file(source, target):
    try:
        os.link(source, target)
    except OSError:  # another file system
        shutil.copy2(source, target)


@dataclass(frozen=True)
class Ran:
    """What one run of everything reported."""

    context: RunContext
    gate_reports: tuple
    health: object
    deliveries: tuple

    @property
    def config(self):
        return self.context.config

    @property
    def warehouse(self):
        return self.context.warehouse


def plan(config, span, *, run_id="test", force=False, now_ms=None):
    now_ms = span.end_ms + MINUTE_MS if now_ms is None else now_ms
    (context,) = plan_runs(config, span, run_id=run_id, now_ms=now_ms, force=force)
    return context


def run_all(spark, context, *, check_data=True, with_replay=False):
    """Jobs and gates in the order of `partition-health run`."""
    made = ingest.run(spark, context)
    reports = gates.check_ingested(spark, context, made.table_versions) if check_data else ()
    if with_replay:
        replay.run(spark, context, replay.pending_windows(context))
    if not check_data:
        trust_windows(context.warehouse, context.cluster_name, context.windows)
    windows = score_health.pending_windows(context)
    done = [score_health.run(spark, context, windows), measure_rules.run(context, windows)]
    done.append(recommend.run(context, windows))
    verdicts = judge_health.run(context, windows)
    versions = {name: version for report in done for name, version in report.table_versions.items()}
    reports += check_measured(spark, context, windows, verdicts, versions) if check_data else ()
    health = check_health(context, verdicts, lambda: raise_incidents.run(context, verdicts))
    delivered = deliver_alerts.run(context.config, None, now_ms=context.now_ms)
    return Ran(context, reports, health, delivered.deliveries)


def stored(warehouse, name, *columns):
    """Rows of a table as dicts (some columns only), by key."""
    table = next(table for table in TABLES if table.name == name)
    rows = load_rows(warehouse, table)
    order = pc.sort_indices(rows.select(table.key), [(column, "ascending") for column in table.key])
    return (rows.select(list(columns)) if columns else rows).take(order).to_pylist()


def stable_columns(table):
    """Columns in which two equal runs agree."""
    return tuple(column.name for column in table.columns if not column.volatile)


def differences(left, right, *, leave_out=()):
    """Per table whose stable columns differ: how many rows each side has and the first one that the other lacks.

    Mails are compared decoded, and whatever file their commands name as the configuration: each run has its own.
    """
    unlike = [table for table in TABLES if not _are_equal(left, right, table, leave_out)]
    return compare(list_rows(left, leave_out, unlike), list_rows(right, leave_out, unlike)) if unlike else {}


def _are_equal(left, right, table, leave_out):
    """Whether two warehouses hold equal rows in the order of their keys: a hundredth of the work of comparing multisets."""
    sides = []
    for warehouse in (left, right):
        rows = load_rows(warehouse, table)
        order = pc.sort_indices(rows.select(table.key), [(column, "ascending") for column in table.key])
        sides.append(rows.select(_compared_columns(table, leave_out)).take(order))
    return sides[0].equals(sides[1])


def _compared_columns(table, leave_out):
    return [name for name in stable_columns(table) if f"{table.name}.{name}" not in leave_out]


def list_rows(warehouse, leave_out=(), tables=TABLES):
    """By table the stable columns, some left out, and the rows as a multiset."""
    found = {}
    for table in tables:
        columns = _compared_columns(table, leave_out)
        found[table.name] = (columns, _comparable(load_rows(warehouse, table).select(columns)))
    return found


def compare(left, right):
    """What `differences` says, of two results of `list_rows`."""
    found = {}
    for name, (columns, rows) in left.items():
        sides = (rows, right[name][1])
        if sides[0] != sides[1]:
            only = [next(iter(sides[i] - sides[1 - i]), None) for i in (0, 1)]
            counts = [sum(side.values()) for side in sides]
            found[name] = (counts, [row and dict(zip(columns, row, strict=True)) for row in only])
    return found


def _comparable(rows: pa.Table):
    """Rows as a multiset; maps as sorted text."""
    columns = [
        [comparable_value(value, column.type) for value in column.to_pylist()]
        for column in (c.cast(pa.int64()) if pa.types.is_timestamp(c.type) else c for c in rows.columns)
    ]
    return Counter(zip(*columns, strict=True))


def comparable_value(value, kind):
    """A cell as a value that can be compared: maps as sorted text, mails decoded."""
    if value is None:
        return None
    if pa.types.is_binary(kind):
        return _decoded(value)
    if pa.types.is_map(kind):
        return str(sorted(value))
    return tuple(value) if pa.types.is_list(kind) else value


def _decoded(value):
    """A mail's headers and the contents of its parts, files of configuration and report apart; other bytes as they are."""
    mail = read_mail(value)
    if "Message-ID" not in mail:
        return value
    contents = [part.get_content() for part in mail.walk() if not part.is_multipart()]
    folders = re.compile(r"(?<=--config)\s+\S+|\s+\S+/reports/(?=\S+\.html)")
    plain = [folders.sub(" FILE", c) if isinstance(c, str) else c for c in contents]
    return (*map(str, mail.items()), *plain)
