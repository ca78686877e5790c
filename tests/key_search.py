"""Looks for clear keys in everything a run left: as text, in hex, in Base64; in tables in their decoded columns."""

import base64
import re

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from pipeline.storage.tables_on_disk import table_path
from pipeline.tables import TABLES

DIGITS = [b"%d" % digit for digit in range(10)]


def make_pattern(prefixes):
    """A pattern for keys that are a prefix and a number, however they are written."""
    found = set()
    for start in (prefix + digit for prefix in prefixes for digit in DIGITS):
        found |= {start, start.hex().encode(), start.hex().upper().encode()}
        for shift in range(3):  # where in a group of three bytes the key begins
            coded = base64.b64encode(bytes(shift) + start)
            # the first character may hold bits of what is before, the last one bits of what follows
            groups, left = divmod(shift + len(start), 3)
            found.add(coded[(0, 2, 3)[shift] : 4 * groups + left])
    assert min(map(len, found)) >= 5, "shorter ones are found by chance"
    return re.compile(join_words(found))


def join_words(words):
    """A regular expression for any of some words, a tenth of the work of trying one after another: it branches byte by byte.

    >>> join_words({b"ab", b"ac", b"d"})
    b'(?:a(?:b|c)|d)'
    """
    if b"" in words:
        return b""
    first = sorted({word[:1] for word in words})
    rests = (join_words({word[1:] for word in words if word.startswith(byte)}) for byte in first)
    branches = [re.escape(byte) + rest for byte, rest in zip(first, rests, strict=True)]
    return branches[0] if len(branches) == 1 else b"(?:" + b"|".join(branches) + b")"


def search_files(folder, pattern, *, leave_out=()):
    """Files below a folder that hold a key, with what was found; raw bytes, compressed columns included."""
    found = {}
    for path in folder.rglob("*"):
        if path.is_file() and not any(path.is_relative_to(other) for other in leave_out):
            match = pattern.search(path.read_bytes())
            if match:
                found[str(path.relative_to(folder))] = match[0]
    return found


def search_tables(warehouse, pattern):
    """(table, column) of every column that holds a key, with the values that do."""
    found = {}
    for table in TABLES:
        path = table_path(warehouse, table)
        if DeltaTable.is_deltatable(str(path)):
            rows = DeltaTable(path).to_pyarrow_table()
            for name in rows.column_names:
                column = rows[name]
                if pa.types.is_list(column.type):  # an array's elements each by itself
                    column = pc.list_flatten(column)
                values = column if pa.types.is_nested(column.type) else column.unique()
                held = {_as_bytes(value) for value in values.to_pylist() if pattern.search(_as_bytes(value))}
                if held:
                    found[table.name, name] = held
    return found


def _as_bytes(value):
    return value if isinstance(value, bytes) else str(value).encode()
