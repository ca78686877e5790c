"""Which rows a run is about, as SQL: for Spark and for the DataFusion inside delta-rs."""

from collections.abc import Iterable

from pipeline.model.window import TimeWindow, format_instant, stretches_of
from pipeline.tables import Table


def format_datafusion_predicate(table: Table, cluster: str, windows: Iterable[TimeWindow]) -> str:
    """Condition that selects a cluster's rows in windows, adjacent ones as one range; `ValueError` without windows."""
    spans = [(span.start_ms, span.end_ms) for span in stretches_of(windows)]
    if not spans:
        raise ValueError("no windows")
    instants = [tuple(map(format_datafusion_instant, span)) for span in spans]
    ranges = " OR ".join(f"(window_start >= {start} AND window_start < {end})" for start, end in instants)
    parts = [f"cluster = {format_datafusion_text(cluster)}"]
    if "window_start" in table.column_names:  # else its rows are of dates
        parts.append(ranges if len(spans) == 1 else f"({ranges})")
    if "window_date" in table.partitioned_by:  # spares reading the other dates
        first, last = format_instant(spans[0][0])[:10], format_instant(spans[-1][1] - 1)[:10]
        parts.insert(1, f"window_date >= DATE '{first}' AND window_date <= DATE '{last}'")
    return " AND ".join(parts)


def sql_text(text: str) -> str:
    """Writes a Spark SQL string literal; whatever the text holds, it stays within the quotes and on its line."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    codes = ((char, f"\\u{ord(char):04x}" if char <= "\uffff" else f"\\U{ord(char):08x}") for char in escaped)
    return "'" + "".join(char if char.isprintable() else code for char, code in codes) + "'"


def sql_instant(instant_ms: int) -> str:
    return f"TIMESTAMP'{format_instant(instant_ms)}'"


def format_datafusion_text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def format_datafusion_instant(instant_ms: int) -> str:
    """Writes an instant as DataFusion's literal; of its plain one, in nanoseconds, Delta's file skipping wants none."""
    return f"arrow_cast('{format_instant(instant_ms)}', 'Timestamp(Microsecond, Some(\"UTC\"))')"
