"""Rows per table, without a JVM."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltalake import DeltaTable

from pipeline.storage.tables_on_disk import table_path
from pipeline.tables import TABLES

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from pipeline.tables import Table


def count_rows(warehouse: Path, tables: Iterable[Table] = TABLES) -> dict[str, int]:
    """Rows of each table that exists, by name, in the order given."""
    paths = {table.name: str(table_path(warehouse, table)) for table in tables}
    return {name: DeltaTable(path).count() for name, path in paths.items() if DeltaTable.is_deltatable(path)}
