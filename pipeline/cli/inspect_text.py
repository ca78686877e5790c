"""The report of `inspect` for people: aligned columns, one line per segment, partition and broker, then the problems."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from pipeline.cli.inspect_rows import Row
from pipeline.cli.text_table import show_table
from pipeline.model.number_text import escape_hidden

_SHOWN_KEYS = 3
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_COUNTS = ("batch_count", "record_count", "size_bytes")
_TIMES = ("min_timestamp_ms", "max_timestamp_ms")
_DEEP = ("null_key_count", "distinct_key_count", "tombstone_count", "key_bytes", "value_bytes", "header_count")
_SECTIONS = {
    "segments": (
        *("broker_id", "topic", "partition", "base_offset", *_COUNTS, "first_offset", "last_offset", *_TIMES),
        *("magic", "codecs", "control_batch_count", "producer_id_count", "crc_error_count", "is_active", *_DEEP),
    ),
    "partitions": (
        *("broker_id", "topic", "partition", "kind", "segment_count", *_COUNTS, "first_offset", "last_offset"),
        *("high_watermark", *_TIMES, "codecs", "problem_count", *_DEEP),
    ),
    "brokers": (
        *("broker_id", "cluster_id", "log_directory_count", "partition_count", "segment_count", *_COUNTS, *_TIMES),
        "problem_count",
    ),
}
_SHORT = {
    "broker_id": "broker",
    "batch_count": "batches",
    "record_count": "records",
    "size_bytes": "bytes",
    "min_timestamp_ms": "from",
    "max_timestamp_ms": "to",
    "control_batch_count": "control",
    "producer_id_count": "producers",
    "crc_error_count": "crc errors",
    "is_active": "active",
    "segment_count": "segments",
    "partition_count": "partitions",
    "log_directory_count": "disks",
    "problem_count": "problems",
    "null_key_count": "null keys",
    "distinct_key_count": "distinct keys",
    "tombstone_count": "tombstones",
    "header_count": "headers",
}


def format_report(report: Mapping[str, Sequence[Row]]) -> str:
    """The whole report as text."""
    lines: list[str] = []
    for section, columns in _SECTIONS.items():
        rows = report[section]
        if rows:
            shown = [column for column in columns if column in rows[0]]
            lines += [f"{section} ({len(rows)})", *_format_rows(rows, shown), ""]
    lines += _format_top_keys(report["partitions"])
    for lookup in report.get("lookups", ()):
        lines += [*_format_lookup(lookup), ""]
    problems = report["problems"]
    lines.append(f"problems ({len(problems)})" if problems else "no problems")
    lines += [_format_problem(problem) for problem in problems]
    return "\n".join(lines) + "\n"


def format_timestamp(at_ms: int) -> str:
    """Milliseconds since the epoch as ISO 8601 in UTC; the number itself where a calendar does not reach.

    >>> format_timestamp(1700000000123)
    '2023-11-14T22:13:20.123Z'
    """
    try:
        text = (_EPOCH + timedelta(milliseconds=at_ms)).isoformat(timespec="milliseconds")
    except OverflowError:
        return str(at_ms)
    return text.replace("+00:00", "Z")


def _format_rows(rows: Sequence[Row], columns: Sequence[str]) -> list[str]:
    header = [_SHORT.get(column, column.replace("_", " ")) for column in columns]
    cells = [[_format_cell(column, row[column]) for column in columns] for row in rows]
    numbers = (all(isinstance(row[column], int | None) for row in rows) for column in columns)
    right = frozenset(at for at, is_number in enumerate(numbers) if is_number)
    return show_table(header, cells, right=right, indent=2).splitlines()


def _format_cell(column: str, value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) and column in _TIMES:
        return format_timestamp(value)
    if isinstance(value, list):
        return ",".join(str(item) for item in value) or "-"
    return str(value)


def _format_top_keys(partitions: Iterable[Row]) -> list[str]:
    lines = [
        f"  {_name(row)}: "
        + ", ".join(f"{_format_key(top)} {top['record_count']}" for top in row["top_keys"][:_SHOWN_KEYS])
        for row in partitions
        if row.get("top_keys")
    ]
    return ["most frequent keys", *lines, ""] if lines else []


def _name(row: Row) -> str:
    return f"{row['topic'] or row['path']} {row['partition']} (broker {_format_cell('broker_id', row['broker_id'])})"


def _format_key(top: Row) -> str:
    key = top["key"]
    return repr(key) if key is not None else f"0x{top['key_hex']}"


def _format_lookup(lookup: Row) -> list[str]:
    head, *steps = lookup["steps"]
    return [f"{_name(lookup)}: {head}", *(f"  {step}" for step in steps)]


def _format_problem(problem: Row) -> str:
    place = problem["path"] if problem["position"] is None else f"{problem['path']} at {problem['position']}"
    return escape_hidden(f"  {problem['severity']}: {place}: {problem['reason']}")
