"""`inspect`: what is in these logs, and where an offset or instant lies."""

import argparse
import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence

from pipeline.cli.inspect_rows import Row, build_report, lookup_row
from pipeline.cli.options import add_json_option
from pipeline.cli.text_table import format_field, show_rows
from pipeline.errors import ConfigError, NothingUsableError
from pipeline.model.log_tree import DirectoryKind, LogDirectory, PartitionDirectory
from pipeline.model.number_text import escape_hidden
from pipeline.model.window import milliseconds_of, parse_instant
from pipeline.sources.files.log_directories import discover_logs
from pipeline.sources.files.log_lookup import SegmentLookup, look_up_instant, look_up_offset
from pipeline.sources.records.segment_summary import summarise_partition

_EPOCH_MS = re.compile(r"[0-9]{1,18}")
_DESCRIPTION = """\
Shows what is in Kafka logs, without a broker: a row per segment, totals per topic-partition and broker, and whatever is
wrong. PATH is a segment file, a partition directory, a log directory, or a tree that holds several brokers.
Exits with 0 where anything was usable (problems are listed), with 3 where nothing was.
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = _DESCRIPTION
    parser.add_argument(
        "paths", nargs="+", metavar="PATH", help="segment file, partition directory, log directory, tree"
    )
    parser.add_argument("--deep", action="store_true", help="decode records: keys, values, headers, most frequent keys")
    parser.add_argument("--verify", action="store_true", help="compare the indexes with the logs")
    parser.add_argument(
        "--offset", type=int, metavar="N", help="look up the batch that holds this offset, step by step"
    )
    parser.add_argument(
        "--at", metavar="TIME", help="look up the first record at or after: epoch ms, or ISO 8601 (UTC by default)"
    )
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    targets = _parse_targets(args.offset, args.at)
    tree = discover_logs(args.paths)
    partitions = [
        summarise_partition(*located, deep=args.deep, verify=args.verify) for located in tree.iter_partitions()
    ]
    report = build_report(partitions, tree.problems)
    if targets:
        report["lookups"] = [
            lookup_row(_look_up(directory, partition, target), target)
            for directory, partition in tree.iter_partitions(kind=DirectoryKind.LIVE)
            for target in targets
        ]
    if args.json:
        json.dump(report, sys.stdout, indent=1)
        sys.stdout.write("\n")
    else:
        sys.stdout.write(format_report(report))
    if not any(segment.is_usable for partition in partitions for segment in partition.segments):
        raise NothingUsableError("nothing usable in the input")
    return 0


def _parse_targets(offset: int | None, at: str | None) -> list[Row]:
    targets: list[Row] = []
    if offset is not None:
        if offset < 0:
            raise ConfigError(f"--offset {offset}: expected 0 or more")
        targets.append({"offset": offset})
    if at is not None:
        targets.append({"at_ms": int(at) if _EPOCH_MS.fullmatch(at) else milliseconds_of(parse_instant(at))})
    return targets


def _look_up(directory: LogDirectory, partition: PartitionDirectory, target: Row) -> SegmentLookup:
    if "offset" in target:
        return look_up_offset(directory, partition, target["offset"])
    return look_up_instant(directory, partition, target["at_ms"])


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
        head, *steps = lookup["steps"]
        lines += [*[f"{_name(lookup)}: {head}", *(f"  {step}" for step in steps)], ""]
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


def _format_problem(problem: Row) -> str:
    place = problem["path"] if problem["position"] is None else f"{problem['path']} at {problem['position']}"
    return escape_hidden(f"  {problem['severity']}: {place}: {problem['reason']}")
