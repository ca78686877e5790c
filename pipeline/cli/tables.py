"""`tables`: the data dictionary, from the declared tables."""

import argparse
import difflib
import json
import sys
import textwrap
from typing import Any

from pipeline.cli.terminal import add_json_option, fields_of, show_table, text_width
from pipeline.errors import ConfigError
from pipeline.tables import TABLES, Table

_TEXT_WIDTH = 130
_OTHER_COLUMNS = 52  # about as wide as all but the meaning are
_DESCRIPTION = """\
Without NAME: every table and what one row of it is. With NAME (`gold.broker_share`, or `broker_share`): its columns.
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = _DESCRIPTION
    name = parser.add_argument("name", nargs="?", metavar="NAME", help="table to describe")
    name.completer = lambda **_: [table.name for table in TABLES]  # type: ignore[attr-defined]  # argcomplete's
    parser.add_argument("--sources", action="store_true", help="which source yields which number, exact or estimated")
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    if args.sources:
        from pipeline.sources.kinds import CAPABILITIES, COLUMNS

        how = [dict(zip(COLUMNS, one.how, strict=True)) for one in CAPABILITIES]
        sources = [{"numbers": one.numbers, "note": one.note, **by} for one, by in zip(CAPABILITIES, how, strict=True)]
        text = show_table(["number", *COLUMNS, "note"], [[one.numbers, *one.how, one.note] for one in CAPABILITIES])
        sys.stdout.write(json.dumps({"sources": sources}, indent=1) + "\n" if args.json else text)
        return 0
    # with or without the layer
    tables = [one for one in TABLES if args.name in (None, one.name, one.name.partition(".")[2])]
    if not tables:
        raise ConfigError(unknown_table(args.name))
    if args.json:
        sys.stdout.write(json.dumps({"tables": [_document(table) for table in tables]}, indent=1) + "\n")
    elif args.name is None:
        sys.stdout.write(show_table(["table", "one row per"], [[table.name, table.grain] for table in tables]))
    else:
        rows, (table,) = [], tables
        for column in table.columns:
            first, *more = textwrap.wrap(column.doc, max(20, text_width(_TEXT_WIDTH) - _OTHER_COLUMNS)) or [""]
            name = column.name + ("*" if column.name in table.key else "")
            rows.append([name, column.type, column.unit, "" if column.nullable else "NOT NULL", first])
            rows.extend(["", "", "", "", line] for line in more)
        layout = f", partitioned by {', '.join(table.partitioned_by)}" if table.partitioned_by else ""
        head = textwrap.fill(f"{table.name}: one row per {table.grain}{layout}. * = key.", text_width(110))
        sys.stdout.write(f"{head}\n\n{show_table(['column', 'type', 'unit', '', 'meaning'], rows)}")
    return 0


def unknown_table(name: str) -> str:
    names = [table.name for table in TABLES]
    similar = difflib.get_close_matches(name, names, cutoff=0.5) or names
    return f"no table {name}; there is {', '.join(similar)}"


def _document(table: Table) -> dict[str, Any]:
    columns = [
        fields_of(column, "name type unit")
        | {"is_nullable": column.nullable, "is_volatile": column.volatile, "meaning": column.doc}
        for column in table.columns
    ]
    return fields_of(table, "name grain key partitioned_by write_mode schema_version") | {"columns": columns}
