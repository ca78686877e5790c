"""What keys got, their hashes, and what strategies answered about them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pyarrow.compute as pc
from pyspark.sql import functions as F

from pipeline.jobs.ingest.found import counts_keys
from pipeline.jobs.ingest.windows import fresh_windows
from pipeline.jobs.ingest.writing import clear, replace_fresh
from pipeline.sources.files.problem_rows import problems_of
from pipeline.sources.live.frames import live_keys
from pipeline.sources.records.key_frames import choose_questions, key_frame, question_frame
from pipeline.sources.records.packed_keys import KEYS, count_rows, iter_pieces, unpack_frame
from pipeline.sources.records.record_options import PSEUDONYMOUS
from pipeline.storage.delta import FEW_ROWS, merge_in_parts
from pipeline.storage.frames import fit_rows
from pipeline.storage.rows import merge_rows, replace_rows
from pipeline.tables.keys import KEY_ANSWERS, KEY_HASHES, KEY_MATRICES, KEY_TRAFFIC
from pipeline.transforms.key_sums import list_key_hashes, sum_key_traffic
from pipeline.transforms.keys import (
    collect_key_answers,
    collect_key_hashes,
    describe_contradictions,
    key_problem_rows,
    summarise_key_matrices,
    summarise_key_traffic,
    with_key_window,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pipeline.jobs.ingest.found import Found
    from pipeline.model.window import TimeWindow
    from pipeline.runs import RunContext
    from pipeline.tables import Table


def write_keys(
    spark: SparkSession, run: RunContext, found: Found, expired: dict[str, set[TimeWindow]]
) -> dict[str, int]:
    """What each key got, its hashes, and what strategies answered about it: all from one scan of the records.

    Args:
        spark: Session.
        run: What the run is about.
        found: What it found.
        expired: Windows that keep what is stored, by source.

    Returns:
        Versions of the tables written.
    """
    source = found.reading.record_source
    fresh = fresh_windows(run, expired.get(source, set()))
    if not fresh:
        return {}
    if not counts_keys(run, found.reading):
        for table in (KEY_TRAFFIC, KEY_MATRICES):
            clear(run, table, fresh)
        return {}  # nobody vouches for keys that were not counted
    live = found.reading.live
    reads = found.reads if live is None else live.reads
    questions = choose_questions(run, reads, found.reading.history.state_at(run.as_of_ms).partitions)
    starts = [window.start_ms for window in fresh]
    packed = key_frame(spark, run, found.reads, questions) if found.fetched is None else live_keys(found.fetched)
    packed = packed.where(F.col("window_start_ms").isin(starts)).persist()
    row_count = count_rows(packed)
    write = _write_few if row_count <= FEW_ROWS else _write_many
    versions = write(run, packed, fresh, row_count)
    if questions:
        rows, asked = with_key_window(unpack_frame(packed)), question_frame(spark, questions)
        versions |= _write_answers(run, rows, asked, fresh, row_count * len(questions))
        wrong = [*key_problem_rows(rows), *describe_contradictions(rows, asked)]
        found.problems.setdefault(source, []).extend(problems_of(wrong))
    else:
        versions[KEY_MATRICES.name] = clear(run, KEY_MATRICES, fresh)
    packed.unpersist()
    return versions


def _write_few(run: RunContext, packed: DataFrame, windows: tuple[TimeWindow, ...], _row_count: int) -> dict[str, int]:
    """Traffic and hashes of keys that one process can hold, summed up by it: Spark would take several times as long."""
    name, run_id = run.cluster_name, run.run_id
    held = packed.toArrow()
    is_packed = pc.equal(held["kind"], KEYS)
    pieces = list(iter_pieces(held.filter(is_packed)))
    others = held.filter(pc.invert(is_packed)).drop_columns("packed").to_pylist()
    with ThreadPoolExecutor(1) as beside:  # delta-rs writes without the interpreter lock
        hashes_written = None
        if run.config.keys.mode == PSEUDONYMOUS:
            hashes = fit_rows(list_key_hashes(pieces, name), KEY_HASHES, run_id=run_id)
            hashes_written = beside.submit(merge_rows, hashes, run.warehouse, KEY_HASHES, insert_only=True)
        traffic = fit_rows(sum_key_traffic(pieces, others, name), KEY_TRAFFIC, run_id=run_id)
        version = replace_rows(traffic, run.warehouse, KEY_TRAFFIC, cluster=name, windows=windows)
    versions = {KEY_TRAFFIC.name: version}
    return versions if hashes_written is None else versions | {KEY_HASHES.name: hashes_written.result()}


def _write_many(run: RunContext, packed: DataFrame, windows: tuple[TimeWindow, ...], row_count: int) -> dict[str, int]:
    """The same by Spark."""
    rows, name = with_key_window(unpack_frame(packed)), run.cluster_name
    traffic = summarise_key_traffic(rows, name)
    versions = {KEY_TRAFFIC.name: replace_fresh(run, KEY_TRAFFIC, traffic, windows, row_count)}
    if run.config.keys.mode == PSEUDONYMOUS:
        versions[KEY_HASHES.name] = _merge_keys(run, KEY_HASHES, collect_key_hashes(rows, name), row_count)
    return versions


def _write_answers(
    run: RunContext, rows: DataFrame, asked: DataFrame, windows: tuple[TimeWindow, ...], row_count: int
) -> dict[str, int]:
    matrices = summarise_key_matrices(rows, asked, run.cluster_name)
    answers = collect_key_answers(rows, asked, run.cluster_name)
    return {
        KEY_MATRICES.name: replace_fresh(run, KEY_MATRICES, matrices, windows, row_count),
        KEY_ANSWERS.name: _merge_keys(run, KEY_ANSWERS, answers, row_count),
    }


def _merge_keys(run: RunContext, table: Table, frame: DataFrame, row_count: int) -> int:
    return merge_in_parts(frame, run.warehouse, table, run_id=run.run_id, by="key_id", row_count=row_count)
