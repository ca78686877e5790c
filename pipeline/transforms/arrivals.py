"""From packed chunks of arrivals to `silver.arrivals`."""

from collections.abc import Iterable, Iterator

import pyarrow as pa

from pipeline.calibration.arrival_rows import CHUNK_SCHEMA, GROUP, ROW_SCHEMA, join_chunks

_INSTANTS = ("window_start", "minute_start")
ARRIVAL_SCHEMA = pa.schema(
    [
        *((name, pa.timestamp("us", tz="UTC")) for name in _INSTANTS),
        *(field for field in ROW_SCHEMA if not field.name.endswith("_start_ms")),
        ("count_kind", pa.string()),
        ("sampling_rate", pa.float64()),
    ]
)
"""Rows of `silver.arrivals` without cluster."""
ORDER = (*GROUP, "first_ms")  # how chunks are sorted before they are joined


def join_arrivals(chunks: pa.Table, *, is_named: bool, sampling_rate: float = 1.0) -> pa.Table:
    """Puts the arrivals of each producer session, topic and minute, chunks of `CHUNK_SCHEMA`, in one order.

    `is_named`: keys have numbers of their ids; `sampling_rate`: part of each window that was read.
    """
    ordered = chunks.select(CHUNK_SCHEMA.names).sort_by([(name, "ascending") for name in ORDER])
    rows = join_sorted(ordered.to_batches(), is_named=is_named, sampling_rate=sampling_rate)
    return pa.Table.from_batches(rows, ARRIVAL_SCHEMA)


def join_sorted(
    chunks: Iterable[pa.RecordBatch], *, is_named: bool, sampling_rate: float = 1.0
) -> Iterator[pa.RecordBatch]:
    """The same for chunks that come in order, some at a time; yields rows of `ARRIVAL_SCHEMA`."""
    for rows in join_chunks(chunks, is_named=is_named):
        columns = {name: rows[name] for name in rows.schema.names}
        for name in _INSTANTS:
            columns[name] = rows[f"{name}_ms"].cast(pa.timestamp("ms", tz="UTC"))
        columns["count_kind"] = pa.repeat("exact" if sampling_rate == 1 else "sampled", len(rows))
        columns["sampling_rate"] = pa.repeat(float(sampling_rate), len(rows))
        arrays = [columns[field.name].cast(field.type) for field in ARRIVAL_SCHEMA]
        yield pa.RecordBatch.from_arrays(arrays, schema=ARRIVAL_SCHEMA)
