"""The keyed replay over Spark: files of `silver.key_traffic` and `silver.key_hashes` to sums per candidate.

Tasks read files and cut their rows into buckets of keys; then each bucket is joined with its hashes and every candidate's
keys are assigned, all in one pass over the rows. What a task holds is one bucket. A task that has read a file sends all
columns of a bucket's rows as one value: row by row, Spark takes half a minute to move what takes a few seconds so.
"""

import pickle
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql import SparkSession

from pipeline.arrays import Ints
from pipeline.errors import InputError
from pipeline.partitioners.hash_kernels import view_offsets
from pipeline.replay.keyed.buckets import TEXT_COLUMN, Columns, replay_bucket, sum_unassigned
from pipeline.replay.keyed.plan import AnswerColumn, HashColumn, KeyedPlan
from pipeline.replay.keyed.sums import NAMED, TopicSums, merge_sums
from pipeline.stages import map_tasks

ReadFile = Callable[[str, Sequence[str]], Iterable[pa.RecordBatch]]
Packed = tuple[int, str, Columns]  # a bucket, what the rows are, and their columns

TRAFFIC, HASHES, ANSWERS = "traffic", "hashes", "answers"
"""Files of `silver.key_traffic`, `silver.key_hashes` and `silver.key_answers`."""
KEY_ID_DIGITS = 32
_NO_BUCKET = -1
_PACKED = pa.schema([("bucket", pa.int64()), ("kind", pa.string()), ("columns", pa.binary())])
_AMOUNTS = ("record_count", "size_bytes", "size_error_bytes")
_TRAFFIC_COLUMNS = ("window_start", "topic", "topic_id", "partition", "kind", "key_id", *_AMOUNTS)


def replay_keys(
    spark: SparkSession, files: Sequence[tuple[str, str]], plan: KeyedPlan, read_file: ReadFile
) -> dict[tuple[int, int], TopicSums]:
    """Assigns all recorded keys under all candidates: sums by number of the topic and of the window.

    `files` pairs `TRAFFIC`, `HASHES` or `ANSWERS` with a path; rows of other windows and topics are left out. `read_file`
    gives some columns of a file, where the tasks run.
    """
    if not files or not plan.topics:
        return {}

    def pack(file: tuple[str, str]) -> Iterator[pa.Table]:
        content, path = file
        for bucket, kind, columns in _CONTENTS[content](plan, path, read_file):
            narrow = {name: _narrow(values) for name, values in columns.items()}
            row = {"bucket": bucket, "kind": kind, "columns": pickle.dumps(narrow)}
            yield pa.Table.from_pylist([row], schema=_PACKED)

    def replay(rows: pa.Table) -> pa.Table:
        parts: dict[str, list[Columns]] = defaultdict(list)
        for row in rows.to_pylist():
            parts[row["kind"]].append(pickle.loads(row["columns"]))  # noqa: S301 - our own, of this job
        bucket = {
            kind: {name: np.concatenate([part[name] for part in of_kind]) for name in of_kind[0]}
            for kind, of_kind in parts.items()
        }
        hashes, answers = bucket.pop(HASHES, {}), bucket.pop(ANSWERS, {})
        sums: list[tuple[int, int, TopicSums]] = []
        for kind, columns in bucket.items():
            is_named = kind == NAMED
            sums += replay_bucket(plan, columns, hashes, answers) if is_named else sum_unassigned(plan, kind, columns)
        return pa.table({"sums": pa.array([pickle.dumps(sums)], pa.binary())})

    packed = map_tasks(spark, files, pack, _PACKED)
    packed_sums = packed.groupBy("bucket").applyInArrow(replay, "sums binary").toArrow()
    return merge_sums(one for sums in packed_sums["sums"] for one in pickle.loads(sums.as_py()))  # noqa: S301 - made by our tasks


def _narrow(values: NDArray[Any]) -> NDArray[Any]:
    """Unsigned, in as few bytes as the largest value takes; only the size of what is sent depends on it."""
    if values.dtype != np.int64 or not len(values) or values.min() < 0:
        return values
    return values.astype(np.min_scalar_type(int(values.max())))


