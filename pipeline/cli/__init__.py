"""The command line: `partition-health COMMAND`, also `python -m pipeline`; a command's file is imported only when it is called."""

import argparse
import importlib
import os
import shlex
import sys
import textwrap
from collections.abc import Sequence

from pipeline.cli.terminal import print_error
from pipeline.environment import collect_seldom, share_memory, variable
from pipeline.errors import PipelineError
from pipeline.model.number_text import escape_hidden

PROGRAM = "partition-health"
USAGE_EXIT_CODE = 2
_SIGPIPE_EXIT_CODE = 141
COMMANDS = {
    "init": ("writes the configuration of a running cluster and runs one window",
        "init --bootstrap-servers broker-1:9092 --prometheus http://prometheus:9090"),
    "run": ("runs the whole pipeline without Airflow: ingest, gates, health, mails", "run",
        "run --window 2026-11-21T09:00:00Z/PT6H --cluster prod --json"),
    "collect": ("reads this broker's disks into a landing folder, for a run elsewhere",
        "collect /var/lib/kafka/data --to /mnt/landing",
        "collect /d1/kafka /d2/kafka --to s3a://landing/prod --cluster prod --rate 20"),
    "inspect": ("shows what is in log directories: segments, partitions, brokers, problems", "inspect /mnt/broker-1 --verify",
        "inspect 00000000000000000000.log --at 2026-11-21T09:00:00Z"),
    "partition": ("shows which partition each client would choose for a key", "partition order-1 order-2 --partitions 12",
        "partition order-1 --strategy all --partitions 12"),
    "simulate": ("simulates another producer version or setting: shares, batches, latencies", "simulate --list",
        "simulate kip-794-1mb --plot kip-794.png"),
    "replay": ("replays recorded traffic through the current setup (the back-test) and each candidate",
        "replay /mnt/broker-1 /mnt/broker-2 --metrics /mnt/scrapes/producers"),
    "what-if": ("predicts shares and usable capacity after a change of brokers, traffic or placement",
        "what-if --lose-broker 3 --grow orders=3", "what-if --add-broker 4:rack-b --max-moved 500GiB --plan plan.json",
        "what-if --reassignment plan.json --json", "what-if --configured"),
    "report": ("writes the report: one HTML file about a window and the days before it", "report --last 7d --open",
        "report --window 2026-11-21T09:00:00Z/PT1H --output report.html"),
    "mute": ("mutes an incident, a broker or a cluster until a date", "mute",
        'mute --subject "broker 1" --until 2026-12-01 --reason expansion', "mute K-JKT62CWA --lift"),
    "outbox": ("lists messages that are not delivered yet, and why", "outbox", "outbox --retry all --send"),
    "sql": ("runs Spark SQL on the tables; opens a shell if no statement is given", "sql",
        'sql "SELECT * FROM gold.broker_share" --json', "sql < statements.sql"),
    "tables": ("prints the data dictionary: every table, every column", "tables", "tables gold.verdicts", "tables --sources"),
    "config": ("prints every setting of the configuration: type, default, meaning; or a schema for editors", "config",
        "config --schema > partition-health.schema.json"),
    "doctor": ("checks Java, jars, versions, configuration, sources, mail; says what to do",
        "doctor --config partition-health.yaml"),
}  # fmt: skip  # a table: a command's words and examples together
"""Commands, each in the module of its name, whose docstring describes it: its line in the list, and what people type."""
_COMPLETION = """\
tab completion, in bash or zsh (fish: --shell fish):
  eval "$(register-python-argcomplete partition-health)"
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command; 0 fine, 1 unexpected, 2 usage or configuration, 3 nothing usable in the input, 4 a gate failed, 5 delivery."""
    share_memory()
    collect_seldom()
    arguments = list(sys.argv[1:] if argv is None else argv)
    if variable("_ARGCOMPLETE"):  # the shell asks for completions of the line it hands over; ends the process
        import argcomplete

        words = shlex.split((variable("COMP_LINE") or "").partition(" ")[2].replace("'", "").replace('"', ""))
        argcomplete.autocomplete(build_parser(next(iter(words), None)))
    parser = build_parser(arguments[0] if arguments else None)
    try:
        args = parser.parse_args(arguments)  # values that an option refuses are errors of the configuration, too
        if args.run is None:
            parser.print_help()
            return USAGE_EXIT_CODE
        code: int = args.run(args)
        sys.stdout.flush()
    except PipelineError as error:
        print_error(f"{PROGRAM}: error: {error}")
        return error.exit_code
    except BrokenPipeError:
        # the reader (`| head`) has enough; what is still buffered must not raise again at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _SIGPIPE_EXIT_CODE
    except (FileNotFoundError, FileExistsError, NotADirectoryError, IsADirectoryError, PermissionError) as error:
        if error.filename is None:
            raise
        print_error(f"{PROGRAM}: error: {escape_hidden(str(error.filename))}: {error.strerror}")
        return USAGE_EXIT_CODE  # a path that an option names
    return code


def build_parser(command: str | None) -> argparse.ArgumentParser:
    """The argument parser; only the command that is called has its options. Its result has `run`, that command's function."""
    parser = argparse.ArgumentParser(
        prog=PROGRAM, description="Partition health for Kafka.", epilog=_COMPLETION, formatter_class=_Help
    )
    parser.set_defaults(run=None)
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND")
    for name, (line, *typed) in COMMANDS.items():
        examples = "".join(f"\n  {PROGRAM} {example}" for example in typed)
        command_parser = subparsers.add_parser(name, help=line, epilog=f"examples:{examples}", formatter_class=_Help)
        if name == command:
            module = importlib.import_module(f"pipeline.cli.{name.replace('-', '_')}")
            command_parser.description = module.__doc__
            module.add_options(command_parser)
            command_parser.set_defaults(run=module.run)
    return parser


class _Help(argparse.RawDescriptionHelpFormatter):
    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return text if "\n  " in text else textwrap.fill(" ".join(text.split()), width, initial_indent=indent)
