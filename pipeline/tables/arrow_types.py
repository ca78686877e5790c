"""Arrow types of Spark SQL's types, and fields of a schema."""

from functools import partial

import pyarrow as pa

ARROW_TYPES = {  # by the type of a declared column
    "string": pa.string(),
    "bigint": pa.int64(),
    "int": pa.int32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "date": pa.date32(),
    "binary": pa.binary(),
    "map<string,string>": pa.map_(pa.string(), pa.string()),
    "map<string,bigint>": pa.map_(pa.string(), pa.int64()),
    "map<string,double>": pa.map_(pa.string(), pa.float64()),
    "array<int>": pa.list_(pa.int32()),
    "array<bigint>": pa.list_(pa.int64()),
}
_SQL_TYPES = {arrow: sql for sql, arrow in ARROW_TYPES.items()}


def _fields(kind: pa.DataType, *names: str) -> list[pa.Field]:
    return [pa.field(name, kind) for name in names]


strings, integers = partial(_fields, pa.string()), partial(_fields, pa.int64())


def format_sql_schema(schema: pa.Schema) -> str:
    """Columns as Spark SQL declares them."""
    return ", ".join(f"`{field.name}` {_SQL_TYPES[field.type]}" for field in schema)
