"""`inspect`: what is in these logs, and where an offset or instant lies."""

import argparse
import json
import re
import sys

from pipeline.cli.inspect_rows import Row, build_report
from pipeline.cli.inspect_text import format_report
from pipeline.cli.lookup_rows import lookup_row
from pipeline.cli.options import add_json_option
from pipeline.errors import ConfigError, NothingUsableError
from pipeline.model.log_tree import DirectoryKind, LogDirectory, PartitionDirectory
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
    """Adds the command's options."""
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
    """Inspects the paths and prints the report."""
    targets = _parse_targets(args.offset, args.at)
    tree = discover_logs(args.paths)
    partitions = [summarise_partition(*found, deep=args.deep, verify=args.verify) for found in tree.iter_partitions()]
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
