"""The report of `inspect` for people: aligned columns, one line per segment, partition and broker, then the problems."""

from collections.abc import Iterable, Mapping, Sequence

from pipeline.cli.inspect_rows import Row
from pipeline.cli.text_table import format_field, show_rows
from pipeline.model.number_text import escape_hidden

_SHOWN_KEYS = 3
_COUNTS = {"batch_count": "batches", "record_count": "records", "size_bytes": "bytes"}
_PLACE = {"broker_id": "broker", "topic": "topic", "partition": "partition"}
_OFFSETS = {"first_offset": "first offset", "last_offset": "last offset"}
_TIMES = {"min_timestamp_ms": "from", "max_timestamp_ms": "to"}
_DEEP = {
    "null_key_count": "null keys", "distinct_key_count": "distinct keys", "tombstone_count": "tombstones",
    "key_bytes": "key bytes", "value_bytes": "value bytes", "header_count": "headers",
}  # fmt: skip  # titles by field, several a line
_SECTIONS = {
    "segments": {
        **_PLACE, "base_offset": "base offset", **_COUNTS, **_OFFSETS, **_TIMES, "magic": "magic", "codecs": "codecs",
        "control_batch_count": "control", "producer_id_count": "producers", "crc_error_count": "crc errors",
        "is_active": "active", **_DEEP,
    },
    "partitions": {
        **_PLACE, "kind": "kind", "segment_count": "segments", **_COUNTS, **_OFFSETS, "high_watermark": "high watermark",
        **_TIMES, "codecs": "codecs", "problem_count": "problems", **_DEEP,
    },
    "brokers": {
        "broker_id": "broker", "cluster_id": "cluster id", "log_directory_count": "disks", "partition_count": "partitions",
        "segment_count": "segments", **_COUNTS, **_TIMES, "problem_count": "problems",
    },
}  # fmt: skip


def format_report(report: Mapping[str, Sequence[Row]]) -> str:
    """The whole report as text."""
    lines: list[str] = []
    for section, columns in _SECTIONS.items():
        rows = report[section]
        if rows:
            shown = {name: title for name, title in columns.items() if name in rows[0]}
            lines += [f"{section} ({len(rows)})", *show_rows(rows, shown, indent=2).splitlines(), ""]
    lines += _format_top_keys(report["partitions"])
    for lookup in report.get("lookups", ()):
        lines += [*_format_lookup(lookup), ""]
    problems = report["problems"]
    lines.append(f"problems ({len(problems)})" if problems else "no problems")
    lines += [_format_problem(problem) for problem in problems]
    return "\n".join(lines) + "\n"


def _format_top_keys(partitions: Iterable[Row]) -> list[str]:
    lines = [
        f"  {_name(row)}: "
        + ", ".join(f"{_format_key(top)} {top['record_count']}" for top in row["top_keys"][:_SHOWN_KEYS])
        for row in partitions
        if row.get("top_keys")
    ]
    return ["most frequent keys", *lines, ""] if lines else []


def _name(row: Row) -> str:
    return f"{row['topic'] or row['path']} {row['partition']} (broker {format_field('broker_id', row['broker_id'])})"


def _format_key(top: Row) -> str:
    key = top["key"]
    return repr(key) if key is not None else f"0x{top['key_hex']}"


def _format_lookup(lookup: Row) -> list[str]:
    head, *steps = lookup["steps"]
    return [f"{_name(lookup)}: {head}", *(f"  {step}" for step in steps)]


def _format_problem(problem: Row) -> str:
    place = problem["path"] if problem["position"] is None else f"{problem['path']} at {problem['position']}"
    return escape_hidden(f"  {problem['severity']}: {place}: {problem['reason']}")
