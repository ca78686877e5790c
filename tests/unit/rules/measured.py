"""Measures of a rule over a few rows of tables, told by hour."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa

from pipeline.rules import RULES
from pipeline.rules.rule import RuleInput
from pipeline.storage.frames import arrow_schema

HOUR_MS = 3_600_000
T0 = datetime(2026, 11, 21, 9, tzinfo=UTC)
T0_MS = int(T0.timestamp() * 1000)


def hour(number):
    return T0 + timedelta(hours=number)


def values(measures):
    return {(m.window_start_ms - T0_MS, m.subject): m.value for m in measures}


def measured(rule, rows, *, hours=(0,), disk_bytes=(), deletable=(), window_ms=HOUR_MS, outages=()):
    """Measures of a rule, given rows by table."""
    rows = rows | {"bronze.log_segments": deletable}
    given = RuleInput(
        load=lambda table, _: pa.Table.from_pylist(list(rows.get(table.name, ())), arrow_schema(table)),
        starts_ms=[T0_MS + number * window_ms for number in hours],
        window_ms=window_ms,
        disk_bytes=dict(disk_bytes),
        outages=outages,
    )
    return list(RULES[rule].measure(rule, given))
