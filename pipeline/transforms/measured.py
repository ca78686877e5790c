"""Measures on their way back to Spark: their types are those of the table they are for."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pipeline.tables.arrow_types import ARROW_TYPES

if TYPE_CHECKING:
    from pipeline.tables import Table


def measured_schema(table: Table, row_type: type[Any]) -> pa.Schema:
    """Arrow types of a row of measures.

    Args:
        table: Declares them.
        row_type: Dataclass whose fields are columns of the table.
    """
    return pa.schema([(field.name, ARROW_TYPES[table.column(field.name).type]) for field in fields(row_type)])
