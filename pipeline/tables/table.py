"""Declaration of a table: one frozen value that DDL, writers, suites, docs and tests read."""

from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, Literal

ColumnType = Literal["string", "bigint", "int", "double", "boolean", "timestamp", "date", "binary", "map<string,string>", "map<string,bigint>", "map<string,double>", "array<int>", "array<bigint>"]
_UNITS = {"_bytes": "bytes", "_ms": "ms", "_us": "us", "_ratio": "ratio", "_per_s": "1/s"}
"""Of a column, by the suffix of its name."""


@dataclass(frozen=True, slots=True)
class Column:
    name: str  # snake_case, with its unit as a suffix
    type: ColumnType  # Spark SQL type
    doc: str  # what it means, in a sentence; where the number comes from
    unit: str = ""  # for the data dictionary; where the name's suffix says it, that is enough
    _: KW_ONLY
    nullable: bool = True  # whether NULL is allowed
    volatile: bool = False  # two equal runs may differ here (run ids, clocks, attempts): left out of equality

    def __post_init__(self) -> None:
        named = next((unit for suffix, unit in _UNITS.items() if self.name.endswith(suffix)), "")
        object.__setattr__(self, "unit", self.unit or named)


@dataclass(frozen=True, slots=True)
class Check:
    """What every value of a column lies in, NULL apart; a `CHECK` constraint of the Delta table."""

    column: str
    _: KW_ONLY
    least: float | None = None
    most: float | None = None
    one_of: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.column}_is_known" if self.one_of else f"{self.column}_in_range"

    @property
    def sql(self) -> str:
        if self.one_of:
            return self.column + " IN ('" + "', '".join(self.one_of) + "')"
        limits = ((">=", self.least), ("<=", self.most))
        conditions = [f"{self.column} {sign} {limit}" for sign, limit in limits if limit is not None]
        return f"{self.column} IS NULL OR {' AND '.join(conditions)}"


def not_negative(*columns: str) -> tuple[Check, ...]:
    return tuple(Check(name, least=0) for name in columns)


_DATED_BY = ("window_date", "window_start", "max_timestamp", "first_seen_at")


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    name: str  # `layer.noun`
    grain: str  # what one row is
    key: tuple[str, ...]  # columns that are unique together
    columns: tuple[Column, ...]  # all columns, in order
    partitioned_by: tuple[str, ...] = ()  # Delta partition columns
    # `replace` = a run replaces its windows; `merge` = rows are upserted by key
    write_mode: Literal["replace", "merge"] = "replace"
    schema_version: int = 1  # raised with every additive change
    checks: tuple[Check, ...] = ()  # what values lie in: constraints of the table, on top of NOT NULL
    has_change_feed: bool = False  # whether Delta's change data feed says which rows each commit changed

    @property
    def layer(self) -> str:
        return self.name.split(".")[0]

    @property
    def column_names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @property
    def dated_by(self) -> str:
        """Column whose date is a row's age; a row of `bronze.log_segments` without one does not age."""
        return next(name for name in _DATED_BY if name in self.column_names)

    def column(self, name: str) -> Column:
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(f"{self.name} has no column {name}")


BY_DATE = ("cluster", "window_date")  # how bronze and silver are partitioned

# Columns that many tables share, with one meaning everywhere.
CLUSTER = Column("cluster", "string", "Name of the cluster in the configuration.", nullable=False)
WINDOW_START = Column("window_start", "timestamp", "Start of the window, UTC.", nullable=False)
WINDOW_DATE = Column("window_date", "date", "UTC date of `window_start`; partitions the table.", nullable=False)
TOPIC = Column("topic", "string", "Topic name.", nullable=False)
TOPIC_ID = Column("topic_id", "string", "Topic id (base64 UUID); '' where unknown.", nullable=False)
PARTITION = Column("partition", "bigint", "Partition number.", nullable=False)
BROKER_ID = Column("broker_id", "bigint", "Broker (`node.id`); -1 where no leader is known.", nullable=False)
RUN_ID = Column("run_id", "string", "Run that wrote the row.", volatile=True)
WINDOW = (CLUSTER, WINDOW_START)
DATED_WINDOW = (CLUSTER, WINDOW_DATE, WINDOW_START)
TOPIC_COLUMNS = (TOPIC, TOPIC_ID)
PARTITION_COLUMNS = (TOPIC, TOPIC_ID, PARTITION)


def _column(kind: ColumnType, name: str, doc: str, unit: str = "", *, nullable: bool = False, volatile: bool = False) -> Column:
    return Column(name, kind, doc, unit, nullable=nullable, volatile=volatile)


string = partial(_column, "string")
boolean = partial(_column, "boolean")
timestamp = partial(_column, "timestamp")  # an instant in UTC
bigint = partial(_column, "bigint")  # a count, an id, an offset
double = partial(_column, "double", nullable=True)  # a ratio, a time, a rate
_ENDS = (("_low", "Lower"), ("_high", "Upper"))


def bigint_range(name: str, doc: str, unit: str, *, of: str = "seeds") -> tuple[Column, ...]:
    ends = (bigint(f"{name}{end}", f"{word} end of `{name}`.", unit, nullable=True) for end, word in _ENDS)
    return (bigint(name, f"{doc}; the median over the {of}.", unit, nullable=True), *ends)


def double_range(name: str, doc: str, unit: str) -> tuple[Column, ...]:
    ends = (double(f"{name}{end}", f"{word} end of `{name}`.", unit) for end, word in _ENDS)
    return (double(name, doc, unit), *ends)


def _declare(first: tuple[Column, ...], name: str, grain: str, key: tuple[str, ...], *columns: Column, **layout: Any) -> Table:  # noqa: ANN401 - fields of `Table`
    return Table(name=name, grain=grain, key=key, columns=(*first, *columns, RUN_ID), **layout)


of_cluster = partial(_declare, (CLUSTER,))  # tables whose rows name their run, the first columns left out
windowed = partial(_declare, WINDOW)
dated = partial(_declare, DATED_WINDOW, partitioned_by=BY_DATE)
