"""Writes what the scan of records gives: batches, partition traffic, keys, arrivals."""

from __future__ import annotations

from functools import partial

import pyarrow as pa
from pyspark.sql import SparkSession

from pipeline.calibration.arrival_rows import GROUP
from pipeline.config.keys import PSEUDONYMOUS
from pipeline.jobs.ingest.found import Found, counts_keys, reads_arrivals
from pipeline.jobs.ingest.windows import fresh_windows
from pipeline.jobs.ingest.writing import clear, merge, replace, within
from pipeline.model.window import TimeWindow
from pipeline.runs import RunContext
from pipeline.sources.files.cluster_rows import compacted_topics
from pipeline.sources.files.file_rows import problems_of
from pipeline.sources.live.offsets import iter_offset_traffic_rows
from pipeline.sources.records.pieces import Kind
from pipeline.sources.records.scan import Parts
from pipeline.tables.keys import KEY_ANSWERS, KEY_HASHES, KEY_MATRICES, KEY_TRAFFIC
from pipeline.tables.silver import ARRIVALS, PARTITION_TRAFFIC, RECORD_BATCHES
from pipeline.transforms.arrivals import join_arrivals
from pipeline.transforms.keys import (
    describe_contradictions,
    key_problem_rows,
    list_contradictions,
    list_key_answers,
    list_key_hashes,
    sum_key_matrices,
    sum_keys,
    sum_others,
)
from pipeline.transforms.traffic import finish_traffic, sum_batches

Expired = dict[str, set["TimeWindow"]]


def write_traffic(spark: SparkSession, run: RunContext, found: Found, expired: Expired) -> dict[str, int]:
    """Record batches, and what the partitions got, summed up from them."""
    reading, live = found.reading, found.reading.live
    fresh = fresh_windows(run, expired.get(reading.record_source, set()))
    if not fresh:
        return {}
    batches = found.scan.parts(Kind.BATCHES).map(partial(within, windows=fresh))
    versions = {RECORD_BATCHES.name: replace(spark, run, RECORD_BATCHES, batches, fresh)}
    compacted = compacted_topics(reading.history.state_at(run.as_of_ms), reading.tree)
    rate = 1.0 if live is None else live.source.sampling.time
    sums = pa.concat_tables(batches.map(sum_batches).collect())
    traffic = finish_traffic(sums, compacted, run.cluster.batch_size_bytes, sampling_rate=rate)
    rows = [run.table_of(PARTITION_TRAFFIC, traffic)]
    if live is not None:
        by_offsets = iter_offset_traffic_rows(
            live.offset_traffic,
            cluster=run.cluster_name,
            compacted=compacted,
            batch_size_bytes=run.cluster.batch_size_bytes,
        )
        rows.append(within(run.table_of(PARTITION_TRAFFIC, by_offsets), windows=fresh))
    versions[PARTITION_TRAFFIC.name] = run.replace(
        PARTITION_TRAFFIC, pa.concat_tables(rows, promote_options="permissive"), fresh
    )
    return versions


def write_keys(spark: SparkSession, run: RunContext, found: Found, expired: Expired) -> dict[str, int]:
    """Writes key counts, hashes and strategies' answers; arguments as of `write_traffic`."""
    source = found.reading.record_source
    fresh = fresh_windows(run, expired.get(source, set()))
    if not fresh:
        return {}
    if not counts_keys(run, found.reading):
        for table in (KEY_TRAFFIC, KEY_MATRICES):
            clear(run, table, fresh)
        return {}  # no version is committed for keys that were not counted
    others = within(found.scan.small(Kind.OTHERS), windows=fresh)
    keys = found.scan.parts(Kind.KEYS, by=("key_id",)).map(partial(within, windows=fresh))
    # The rows that are not about one key go with those of the first part.
    traffic = keys.map(partial(sum_keys, others=others)).plus(sum_others(others))
    versions = {KEY_TRAFFIC.name: replace(spark, run, KEY_TRAFFIC, traffic, fresh)}
    if run.config.keys.mode == PSEUDONYMOUS:
        versions[KEY_HASHES.name] = merge(run, KEY_HASHES, keys.map(list_key_hashes))
    questions = [(q.strategy, q.version, q.partition_count) for q in found.settings.questions]
    matrices = Parts([sum_key_matrices(others, questions)])
    versions[KEY_MATRICES.name] = replace(spark, run, KEY_MATRICES, matrices, fresh)
    if questions:
        versions[KEY_ANSWERS.name] = merge(run, KEY_ANSWERS, keys.map(partial(list_key_answers, questions=questions)))
        different = keys.map(partial(list_contradictions, questions=questions)).collect()
        wrong = [*key_problem_rows(others), *describe_contradictions(pa.concat_tables(different))]
        found.problems.setdefault(source, []).extend(problems_of(wrong))
    return versions


def write_arrivals(spark: SparkSession, run: RunContext, found: Found, expired: Expired) -> dict[str, int]:
    """When each record was created, how large it was and which key it had; arguments as of `write_traffic`."""
    fresh = fresh_windows(run, expired.get(found.reading.record_source, set()))
    if not fresh:
        return {}
    if not reads_arrivals(run, found.reading):
        clear(run, ARRIVALS, fresh)
        return {}  # no version is committed for arrivals that were not read
    live = found.reading.live
    rate = 1.0 if live is None else live.source.sampling.time * live.source.sampling.partitions
    is_named = run.config.keys.mode == PSEUDONYMOUS
    chunks = found.scan.parts(Kind.ARRIVALS, by=GROUP).map(partial(within, windows=fresh))
    rows = chunks.map(partial(join_arrivals, is_named=is_named, sampling_rate=rate))
    return {ARRIVALS.name: replace(spark, run, ARRIVALS, rows, fresh)}
