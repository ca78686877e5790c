"""Writes what the scan of records gives: batches, partition traffic, keys, arrivals."""

from functools import partial

import pyarrow as pa

from pipeline.calibration.arrival_rows import GROUP
from pipeline.config.keys import PSEUDONYMOUS
from pipeline.engine import count_task_slots
from pipeline.jobs.ingest.found import Found, counts_keys, reads_arrivals
from pipeline.jobs.ingest.windows import fresh_windows
from pipeline.jobs.ingest.writing import clear, within
from pipeline.model.window import TimeWindow
from pipeline.runs import RunContext, TableRows
from pipeline.sources.files.cluster_rows import compacted_topics
from pipeline.sources.files.file_rows import problems_of
from pipeline.sources.live.offsets import iter_offset_traffic_rows
from pipeline.sources.records.pieces import Kind
from pipeline.stages import map_groups
from pipeline.storage.file_writer import WRITTEN
from pipeline.tables.keys import KEY_ANSWERS, KEY_HASHES, KEY_MATRICES, KEY_TRAFFIC
from pipeline.tables.silver import ARRIVALS, PARTITION_TRAFFIC, RECORD_BATCHES
from pipeline.transforms.arrivals import join_arrivals
from pipeline.transforms.keys import (
    answer_keys,
    count_contradictions,
    describe_contradictions,
    key_problem_rows,
    list_key_hashes,
    sum_key_matrices,
    sum_keys,
)
from pipeline.transforms.traffic import sum_traffic

Expired = dict[str, set["TimeWindow"]]
GROUP_RECORDS = 1_000_000
"""Arrivals of a group that one task puts in order, some 200 MB."""


def write_traffic(run: RunContext, found: Found, expired: Expired) -> dict[str, int]:
    """Record batches, and what the partitions got, summed up from them."""
    reading, live, spark = found.reading, found.reading.live, found.staging.spark
    fresh = fresh_windows(run, expired.get(reading.record_source, set()))
    if not fresh:
        return {}
    batches = within(found.parts[Kind.BATCHES].frame(), fresh)
    versions = {RECORD_BATCHES.name: run.replace_frame(spark, RECORD_BATCHES, batches, fresh)}
    compacted = compacted_topics(reading.history.state_at(run.as_of_ms), reading.tree)
    rate = 1.0 if live is None else live.source.sampling.time
    traffic = run.fit(
        PARTITION_TRAFFIC, sum_traffic(batches, compacted, run.cluster.batch_size_bytes, sampling_rate=rate)
    )
    if live is not None and live.offset_traffic:
        by_offsets = iter_offset_traffic_rows(
            live.offset_traffic,
            cluster=run.cluster_name,
            compacted=compacted,
            batch_size_bytes=run.cluster.batch_size_bytes,
        )
        rows = run.table_of(PARTITION_TRAFFIC, by_offsets)
        traffic = traffic.unionByName(within(run.fit(PARTITION_TRAFFIC, spark.createDataFrame(rows)), fresh))
    versions[PARTITION_TRAFFIC.name] = run.replace_frame(spark, PARTITION_TRAFFIC, traffic, fresh)
    return versions


def write_keys(run: RunContext, found: Found, expired: Expired) -> dict[str, int]:
    """Writes key counts, hashes and strategies' answers; arguments as of `write_traffic`."""
    source, spark = found.reading.record_source, found.staging.spark
    fresh = fresh_windows(run, expired.get(source, set()))
    if not fresh:
        return {}
    if not counts_keys(run, found.reading):
        for table in (KEY_TRAFFIC, KEY_MATRICES):
            clear(run, table, fresh)
        return {}  # no version is committed for keys that were not counted
    keys, others = (within(found.parts[kind].frame(), fresh) for kind in (Kind.KEYS, Kind.OTHERS))
    versions = {KEY_TRAFFIC.name: run.replace_frame(spark, KEY_TRAFFIC, sum_keys(keys, others), fresh)}
    if run.config.keys.mode == PSEUDONYMOUS:
        versions[KEY_HASHES.name] = run.insert_missing(spark, KEY_HASHES, list_key_hashes(keys), fresh)
    questions = [(q.strategy, q.version, q.partition_count) for q in found.settings.questions]
    if not questions:
        return {**versions, KEY_MATRICES.name: clear(run, KEY_MATRICES, fresh)}
    matrices = sum_key_matrices(others, questions)
    versions[KEY_MATRICES.name] = run.replace_frame(spark, KEY_MATRICES, matrices, fresh)
    answers = answer_keys(keys, questions)
    agreed = answers.where("chosen_partition = greatest").drop("greatest")
    versions[KEY_ANSWERS.name] = run.insert_missing(spark, KEY_ANSWERS, agreed, fresh)
    different = count_contradictions(answers).toArrow().to_pylist()
    wrong = [*key_problem_rows(others), *describe_contradictions(different)]
    found.problems.setdefault(source, []).extend(problems_of(wrong))
    return versions


def write_arrivals(run: RunContext, found: Found, expired: Expired) -> dict[str, int]:
    """When each record was created, how large it was and which key it had; arguments as of `write_traffic`."""
    fresh = fresh_windows(run, expired.get(found.reading.record_source, set()))
    if not fresh:
        return {}
    chunks = found.parts[Kind.ARRIVALS]
    if not reads_arrivals(run, found.reading):
        clear(run, ARRIVALS, fresh)
        return {}  # no version is committed for arrivals that were not read
    if not chunks.row_count:
        return {ARRIVALS.name: clear(run, ARRIVALS, fresh)}
    live, staging = found.reading.live, found.staging
    rate = 1.0 if live is None else live.source.sampling.time * live.source.sampling.partitions
    join = partial(join_arrivals, is_named=run.config.keys.mode == PSEUDONYMOUS, sampling_rate=rate)

    def work(rows: pa.Table) -> TableRows:
        yield ARRIVALS.name, join(rows)

    records = sum(row["record_count"] or 0 for row in found.window_rows())
    count = max(count_task_slots(staging.spark), -(-records // GROUP_RECORDS))
    kernel = run.to_files(work, (ARRIVALS,), fresh)
    ordered = map_groups(within(chunks.frame(), fresh), GROUP, count, kernel, WRITTEN)
    return run.replace_by_files("order arrivals", ordered, (ARRIVALS,), fresh)