def _read_traffic(plan: KeyedPlan, path: str, read_file: ReadFile) -> Iterator[Packed]:
    numbers = {(planned.topic, planned.topic_id): number for number, planned in enumerate(plan.topics)}
    starts = np.array(plan.window_starts_ms, dtype=np.int64)
    for batch in read_file(path, _TRAFFIC_COLUMNS):
        start_ms = batch["window_start"].cast(pa.timestamp("ms", "UTC")).cast(pa.int64()).to_numpy()
        window = np.minimum(np.searchsorted(starts, start_ms), len(starts) - 1)
        # by row, the number of the topic in the plan, or -1
        topics, topic_ids = _as_dictionary(batch["topic"]), _as_dictionary(batch["topic_id"])
        names, ids = topics.dictionary.to_pylist(), topic_ids.dictionary.to_pylist()
        table = np.array([[numbers.get((name_, id_), -1) for id_ in ids] for name_ in names], dtype=np.int64)
        topic: Ints = table[topics.indices.to_numpy(), topic_ids.indices.to_numpy()]
        kinds = _as_dictionary(batch["kind"])
        is_wanted = (starts[window] == start_ms) & (topic >= 0)
        columns = {"topic": topic, "window": window.astype(np.int64)}
        columns |= {name: batch[name].to_numpy() for name in ("partition", *_AMOUNTS)}
        for number, kind in enumerate(kinds.dictionary.to_pylist()):
            rows = np.flatnonzero(is_wanted & (kinds.indices.to_numpy() == number))
            if kind == NAMED:
                yield from _in_buckets(plan, NAMED, batch["key_id"], rows, columns)
            elif len(rows):
                yield _NO_BUCKET, kind, {name: values[rows] for name, values in columns.items()}


def _as_dictionary(texts: pa.Array) -> pa.DictionaryArray:
    return texts if pa.types.is_dictionary(texts.type) else texts.dictionary_encode()


def _read_hashes(plan: KeyedPlan, path: str, read_file: ReadFile) -> Iterator[Packed]:
    names = sorted({TEXT_COLUMN, *(column.name for column in plan.columns if isinstance(column, HashColumn))})
    for batch in read_file(path, ("key_id", "is_empty", *names)):
        columns = {name: pc.fill_null(batch[name], -1).to_numpy(zero_copy_only=False) for name in names}
        columns["is_empty"] = batch["is_empty"].to_numpy(zero_copy_only=False)
        yield from _in_buckets(plan, HASHES, batch["key_id"], np.arange(len(batch)), columns)


def _read_answers(plan: KeyedPlan, path: str, read_file: ReadFile) -> Iterator[Packed]:
    for batch in read_file(path, ("key_id", "strategy", "strategy_version", "partition_count", "chosen_partition")):
        for number, column in enumerate(plan.columns):
            if isinstance(column, AnswerColumn):
                is_asked = pc.equal(batch["strategy"], column.strategy)
                is_asked = pc.and_(is_asked, pc.equal(batch["strategy_version"], column.version))
                is_asked = pc.and_(is_asked, pc.equal(batch["partition_count"], column.partition_count))
                columns = {"column": np.full(len(batch), number), "answer": batch["chosen_partition"].to_numpy()}
                rows = np.flatnonzero(is_asked.to_numpy(zero_copy_only=False))
                yield from _in_buckets(plan, ANSWERS, batch["key_id"], rows, columns)


_CONTENTS = {TRAFFIC: _read_traffic, HASHES: _read_hashes, ANSWERS: _read_answers}


def _in_buckets(plan: KeyedPlan, content: str, key_ids: pa.Array, rows: Ints, columns: Columns) -> Iterator[Packed]:
    """The rows of each bucket, with their keys; the upper 32 bits of a key choose its bucket."""
    if not len(rows):
        return
    ids = key_ids.cast(pa.string())  # merged files give views, of which Arrow cannot take some
    keys = parse_key_ids(ids if len(rows) == len(ids) else ids.take(pa.array(rows)))
    buckets = ((keys >> np.uint64(32)) * np.uint64(plan.bucket_count) >> np.uint64(32)).astype(np.uint16)
    order = np.argsort(buckets, kind="stable")  # NumPy sorts 16 bits by digits
    bounds = np.searchsorted(buckets[order], np.arange(plan.bucket_count + 1))
    for bucket in np.flatnonzero(np.diff(bounds)).tolist():
        here = order[bounds[bucket] : bounds[bucket + 1]]
        yield bucket, content, {"key": keys[here], **{name: values[rows[here]] for name, values in columns.items()}}


def parse_key_ids(ids: pa.StringArray) -> NDArray[np.uint64]:
    """The first 64 bits of ids of 32 hex digits; that two of ten million keys share them has a chance of 1 in 370,000.

    Raises:
        InputError: An id has another length.

    >>> parse_key_ids(pa.array(["00000000000000ff" + "0" * 16])).tolist()
    [255]
    """
    offsets = view_offsets(ids)
    if not (np.diff(offsets) == KEY_ID_DIGITS).all():
        raise InputError(f"a key id that has not {KEY_ID_DIGITS} hex digits among {ids.slice(0, 3).to_pylist()}")
    digits = memoryview(ids.buffers()[2])[int(offsets[0]) : int(offsets[-1])]
    return np.frombuffer(bytes.fromhex(str(digits, "ascii")), ">u8")[::2].astype(np.uint64)
