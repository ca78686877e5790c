"""Samples of metrics as Arrow rows, the one shape in which sources hand them on: of kind `sample`, or `problem` for what could not be read."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.codec.metrics.metric_names import Series
from pipeline.errors import InputError
from pipeline.model.window import LATEST_MS
from pipeline.tables.arrow_types import integers, strings

MAX_SKEW_MS = 60_000  # a clock that differs by more from ours is reported
MAX_SERIES_CHARS = 16_384  # names and labels of a series together; each of its samples repeats them
TOO_LONG = f"series with more than {MAX_SERIES_CHARS:,} characters of names and labels are left out"
MOST_SAMPLE_BYTES = 2 << 30  # of rows, of one file or server
_MOST_BATCH_CHARS = 1 << 28  # an array holds 2 GiB, a character takes up to 4 bytes
_escape = partial(re.compile(r"[\\,=]").sub, r"\\\g<0>")  # a client's label passes for no other series
SAMPLE_SCHEMA = pa.schema(
    [
        *(*strings("row_kind", "source", "instance"), *integers("observed_at_ms"), *strings("name", "exposed_name")),
        pa.field("labels", pa.map_(pa.string(), pa.string())),
        *strings("labels_text"),  # sorted, `name=value` joined by commas, `\` before such within
        pa.field("value", pa.float64()),
        *(*strings("path"), *integers("position"), *strings("reason", "severity", "first_bytes_hex")),
    ]
)
Samples = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]  # indexes of series, instants in ms, values


def take_instants(instants_ms: NDArray[Any]) -> NDArray[np.int64]:
    """Instants of samples, UTC milliseconds; `ValueError` if no calendar holds one of them."""
    if not np.all((instants_ms >= 0) & (instants_ms <= LATEST_MS)):
        raise ValueError("an instant that no calendar holds")
    taken: NDArray[np.int64] = np.rint(instants_ms).astype(np.int64)
    return taken


@dataclass(slots=True)
class SampleIntake:
    """How much one file or server may still give, and why some of its samples were left out."""

    left_bytes: int = field(default_factory=lambda: MOST_SAMPLE_BYTES)
    reasons: set[str] = field(default_factory=set)


def sample_batches(
    known_as: tuple[str, str, str], series: Sequence[Series], samples: Samples, *, intake: SampleIntake
) -> Iterator[pa.RecordBatch]:
    """Rows of one instance (source, instance, path); NaN, negative and infinite become NULL; `InputError` beyond what `intake` takes."""
    places = samples[0]
    used, index = np.unique(places, return_inverse=True)
    texts = ((known_as[1], s.name, s.exposed_name, *chain(*s.labels)) for s in map(series.__getitem__, used.tolist()))
    chars = np.array([sum(map(len, text)) for text in texts], np.int64)[index]
    rows = np.flatnonzero(chars <= MAX_SERIES_CHARS)
    if len(rows) < len(places):
        intake.reasons.add(TOO_LONG)
    numbers = np.cumsum(chars[rows]) // _MOST_BATCH_CHARS
    for part in np.split(rows, np.flatnonzero(np.diff(numbers)) + 1) if len(rows) else ():
        batch = _sample_batch(known_as, series, (places[part], samples[1][part], samples[2][part]))
        intake.left_bytes -= batch.nbytes
        if intake.left_bytes < 0:
            reason = f"its samples take more than {MOST_SAMPLE_BYTES >> 20:,} MiB: the rest is left out"
            raise InputError(f"{reason}; read fewer windows at once", path=known_as[2])
        yield batch


def _sample_batch(known_as: tuple[str, str, str], series: Sequence[Series], samples: Samples) -> pa.RecordBatch:
    """Rows of some samples; a client that pushes its metrics to brokers is an instance by itself."""
    (source, instance, path), (places, observed_at_ms, values) = known_as, samples
    used, index = np.unique(places, return_inverse=True)
    taken = [series[place] for place in used.tolist()]
    values = values * np.array([s.factor for s in taken], np.float64)[index]
    of_series = {
        "instance": [dict(s.labels).get("client_instance_id", instance) for s in taken],
        "name": [s.name for s in taken],
        "exposed_name": [s.exposed_name for s in taken],
        "labels": [s.labels for s in taken],
        "labels_text": [",".join(f"{_escape(name)}={_escape(value)}" for name, value in s.labels) for s in taken],
    }
    columns = {n: pa.array(held, SAMPLE_SCHEMA.field(n).type).take(pa.array(index)) for n, held in of_series.items()}
    columns |= {
        n: pa.repeat(text, len(places)) for n, text in (("row_kind", "sample"), ("source", source), ("path", path))
    }
    columns["observed_at_ms"] = pa.array(observed_at_ms, pa.int64())
    columns["value"] = pa.array(values, pa.float64(), mask=~((values >= 0) & (values < 2.0**63)))
    arrays = [columns[f.name] if f.name in columns else pa.nulls(len(places), f.type) for f in SAMPLE_SCHEMA]
    return pa.RecordBatch.from_arrays(arrays, schema=SAMPLE_SCHEMA)
