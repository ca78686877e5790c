"""Declared tables as Delta tables in a warehouse: made and extended through delta-rs, without a JVM."""

import json
import logging
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from deltalake import DeltaTable, Field, Schema
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.schema import ArrayType, MapType, PrimitiveType

from pipeline.config.storage import Folder, RemoteFolder, open_in_arrow
from pipeline.errors import StorageConflictError, TableMismatchError
from pipeline.storage.durability import StorageErrors, has_table, keep_table, open_table, sync_commits, take_table
from pipeline.tables import TABLES, Column, Table
from pipeline.tables.incidents import ALERT_OUTBOX
from pipeline.tables.keys import EXPIRING

_PRIVATE = (*EXPIRING, ALERT_OUTBOX)
"""Tables made for one user: what can be reversed into keys, and mails, which have mode 600 as files too."""
_ATTEMPTS = 20
_log = logging.getLogger(__name__)
SCHEMA_VERSION_PROPERTY = "partitionHealth.schemaVersion"
# Who opens a table reads a checkpoint and fewer commits than this; replaced files are kept as long, for older readers.
_LOG_PROPERTIES = {"delta.checkpointInterval": "10", "delta.logRetentionDuration": "interval 7 days"}
_RENAMED = {"bigint": "long", "int": "integer"}  # Delta's names of Spark SQL's types, where they differ


def table_path(warehouse: Folder, table: Table) -> Folder:
    return warehouse.joinpath(*table.name.split("."))


def count_rows(warehouse: Folder, tables: Iterable[Table] = TABLES) -> dict[str, int]:
    paths = {table.name: table_path(warehouse, table) for table in tables}
    return {name: open_table(path).count() for name, path in paths.items() if has_table(path)}


def count_added_rows(warehouse: Folder, versions: Mapping[str, int]) -> dict[str, int]:
    counts = {}
    for name, version in versions.items():
        info = read_commit_info(warehouse.joinpath(*name.split(".")), version)
        metrics: dict[str, int | str] = info.get("operationMetrics", info)  # of files that tasks wrote there are none
        added = metrics.get("num_added_rows", metrics.get("numOutputRows"))
        if added is not None:
            counts[name] = int(added)
    return counts


def read_commit_info(folder: Folder, version: int) -> dict[str, Any]:
    files, root = open_in_arrow(folder)
    name = f"_delta_log/{version:020}.json"
    try:
        with Path(root, name).open("rb") if files is None else files.open_input_file(f"{root}/{name}") as file:
            actions = map(json.loads, file.read().splitlines())
    except FileNotFoundError:
        return {}
    return next((one["commitInfo"] for one in actions if "commitInfo" in one), {})


def ensure_tables(warehouse: Folder, tables: Iterable[Table] = TABLES) -> tuple[str, ...]:
    """Makes missing tables and columns; gives the changed tables; `TableMismatchError` if one on disk is newer or differs in more."""
    changed = []
    for table in tables:
        path = table_path(warehouse, table)
        with StorageErrors(path, "free space or repair the folder, then run again"):
            if _ensure_at(path, table):
                changed.append(table.name)
    return tuple(changed)


def ensure_measures(warehouse: Folder) -> None:
    """The tables that who only looks reads, also in an older warehouse; not the outbox, whose loss is to be seen."""
    ensure_tables(warehouse, (table for table in TABLES if table is not ALERT_OUTBOX))


def _ensure_at(path: Folder, table: Table) -> bool:
    made = None
    if is_made := not has_table(path):
        if isinstance(path, Path):
            path.mkdir(parents=True, exist_ok=True)
            if table in _PRIVATE:
                path.chmod(stat.S_IRWXU)
        try:
            made = DeltaTable.create(
                str(path),
                schema=Schema([_field(column) for column in table.columns]),
                partition_by=list(table.partitioned_by),
                name=table.name,
                description=f"One row per {table.grain}.",
                configuration=_properties(table),
                raise_if_key_not_exists=False,
                storage_options=path.delta_options() if isinstance(path, RemoteFolder) else None,
            )
        except DeltaError:
            if not has_table(path):  # else another process made it just now
                raise
    for _ in range(_ATTEMPTS):
        on_disk, made = made or take_table(path), None
        before = -1 if is_made else on_disk.version()
        try:
            is_changed = _extend(on_disk, table) | _add_checks(on_disk, table)
        except CommitFailedError:  # another process changed it just now
            continue
        if is_made or is_changed:
            on_disk.update_incremental()
            sync_commits(path, after=before, to=on_disk.version())
        keep_table(path, on_disk)
        return is_made or is_changed
    raise StorageConflictError(f"{table.name}: other writers changed it first {_ATTEMPTS} times")


def _properties(table: Table) -> dict[str, str]:
    feed = {"delta.enableChangeDataFeed": "true"} if table.has_change_feed else {}
    return {SCHEMA_VERSION_PROPERTY: str(table.schema_version), **_LOG_PROPERTIES, **feed}


def _add_checks(on_disk: DeltaTable, table: Table) -> bool:
    """Adds the constraints that a table lacks, in one commit; rows that are there already break none, or none is added."""
    properties = on_disk.metadata().configuration
    missing = {check.name: check.sql for check in table.checks if f"delta.constraints.{check.name}" not in properties}
    try:
        if missing:
            on_disk.alter.add_constraint(missing)
    except CommitFailedError:
        raise
    except DeltaError as error:
        _log.warning("%s is left without CHECK constraints, older rows break them: %s", table.name, error)
        return False
    return bool(missing)


def _field(column: Column) -> Field:
    doc = f"{column.doc} Unit: {column.unit}." if column.unit else column.doc
    outer, _, inner = column.type.rstrip(">").rpartition("<")
    primitives = [PrimitiveType(_RENAMED.get(name, name)) for name in inner.split(",")]
    kind: PrimitiveType | MapType | ArrayType = primitives[0]
    if outer:
        kind = MapType(*primitives, value_contains_null=True) if outer == "map" else ArrayType(kind, contains_null=True)
    return Field(column.name, kind, nullable=column.nullable, metadata={"comment": doc})


def _extend(on_disk: DeltaTable, table: Table) -> bool:
    properties = on_disk.metadata().configuration
    stored_version = int(properties.get(SCHEMA_VERSION_PROPERTY, "1"))
    if stored_version > table.schema_version:
        versions = f"schema version {stored_version}, this program knows {table.schema_version}"
        raise TableMismatchError(f"{table.name} on disk has {versions}: it was written by a newer program")
    stored = {field.name: field.type for field in on_disk.schema().fields}
    added = []
    for column in table.columns:
        declared, name = _field(column), f"{table.name}.{column.name}"
        if column.name not in stored:
            if not column.nullable:
                lacks = f"{name} is NOT NULL and cannot be added to the table on disk"
                raise TableMismatchError(f"{lacks}: a column added later is nullable")
            added.append(declared)
        elif stored[column.name] != declared.type:
            raise TableMismatchError(f"{name} is {stored[column.name]} on disk, declared as {declared.type}")
    if added:
        on_disk.alter.add_columns(added)
    wanted = _properties(table)
    is_other = any(properties.get(name) != value for name, value in wanted.items())
    if is_other:
        on_disk.alter.set_table_properties(wanted, raise_if_not_exists=False)
    return bool(added) or is_other
