"""Samples of metrics as Arrow rows: the one shape in which every metrics source hands them on.

Rows are of kind `sample`, or of kind `problem` for what could not be read.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.codec.metrics.metric_names import Series
from pipeline.model.log import Problem
from pipeline.model.window import LATEST_MS

MAX_SKEW_MS = 60_000  # a clock that differs by more from ours is reported
_LABELS = pa.map_(pa.string(), pa.string())
SAMPLE_SCHEMA = pa.schema(
    [
        ("row_kind", pa.string()),
        ("source", pa.string()),
        ("instance", pa.string()),
        ("observed_at_ms", pa.int64()),
        ("name", pa.string()),
        ("exposed_name", pa.string()),
        ("labels", _LABELS),
        ("labels_text", pa.string()),  # sorted, `name=value` joined by commas
        ("value", pa.float64()),
        ("path", pa.string()),
        ("position", pa.int64()),
        ("reason", pa.string()),
        ("severity", pa.string()),
        ("first_bytes_hex", pa.string()),
    ]
)


def milliseconds_of_seconds(instants_s: NDArray[np.float64]) -> NDArray[np.int64]:
    """Instants of samples, UTC milliseconds; `ValueError` if no calendar holds one of them."""
    if not np.all((instants_s >= 0) & (instants_s * 1000 <= LATEST_MS)):
        raise ValueError("an instant that no calendar holds")
    return np.rint(instants_s * 1000).astype(np.int64)


def sample_batch(
    source: str,
    instance: str,
    path: str,
    *,
    series: Sequence[Series],
    places: NDArray[np.int64],
    observed_at_ms: NDArray[np.int64],
    values: NDArray[np.float64],
) -> pa.RecordBatch:
    """Rows of samples of one instance.

    `places` are indexes into `series`, one per sample, as are instants and values; NaN (never recorded) becomes NULL. A
    client that pushes its metrics to brokers is an instance by itself.
    """
    used, index = np.unique(places, return_inverse=True)
    taken = [series[place] for place in used.tolist()]
    take = pa.array(index, pa.int64())
    count = len(places)
    values = values * np.array([s.factor for s in taken], np.float64)[index]
    instances = [dict(s.labels).get("client_instance_id", instance) for s in taken]
    known = {
        "row_kind": _repeated("sample", count),
        "source": _repeated(source, count),
        "instance": pa.array(instances, pa.string()).take(take),
        "observed_at_ms": pa.array(observed_at_ms, pa.int64()),
        "name": pa.array([s.name for s in taken], pa.string()).take(take),
        "exposed_name": pa.array([s.exposed_name for s in taken], pa.string()).take(take),
        "labels": pa.array([s.labels for s in taken], _LABELS).take(take),
        "labels_text": pa.array(
            [",".join(f"{name}={value}" for name, value in s.labels) for s in taken], pa.string()
        ).take(take),
        "value": pa.array(values, pa.float64(), mask=np.isnan(values)),
        "path": _repeated(path, count),
    }
    return _batch(known, count)


def problem_batch(source: str, instance: str, observed_at_ms: int, problems: Sequence[Problem]) -> pa.RecordBatch:
    """Rows of what could not be read of an instance."""
    count = len(problems)
    known = {
        "row_kind": _repeated("problem", count),
        "source": _repeated(source, count),
        "instance": _repeated(instance, count),
        "observed_at_ms": pa.array([observed_at_ms] * count, pa.int64()),
        "path": pa.array([p.path for p in problems], pa.string()),
        "position": pa.array([p.position for p in problems], pa.int64()),
        "reason": pa.array([p.reason for p in problems], pa.string()),
        "severity": pa.array([p.severity for p in problems], pa.string()),
        "first_bytes_hex": pa.array([p.first_bytes[:64].hex() for p in problems], pa.string()),
    }
    return _batch(known, count)


def _repeated(text: str, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(text, pa.string()), count)


def _batch(known: dict[str, pa.Array], count: int) -> pa.RecordBatch:
    arrays = [known[f.name] if f.name in known else pa.nulls(count, f.type) for f in SAMPLE_SCHEMA]
    return pa.RecordBatch.from_arrays(arrays, schema=SAMPLE_SCHEMA)
