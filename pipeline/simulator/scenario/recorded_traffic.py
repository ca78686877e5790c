"""Recorded arrivals of a scenario file: a CSV or Parquet file with a row for each record."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pipeline.codec.records.record_scan import measure_field_bytes
from pipeline.errors import ConfigError
from pipeline.model.window import LATEST_MS
from pipeline.partitioners.assignment import assign_partitions
from pipeline.partitioners.registry import find_strategy
from pipeline.simulator.clients.client import MS
from pipeline.simulator.engine.record_size import FIXED_BODY_BYTES
from pipeline.simulator.scenario.scenario import Topic
from pipeline.simulator.scenario.traffic import KEYLESS, Recorded


def read_recorded(path: Path, topic: Topic, strategy: str) -> Recorded:
    """Reads a recording in the order of at_ms: columns at_ms and value_bytes; where there, key and partition.

    A file is Parquet if named so, else CSV; the strategy, by name, places the keys. `ConfigError` for a wrong file.
    """
    table = _read_table(path)
    at_ms = _numbers(table, "at_ms", path, np.float64)
    value_bytes = _numbers(table, "value_bytes", path, np.int64)
    if not len(at_ms):
        raise ConfigError(f"{path} has no row")
    order = np.argsort(at_ms, kind="stable")
    partition, key_bytes = _place_rows(table, path, topic, strategy)
    body_bytes = FIXED_BODY_BYTES + measure_field_bytes(value_bytes) + measure_field_bytes(key_bytes) + 1
    return Recorded(
        due_ns=np.rint(at_ms[order] * MS).astype(np.int64),
        body_bytes=body_bytes[order],
        partition=partition[order],
        target=np.zeros(len(order), np.int64),
    )


def _read_table(path: Path) -> pa.Table:
    try:
        if path.suffix == ".parquet":
            return pq.read_table(path)
        options = pa.csv.ConvertOptions(column_types={"key": pa.string()}, strings_can_be_null=True)
        return pa.csv.read_csv(path, convert_options=options)
    except (pa.ArrowInvalid, OSError) as error:
        raise ConfigError(f"{path}: {error}") from error


def _numbers(table: pa.Table, name: str, path: Path, kind: type[np.float64 | np.int64]) -> NDArray[Any]:
    if name not in table.column_names:
        raise ConfigError(f"{path}: column {name} is missing; found {', '.join(table.column_names)}")
    column = table.column(name)
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)) or column.null_count:
        raise ConfigError(f"{path}: column {name} holds {column.type}; expected numbers without gaps")
    numbers: NDArray[Any] = column.to_numpy().astype(kind)
    if len(numbers) and not (numbers.min() >= 0 and numbers.max() <= LATEST_MS):  # nor is NaN
        raise ConfigError(f"{path}: column {name} has {numbers.min()} to {numbers.max()}; expected 0 to {LATEST_MS}")
    return numbers


def _place_rows(
    table: pa.Table, path: Path, topic: Topic, strategy: str
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Partition or `KEYLESS`, and the key's length or -1, of each row."""
    count = len(topic.leaders)
    partition = np.full(table.num_rows, KEYLESS, np.int64)
    key_bytes = np.full(table.num_rows, -1, np.int64)
    if "key" in table.column_names:
        key = table.column("key").cast(pa.large_binary()).combine_chunks()
        is_keyed = key.is_valid().to_numpy(zero_copy_only=False)
        placed = assign_partitions(find_strategy(strategy), key, count)
        partition[is_keyed] = np.maximum(placed[is_keyed], KEYLESS)
        key_bytes[:] = pc.fill_null(pc.binary_length(key), -1).to_numpy()
    if "partition" in table.column_names:
        named = table.column("partition").fill_null(-1).to_numpy().astype(np.int64)
        if len(named) and (named.max() >= count or named.min() < -1):
            raise ConfigError(f"{path}: column partition reaches {named.max()}; {topic.name} has {count}")
        partition[named >= 0] = named[named >= 0]
    return partition, key_bytes
