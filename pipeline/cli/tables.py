"""Prints the data dictionary.

Without NAME: every table, and the meaning of one row. With NAME (`gold.broker_share`, or `broker_share`): its columns.
"""

import argparse
import difflib
import textwrap

from pipeline.cli.terminal import add_json_option, fields_of, print_answer, show_table, text_width
from pipeline.errors import ConfigError
from pipeline.tables import TABLES, Table

_TEXT_WIDTH = 130
_OTHER_COLUMNS = 52  # about as wide as all but the meaning are


def add_options(parser: argparse.ArgumentParser) -> None:
    name = parser.add_argument("name", nargs="?", metavar="NAME", help="table to describe")
    name.completer = lambda **_: [table.name for table in TABLES]  # type: ignore[attr-defined]  # argcomplete's
    parser.add_argument("--sources", action="store_true", help="which source yields which number, exact or estimated")
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    if args.sources:
        from pipeline.sources.kinds import CAPABILITIES, COLUMNS

        rows = [(number.columns, *how, number.note) for number, how in CAPABILITIES.items()]
        sources = [dict(zip(["numbers", *COLUMNS, "note"], row, strict=True)) for row in rows]
        text = show_table(["number", *COLUMNS, "note"], rows)
        print_answer(args, {"sources": sources}, text)
        return 0
    # with or without the layer
    tables = [one for one in TABLES if args.name in (None, one.name, one.name.partition(".")[2])]
    if not tables:
        raise ConfigError(unknown_table(args.name))
    documents = [
        fields_of(table, "name grain key partitioned_by write_mode schema_version")
        | {
            "columns": [
                fields_of(column, "name type unit")
                | {"is_nullable": column.nullable, "is_volatile": column.volatile, "meaning": column.doc}
                for column in table.columns
            ]
        }
        for table in tables
    ]
    text = show_table(["table", "one row per"], [[table.name, table.grain] for table in tables])
    print_answer(args, {"tables": documents}, _describe(tables[0]) if args.name else text)
    return 0


def _describe(table: Table) -> str:
    rows = []
    for column in table.columns:
        first, *more = textwrap.wrap(column.doc, max(20, text_width(_TEXT_WIDTH) - _OTHER_COLUMNS)) or [""]
        name = column.name + ("*" if column.name in table.key else "")
        rows.append([name, column.type, column.unit, "" if column.nullable else "NOT NULL", first])
        rows.extend(["", "", "", "", line] for line in more)
    layout = f", partitioned by {', '.join(table.partitioned_by)}" if table.partitioned_by else ""
    head = textwrap.fill(f"{table.name}: one row per {table.grain}{layout}. * = key.", text_width(110))
    return f"{head}\n\n{show_table(['column', 'type', 'unit', '', 'meaning'], rows)}"


def unknown_table(name: str) -> str:
    names = [table.name for table in TABLES]
    similar = difflib.get_close_matches(name, names, cutoff=0.5) or names
    return f"no table {name}; there is {', '.join(similar)}"
