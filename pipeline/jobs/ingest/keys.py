"""What keys got, their hashes, and what strategies answered about them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pipeline.jobs.ingest.found import counts_keys
from pipeline.jobs.ingest.windows import fresh_windows
from pipeline.jobs.ingest.writing import clear, replace_fresh
from pipeline.sources.key_frames import choose_questions, key_frame, question_frame
from pipeline.sources.live.frames import live_keys
from pipeline.sources.problem_rows import problems_of
from pipeline.storage.delta import merge_in_parts
from pipeline.tables.keys import KEY_ANSWERS, KEY_HASHES, KEY_MATRICES, KEY_TRAFFIC
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
    name = run.cluster_name
    live = found.reading.live
    reads = found.reads if live is None else live.reads
    questions = choose_questions(run, reads, found.reading.history.state_at(run.as_of_ms).partitions)
    starts = [window.start_ms for window in fresh]
    rows = key_frame(spark, run, found.reads, questions) if found.fetched is None else live_keys(found.fetched)
    rows = with_key_window(rows.where(F.col("window_start_ms").isin(starts))).persist()
    row_count = rows.count()
    versions = {KEY_TRAFFIC.name: replace_fresh(run, KEY_TRAFFIC, summarise_key_traffic(rows, name), fresh, row_count)}
    if run.config.keys.mode == "pseudonymous":
        versions[KEY_HASHES.name] = _merge_keys(run, KEY_HASHES, collect_key_hashes(rows, name), row_count)
    if questions:
        asked = question_frame(spark, questions)
        matrices, answers = summarise_key_matrices(rows, asked, name), collect_key_answers(rows, asked, name)
        versions[KEY_MATRICES.name] = replace_fresh(run, KEY_MATRICES, matrices, fresh, row_count)
        versions[KEY_ANSWERS.name] = _merge_keys(run, KEY_ANSWERS, answers, row_count * len(questions))
        wrong = [*key_problem_rows(rows), *describe_contradictions(rows, asked)]
        found.problems.setdefault(source, []).extend(problems_of(wrong))
    else:
        versions[KEY_MATRICES.name] = clear(run, KEY_MATRICES, fresh)
    rows.unpersist()
    return versions


def _merge_keys(run: RunContext, table: Table, frame: DataFrame, row_count: int) -> int:
    return merge_in_parts(frame, run.warehouse, table, run_id=run.run_id, by="key_id", row_count=row_count)
