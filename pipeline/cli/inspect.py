"""Shows what is in Kafka logs, without a broker.

It prints a row per segment, totals per topic-partition and broker, and all problems. PATH is a segment file, a
partition directory, a log directory, or a tree that holds several brokers. Exits with 0 if anything was usable, and
with 3 if nothing was.
"""

import argparse
import re
from collections.abc import Mapping, Sequence
from itertools import product

from pipeline.cli.inspect_rows import Row, build_report, lookup_row
from pipeline.cli.terminal import add_json_option, format_field, print_answer, show_rows
from pipeline.errors import ConfigError, NothingUsableError
from pipeline.model.log_tree import DirectoryKind
from pipeline.model.number_text import escape_hidden
from pipeline.model.window import milliseconds_of, parse_instant
from pipeline.sources.files.log_directories import discover_logs
from pipeline.sources.files.log_lookup import look_up_instant, look_up_offset
from pipeline.sources.records.segment_summary import summarise_partition

_EPOCH_MS = re.compile(r"[0-9]{1,18}")


def add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("paths", nargs="+", metavar="PATH", help="segment file, partition directory, log directory, tree")
    add("--deep", action="store_true", help="decode records: keys, values, headers, most frequent keys")
    add("--verify", action="store_true", help="compare the indexes with the logs")
    add("--offset", type=int, metavar="N", help="look up the batch that holds this offset, step by step")
    add("--at", metavar="TIME", help="look up the first record at or after: epoch ms, or ISO 8601 (UTC by default)")
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    targets: list[Row] = []
    if args.offset is not None:
        if args.offset < 0:
            raise ConfigError(f"--offset {args.offset}: expected 0 or more")
        targets.append({"offset": args.offset})
    if args.at is not None:
        is_epoch = _EPOCH_MS.fullmatch(args.at)
        targets.append({"at_ms": int(args.at) if is_epoch else milliseconds_of(parse_instant(args.at))})
    tree = discover_logs(args.paths)
    partitions = [summarise_partition(*at, deep=args.deep, verify=args.verify) for at in tree.iter_partitions()]
    report = build_report(partitions, tree.problems)
    if targets:
        report["lookups"] = []
        for found, target in product(tree.iter_partitions(kind=DirectoryKind.LIVE), targets):
            is_offset = "offset" in target
            way = look_up_offset(*found, target["offset"]) if is_offset else look_up_instant(*found, target["at_ms"])
            report["lookups"].append(lookup_row(way, target))
    print_answer(args, report, lambda: format_report(report))
    if not any(segment.is_usable for partition in partitions for segment in partition.segments):
        raise NothingUsableError("nothing usable in the input")
    return 0


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
    lines: list[str] = []
    for section, columns in _SECTIONS.items():
        if rows := report[section]:
            shown = {name: title for name, title in columns.items() if name in rows[0]}
            lines += [f"{section} ({len(rows)})", *show_rows(rows, shown, indent=2).splitlines(), ""]
    frequent = [
        escape_hidden(f"  {_name(row)}: ")
        + ", ".join(
            f"{repr(top['key']) if top['key'] is not None else '0x' + top['key_hex']} {top['record_count']}"
            for top in row["top_keys"][:_SHOWN_KEYS]
        )
        for row in report["partitions"]
        if row.get("top_keys")
    ]
    if frequent:
        lines += ["most frequent keys", *frequent, ""]
    for lookup in report.get("lookups", ()):
        head, *steps = lookup["steps"]
        lines += [escape_hidden(f"{_name(lookup)}: {head}"), *(f"  {step}" for step in steps), ""]
    problems = report["problems"]
    lines.append(f"problems ({len(problems)})" if problems else "no problems")
    for problem in problems:
        place = problem["path"] if problem["position"] is None else f"{problem['path']} at {problem['position']}"
        lines.append(escape_hidden(f"  {problem['severity']}: {place}: {problem['reason']}"))
    return "\n".join(lines) + "\n"


def _name(row: Row) -> str:
    return f"{row['topic'] or row['path']} {row['partition']} (broker {format_field('broker_id', row['broker_id'])})"
