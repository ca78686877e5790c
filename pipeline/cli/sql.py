"""Runs one statement, or opens a shell; statements piped in are run one after the other.

Tables are known by their names, such as gold.broker_share; `partition-health tables` lists them. Instants are in UTC.
Only queries run: nothing is written, and no file outside the tables is read.
"""

import argparse
import contextlib
import importlib
import json
import pydoc
import re
import shutil
import sqlite3
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, date, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pipeline.cli.sql_guard import refuse_changes, restrict_session
from pipeline.cli.tables import unknown_table
from pipeline.cli.terminal import add_config_option, print_error, show_table
from pipeline.config.pipeline_config import PipelineConfig
from pipeline.config.sections import SUMMED_UP
from pipeline.config_file import load_config
from pipeline.environment import cache_directory, provide_secrets
from pipeline.errors import ConfigError, PipelineError
from pipeline.model.number_text import format_cell, format_name
from pipeline.storage.catalog import FOR_FEW_ROWS, register_copies, register_tables
from pipeline.storage.rows import FEW_ROWS
from pipeline.storage.session import running_session
from pipeline.storage.tables_on_disk import count_rows
from pipeline.tables import TABLES
from pipeline.tables.keys import EXPIRING

_SHOWN_ROWS = 1000
_COPIED_ROWS = 100_000  # rows of small tables, which are copied for Spark in less time than it takes to read their logs
_WITHOUT_DELTA = {"spark.sql.extensions": "", "spark.sql.catalog.spark_catalog": ""}
_QUERY = re.compile(r"[\s(]*(select|with|from|values)\b", re.IGNORECASE)
_OF_FILES = re.compile(r"@|\bas\s+of\b|_metadata\b|\binput_file|\btable_changes|\bdelta\b", re.IGNORECASE)
"""What asks for an earlier version of a table or for its files."""


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("statement", nargs="?", metavar="SELECT …", help="statement to run; without it a shell opens")
    add_config_option(parser)
    parser.add_argument("--json", action="store_true", help="one JSON document per statement: a list of rows")


def run(args: argparse.Namespace) -> int:
    config = load_config(args.config)
    if args.statement is None:
        with _session(config, {}) as spark:
            names = register_tables(spark, config.warehouse)
            restrict_session(spark)
            is_typed = sys.stdin.isatty()
            columns = sorted({column.name for table in TABLES for column in table.columns})
            for statement in read_statements((*names, *columns)):
                try:
                    show_answer(answer(spark, statement, as_json=args.json))
                except PipelineError as error:
                    if not is_typed:
                        raise
                    print_error(str(error))  # Spark repeats values of tables
        return 0
    # refuses a table of our layers that is not there, before Spark starts; `ConfigError` names the most similar ones
    known = {table.name for table in TABLES}
    for name in re.findall(r"\b(?:from|join)\s+`?((?:bronze|silver|gold)\.\w+)`?", args.statement, re.IGNORECASE):
        if name.lower() not in known:
            raise ConfigError(unknown_table(name))
    # the tables a statement names, all where it names none: each costs a third of a second
    tables = tuple(table for table in TABLES if table.name in args.statement.lower()) or TABLES
    row_count = sum(count_rows(config.warehouse, tables).values())
    is_copied = row_count <= _COPIED_ROWS and asks_for_rows(args.statement) and not {*tables} & {*EXPIRING}
    conf = (FOR_FEW_ROWS if row_count <= FEW_ROWS else {}) | (_WITHOUT_DELTA if is_copied else {})
    if is_copied and not config.spark.master.startswith("local"):  # the workers of a cluster see no copies
        config = config.model_copy(update={"spark": config.spark.model_copy(update={"master": "local[2]"})})
    with TemporaryDirectory() as folder, _session(config, conf) as spark:
        if is_copied:
            register_copies(spark, config.warehouse, tables, Path(folder))
        else:
            register_tables(spark, config.warehouse, tables)
        restrict_session(spark)
        sys.stdout.write(answer(spark, args.statement, as_json=args.json))
    dropped = [one.name for one in (*SUMMED_UP, *EXPIRING) if config.sums_only and one.name in args.statement.lower()]
    if dropped:
        print(f"{', '.join(dropped)}: rows of the newest windows only (sums_only)", file=sys.stderr)
    return 0


def _session(config: PipelineConfig, conf: dict[str, str]) -> AbstractContextManager[SparkSession]:
    # what pyspark's first call to the JVM imports, but no pandas, for which its tools for tests look: 0.3 CPU-s
    if "pandas" not in sys.modules:
        sys.modules["pandas"] = None  # type: ignore[assignment]  # not to be imported, says the import system
        try:
            importlib.import_module("pyspark.testing.utils")
        finally:
            del sys.modules["pandas"]
    return running_session(config.spark.model_copy(update={"conf": conf | config.spark.conf}), app_name="sql")


