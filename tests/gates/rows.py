"""Frames of declared tables from a few named values; every other column gets a harmless one."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

from pipeline.tables import TABLES

MINUTE_0 = datetime(2026, 11, 21, 9, 0, tzinfo=UTC)
MINUTE_0_MS = int(MINUTE_0.timestamp() * 1000)

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


def frame_of(spark, name: str, rows: list[dict[str, Any]], *, counts: tuple[str, ...] = ()):
    """A frame with the table's declared columns and types, and further counts."""
    types = {column.name: column.type for column in declared(name).columns} | dict.fromkeys(counts, "bigint")
    for row in rows:
        assert set(row) <= set(types), f"{name} has no {set(row) - set(types)}"
    values = [tuple(row.get(column, _HARMLESS[kind]) for column, kind in types.items()) for row in rows]
    return spark.createDataFrame(values, ", ".join(f"`{column}` {kind}" for column, kind in types.items()))
