"""`inspect`: what is in these logs, and where an offset or instant lies."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from pipeline.cli.inspect_rows import build_report
from pipeline.cli.inspect_text import format_report
from pipeline.errors import NothingUsableError
from pipeline.sources.log_directories import discover_logs
from pipeline.sources.segment_summary import summarise_partition

if TYPE_CHECKING:
    import argparse

_DESCRIPTION = """\
Says what is in Kafka logs, without a broker: a row per segment, totals per topic-partition and broker, and whatever is
wrong. PATH is a segment file, a partition directory, a log directory, or a tree that holds several brokers.
Exits with 0 where anything was usable (problems are listed), with 3 where nothing was.
"""


def add_parser(
    subparsers: argparse._SubParsersAction[argparse.ArgumentParser], help_text: str
) -> argparse.ArgumentParser:
    """Adds the command's options.

    Args:
        subparsers: Where to.
        help_text: The command's line in the list.

    Returns:
        The command's parser.
    """
    parser = subparsers.add_parser("inspect", help=help_text, description=_DESCRIPTION)
    parser.add_argument(
        "paths", nargs="+", metavar="PATH", help="segment file, partition directory, log directory, tree"
    )
    parser.add_argument("--deep", action="store_true", help="decode records: keys, values, headers, most frequent keys")
    parser.add_argument("--verify", action="store_true", help="compare the indexes with the logs")
    parser.add_argument("--json", action="store_true", help="one JSON document")
    return parser


def run(args: argparse.Namespace) -> int:
    """Inspects the paths and prints the report.

    Args:
        args: See `add_parser`.

    Returns:
        0; the problems are part of the report.

    Raises:
        NothingUsableError: No segment could be read.
    """
    tree = discover_logs(args.paths)
    partitions = [summarise_partition(*found, deep=args.deep, verify=args.verify) for found in tree.iter_partitions()]
    report = build_report(partitions, tree.problems)
    if args.json:
        json.dump(report, sys.stdout, indent=1)
        sys.stdout.write("\n")
    else:
        sys.stdout.write(format_report(report))
    if not any(segment.is_usable for partition in partitions for segment in partition.segments):
        raise NothingUsableError("nothing usable in the input")
    return 0