def asks_for_rows(statement: str) -> bool:
    """Whether a statement asks for rows as they are now, which copies of the tables give as well."""
    return _QUERY.match(statement) is not None and _OF_FILES.search(statement) is None


def answer(spark: SparkSession, statement: str, *, as_json: bool) -> str:
    try:
        query = statement.strip().removesuffix(";")
        refuse_changes(spark, query)
        frame = spark.sql(query)
        # one row more than is shown: it says whether there are more
        rows: pa.Table = (frame if as_json else frame.limit(_SHOWN_ROWS + 1)).toArrow()
    except PySparkException as error:
        message = str(error).partition("\n\nJVM stacktrace")[0].partition(";\n")[0]  # after it stands the whole plan
        raise ConfigError(message.strip()) from error
    except Py4JError as error:  # what Spark has no words of its own for
        said = str(getattr(error, "java_exception", None) or error).partition("\n")[0]
        raise ConfigError(f"Spark cannot run it: {format_name(said, 300)}") from error
    return json.dumps(rows.to_pylist(), indent=1, default=_as_json) + "\n" if as_json else format_rows(rows)


def format_rows(rows: pa.Table) -> str:
    if not rows.column_names:
        return "done\n"
    numbers = ("int", "uint", "float", "double", "half", "decimal")
    right = frozenset(i for i, field in enumerate(rows.schema) if str(field.type).startswith(numbers))
    cells = [[format_cell(value) for value in column.to_pylist()] for column in rows.slice(0, _SHOWN_ROWS).columns]
    table = show_table(rows.column_names, list(zip(*cells, strict=True)), right=right)
    count = f"{rows.num_rows} row{'' if rows.num_rows == 1 else 's'}"
    if rows.num_rows > _SHOWN_ROWS:
        count = f"the first {_SHOWN_ROWS} rows; --json gives all"
    return f"{table}({count})\n"


def _as_json(value: object) -> str:
    if isinstance(value, datetime):
        return value.replace(tzinfo=value.tzinfo or UTC).astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, bytes):
        return value.hex()
    return value.isoformat() if isinstance(value, date) else str(value)


_PROMPT = "sql> "
_LEAVE = ("exit", "quit")


def read_statements(names: Sequence[str]) -> Iterator[str]:
    """Reads statements from stdin until it ends or `exit`; the tab key completes these names of tables and columns."""
    if sys.stdin.isatty():
        with _line_editing(names):
            yield from split_statements(_typed_lines())
    else:
        yield from split_statements(sys.stdin)


def show_answer(text: str) -> None:
    """Prints an answer; one longer than the terminal through `$PAGER`, else `less`."""
    if sys.stdin.isatty() and sys.stdout.isatty() and text.count("\n") >= shutil.get_terminal_size().lines:
        # less ends by itself where all fits, keeps colours, and leaves the answer there
        provide_secrets({"LESS": "FRX"})
        pydoc.pager(text)
    else:
        sys.stdout.write(text)
        sys.stdout.flush()


def split_statements(lines: Iterable[str | None]) -> Iterator[str]:
    """Cuts lines into statements at semicolons outside quotes; the last one needs none, and None drops what was begun."""
    statement = ""
    for line in lines:
        if line is None:
            statement = ""
            continue
        if "\0" in line:
            raise ConfigError("the statement has a NUL: remove it")
        for part in re.split("(?<=;)", line.rstrip("\n") + "\n"):
            statement += part
            if sqlite3.complete_statement(statement):  # its last semicolon is outside quotes and comments
                found, statement = statement.strip().removesuffix(";").strip(), ""
                if found.lower() in _LEAVE:
                    return
                if found:
                    yield found
        if statement.strip().lower() in _LEAVE:
            return
    if statement.strip():
        yield statement.strip()


def _typed_lines() -> Iterator[str | None]:
    prompt = _PROMPT
    while True:
        try:
            line = input(prompt)
        except EOFError:
            print()
            return
        except KeyboardInterrupt:
            print("\n(exit or Ctrl-D leaves)")
            prompt = _PROMPT
            yield None
            continue
        yield line
        prompt = _PROMPT if not line.strip() or line.rstrip().endswith(";") else "  -> "


@contextlib.contextmanager
def _line_editing(names: Sequence[str]) -> Iterator[None]:
    try:
        import readline  # not everywhere
    except ImportError:
        yield
        return
    history = cache_directory() / "sql_history"
    history.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(OSError):
        readline.read_history_file(history)
    readline.set_history_length(1000)
    readline.set_completer_delims(" \t\n(,;=")
    readline.set_completer(lambda text, state: ([n for n in names if n.startswith(text.lower())] + [None])[state])
    readline.parse_and_bind("tab: complete")
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            readline.write_history_file(history)
