"""The command line: `partition-health COMMAND`, also `python -m pipeline`.

One file per command, imported only when its command is called, so that `inspect` never waits for Spark. A command's
module has `add_options(parser)` and `run(args) -> int`; `COMMANDS` names it.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from typing import TYPE_CHECKING, NamedTuple

from pipeline.errors import PipelineError

if TYPE_CHECKING:
    from collections.abc import Sequence

PROGRAM = "partition-health"
USAGE_EXIT_CODE = 2
_SIGPIPE_EXIT_CODE = 141


class Command(NamedTuple):
    """A command: the module that has it, and its line in the list."""

    module: str
    help: str


COMMANDS = {
    "run": Command("pipeline.cli.run", "the whole pipeline without Airflow: ingest, gates, health, mails"),
    "inspect": Command("pipeline.cli.inspect", "what is in these logs: segments, partitions, brokers, problems"),
    "partition": Command("pipeline.cli.partition", "which partition each client would choose for a key"),
    "simulate": Command(
        "pipeline.cli.simulate", "what another producer version or setting would do: shares, batches, latencies"
    ),
    "replay": Command(
        "pipeline.cli.replay", "recorded traffic through the partitioner in use, as a back-test, and each candidate"
    ),
    "mute": Command("pipeline.cli.mute", "keeps an incident, a broker or a cluster quiet until a date"),
    "outbox": Command("pipeline.cli.outbox", "messages that are not delivered yet, and why"),
    "sql": Command("pipeline.cli.sql", "Spark SQL on the tables by name; a shell without a statement"),
    "tables": Command("pipeline.cli.tables", "the data dictionary: every table, every column"),
    "doctor": Command(
        "pipeline.cli.doctor", "checks Java, jars, versions, configuration, sources, mail; says what to do"
    ),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command.

    Args:
        argv: Arguments without the program's name; those of the process by default.

    Returns:
        The exit code: 0 fine, 1 unexpected, 2 usage or configuration, 3 nothing usable in the input, 4 a gate failed,
        5 delivery failed.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    parser = build_parser(arguments[0] if arguments else None)
    args = parser.parse_args(arguments)
    if args.run is None:
        parser.print_help()
        return USAGE_EXIT_CODE
    try:
        code: int = args.run(args)
        sys.stdout.flush()
    except PipelineError as error:
        print(f"{PROGRAM}: error: {error}", file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:
        # the reader (`| head`) has enough; what is still buffered must not raise again at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _SIGPIPE_EXIT_CODE
    return code


def build_parser(command: str | None) -> argparse.ArgumentParser:
    """The argument parser: the command that is called has its options, of the others only the names are known.

    Args:
        command: The command about to be called, or None.

    Returns:
        The parser; its result has `run`, the command's function, or None.
    """
    parser = argparse.ArgumentParser(prog=PROGRAM, description="Partition health for Kafka.")
    parser.set_defaults(run=None)
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND")
    for name, entry in COMMANDS.items():
        command_parser = subparsers.add_parser(name, help=entry.help)
        if name == command:
            module = importlib.import_module(entry.module)
            module.add_options(command_parser)
            command_parser.set_defaults(run=module.run)
    return parser
