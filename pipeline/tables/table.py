"""What a declared table is: one frozen value that DDL, writers, suites, docs and tests read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

ColumnType = Literal[
    "string",
    "bigint",
    "int",
    "double",
    "boolean",
    "timestamp",
    "date",
    "binary",
    "map<string,string>",
    "map<string,bigint>",
    "map<string,double>",
    "array<int>",
    "array<bigint>",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column.

    Attributes:
        name: snake_case, with its unit as a suffix.
        type: Spark SQL type.
        doc: What it means, in a sentence; where the number comes from.
        unit: Unit for the data dictionary, or "".
        nullable: Whether NULL is allowed.
        volatile: True where two equal runs may differ (run ids, clocks, attempts): left out of equality.
    """

    name: str
    type: ColumnType
    doc: str
    unit: str = ""
    nullable: bool = True
    volatile: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """One Delta table.

    Attributes:
        name: `layer.noun`.
        grain: What one row is.
        key: Columns that are unique together.
        columns: All columns, in order.
        partitioned_by: Delta partition columns.
        write_mode: `replace` = a run replaces its windows; `merge` = rows are upserted by key.
        schema_version: Raised with every additive change.
    """

    name: str
    grain: str
    key: tuple[str, ...]
    columns: tuple[Column, ...]
    partitioned_by: tuple[str, ...] = ()
    write_mode: Literal["replace", "merge"] = "replace"
    schema_version: int = 1

    @property
    def layer(self) -> str:
        """`bronze`, `silver` or `gold`."""
        return self.name.split(".")[0]

    @property
    def column_names(self) -> tuple[str, ...]:
        """Names in order."""
        return tuple(column.name for column in self.columns)

    def column(self, name: str) -> Column:
        """The column of that name.

        Raises:
            KeyError: if the table has no such column.
        """
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(f"{self.name} has no column {name}")


BY_DATE = ("cluster", "window_date")
"""How bronze and silver are partitioned."""

# Columns that many tables share, with one meaning everywhere.
CLUSTER = Column(name="cluster", type="string", nullable=False, doc="Name of the cluster in the configuration.")
WINDOW_START = Column(name="window_start", type="timestamp", nullable=False, doc="Start of the window, UTC.")
WINDOW_DATE = Column(
    name="window_date", type="date", nullable=False, doc="UTC date of `window_start`; partitions the table."
)
TOPIC = Column(name="topic", type="string", nullable=False, doc="Topic name.")
TOPIC_ID = Column(
    name="topic_id",
    type="string",
    doc="Topic id (base64 UUID) from `partition.metadata` or the cluster metadata; empty where unknown.",
    nullable=False,
)
PARTITION = Column(name="partition", type="bigint", nullable=False, doc="Partition number.")
BROKER_ID = Column(
    name="broker_id", type="bigint", nullable=False, doc="Broker (`node.id`); -1 where no leader is known."
)
RUN_ID = Column(name="run_id", type="string", doc="Run that wrote the row.", volatile=True)
