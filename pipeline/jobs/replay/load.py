"""Loads the input of a replay: few rows on the driver, and files that its tasks read themselves."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from pipeline.config.storage import Folder
from pipeline.engine import describe_work
from pipeline.model.log_tree import KAFKA_TOPICS
from pipeline.model.window import MINUTE_MS, TimeWindow, Windows, spanning
from pipeline.replay.keyed.plan import FAMILIES, AnswerColumn, plan_keys
from pipeline.replay.keyed.tasks import ANSWERS, HASHES, TRAFFIC, replay_keys
from pipeline.replay.keyed.topics import KeyedTopic, list_keyed_topics
from pipeline.replay.recorded import (
    MOST_SESSIONS,
    ClientNode,
    MetricsClient,
    Recording,
    RequestSpan,
    TopicWindow,
    find_too_large,
)
from pipeline.replay.sessions import ARRIVAL_COLUMNS, BATCH_COLUMNS, SessionReaders
from pipeline.replay.simulated.arrivals import KEY_HASH_COLUMNS, NO_HASHES, KeyHashes, index_hashes
from pipeline.replay.simulated.runs import Keyed
from pipeline.runs import RunContext
from pipeline.sources.metrics.metric_source import name_metric_sources, sample_intervals_ms
from pipeline.stages import run_values
from pipeline.storage.files import count_file_rows, iter_file_rows, list_data_files, read_window_rows
from pipeline.storage.window_status import committed_windows
from pipeline.tables import Table
from pipeline.tables.bronze import BROKERS, CLUSTER_STATE, METRIC_SAMPLES
from pipeline.tables.keys import KEY_ANSWERS, KEY_HASHES, KEY_TRAFFIC
from pipeline.tables.silver import ARRIVALS, PARTITION_TRAFFIC, PRODUCER_NODES, RECORD_BATCHES
from pipeline.tables.values import values_of
from pipeline.transforms.counters import SampleSettings
from pipeline.transforms.latency import measure_requests
from pipeline.transforms.producer_nodes import finish_nodes, summarise_nodes
from pipeline.transforms.samples import with_labels

FAMILY_NAMES = frozenset(family.name for family in FAMILIES)
_TOPIC = ("window_start", "topic", "topic_id")
_LISTED_COLUMNS = (*_TOPIC, "producer_id", "producer_epoch", "minute_start", "record_count")
_KEY_COLUMNS = ("producer_id", "producer_epoch", "keys")
_TRAFFIC_COLUMNS = (
    *("topic", "topic_id", "partition", "leader_id", "leader_epoch", "first_offset", "record_count", "batch_count"),
    *("size_bytes", "missing_offset_count", "compacted_record_count", "is_compacted", "crc_error_count"),
)


def load_recording(spark: SparkSession, run: RunContext, windows: Windows) -> Recording:
    before = [TimeWindow(window.start_ms - run.window_ms, window.start_ms) for window in windows]
    leaders: dict[TopicWindow, dict[int, int]] = defaultdict(dict)
    log_starts: dict[TopicWindow, dict[int, int]] = defaultdict(dict)
    columns = ("window_start_ms", "topic", "topic_id", "partition", "leader_id", "log_start_offset")
    for start_ms, topic, topic_id, partition, leader_id, offset in run.tuples(CLUSTER_STATE, windows, *columns):
        where = start_ms, topic, topic_id
        if topic not in KAFKA_TOPICS:  # brokers name the partition of each of their records: no partitioner is asked
            leaders[where][partition] = leader_id
        if offset is not None:
            log_starts[where][partition] = min(offset, log_starts[where].get(partition, offset))
    named = ("window_start_ms", "topic", "topic_id", "partition")
    for start_ms, topic, topic_id, partition in run.tuples(PARTITION_TRAFFIC, windows, *named):
        if (start_ms, topic, topic_id) in leaders:  # on a disk whose owner is unknown
            leaders[start_ms, topic, topic_id].setdefault(partition, -1)
    racks: dict[int, dict[int, str]] = defaultdict(dict)
    told = run.tuples(BROKERS, windows, "broker_id", "window_start_ms", "rack")
    for broker_id, start_ms, rack in sorted(told, key=itemgetter(0, 1)):
        racks[start_ms][broker_id] = rack or ""
    nodes: dict[int, dict[MetricsClient, list[ClientNode]]] = defaultdict(lambda: defaultdict(list))
    metered = run.values(ClientNode, PRODUCER_NODES, sorted({*windows, *before}))
    for node in sorted(metered, key=attrgetter("broker_id")):
        nodes[node.window_start_ms][node.instance, node.client_id].append(node)
    partitions = {where: max(led) + 1 for where, led in leaders.items()}
    describe_work(f"{run.subject}: list producer sessions and their clients")
    listed, (minute_nodes, requests) = next(run_values(spark, [before], partial(_sum_up, run, windows, partitions)))
    sessions, minutes, crowded = listed
    too_large = find_too_large(leaders) | crowded
    return Recording(
        windows=tuple(windows),
        window_ms=run.window_ms,
        candidates=run.config.candidates,
        partitioners=run.cluster.partitioners,
        seeds=run.config.replay.seeds,
        with_arrivals=run.config.replay.arrivals,
        leaders={where: led for where, led in leaders.items() if where not in too_large},
        too_large=too_large,
        brokers={start_ms: list(of_window) for start_ms, of_window in racks.items()},
        racks=racks,
        zones=run.cluster.zones,
        log_starts=log_starts,
        lacks={at: one.reason for at, one in run.skipped_windows(windows).items() if one.kind == "incomplete"},
        minutes=minutes,
        sessions=sessions,
        nodes=nodes,
        minute_nodes=minute_nodes,
        requests=requests,
    )


def _sum_up(
    run: RunContext, windows: Windows, partitions: Mapping[TopicWindow, int], before: Windows
) -> Iterator[tuple[Any, Any]]:
    yield _list_arrivals(run, windows, partitions), _load_samples(run, windows, before)


def _list_arrivals(
    run: RunContext, windows: Windows, partitions: Mapping[TopicWindow, int]
) -> tuple[dict[tuple[int, int, int], int], dict[TopicWindow, int], dict[TopicWindow, int]]:
    """Records of each session, in order; minutes of each topic that hold records; producers of topics that have too many."""
    paths = list_data_files(run.warehouse, ARRIVALS, run.cluster_name, windows)
    batches = [batch for path in paths for batch in iter_file_rows(run.warehouse, path, _LISTED_COLUMNS)]
    if not batches:
        return {}, {}, {}
    rows = pl.concat([pl.DataFrame(pl.from_arrow(batch)) for batch in batches]).with_columns(
        pl.col("window_start", "minute_start").dt.epoch("ms"), pl.col("topic", "topic_id").cast(pl.String)
    )
    starts, minute, start = [window.start_ms for window in windows], pl.col("minute_start"), pl.col("window_start")
    rows = rows.filter(start.is_in(starts) & ~pl.col("topic").is_in(KAFKA_TOPICS))
    producers = rows.group_by(_TOPIC).agg(pl.struct("producer_id", "producer_epoch").n_unique().alias("count"))
    costs = [count * (1 + partitions.get(tuple(where), 0) // 50) for *where, count in producers.iter_rows()]
    producers = producers.with_columns(pl.Series("cost", costs)).sort("cost", *_TOPIC)
    producers = producers.filter(pl.col("cost").cum_sum().over("window_start") > MOST_SESSIONS).drop("cost")
    rows = rows.join(producers, on=_TOPIC, how="anti")
    session = rows.group_by("window_start", "producer_id", "producer_epoch")
    counts = session.agg(pl.col("record_count").sum()).sort(pl.all())
    inside = rows.filter((minute >= start) & (minute < start + run.window_ms))
    minutes = inside.group_by(_TOPIC).agg(minute.n_unique())
    sessions, by_topic, many = ({tuple(of): n for *of, n in one.iter_rows()} for one in (counts, minutes, producers))
    return sessions, by_topic, many


def _load_samples(
    run: RunContext, windows: Windows, before: Windows
) -> tuple[dict[MetricsClient, list[ClientNode]], dict[MetricsClient, list[RequestSpan]]]:
    """Clients' metrics by minute, where windows are longer, and their requests from scrape to scrape: delays change within both."""
    columns = ("source", "instance", "observed_at", "name", "labels", "value")
    stored = run.load(METRIC_SAMPLES, sorted({*windows, *before}), columns)
    observed_at_ms = stored["observed_at"].cast(pa.timestamp("ms", tz="UTC")).cast(pa.int64())
    samples = with_labels(stored.append_column("observed_at_ms", observed_at_ms))
    named = samples.filter(pl.col("client_id").is_not_null())
    requests: dict[MetricsClient, list[RequestSpan]] = defaultdict(list)
    spans = measure_requests(named).select("instance", "client_id", *RequestSpan._fields)
    for instance, client_id, *told in spans.iter_rows():
        requests[instance, client_id].append(RequestSpan(*told))
    if run.window_ms <= MINUTE_MS:
        return {}, dict(requests)
    span = spanning(tuple(windows))
    minutes = TimeWindow(span.start_ms - MINUTE_MS, span.end_ms)
    settings = SampleSettings(span=minutes, window_ms=MINUTE_MS, interval_ms=sample_intervals_ms(run.cluster))
    summed, precedence = summarise_nodes(samples, settings).to_arrow(), tuple(name_metric_sources(run.cluster))
    nodes = values_of(ClientNode, finish_nodes(summed, precedence=precedence, client_configs=run.cluster.producers))
    by_client: dict[MetricsClient, list[ClientNode]] = defaultdict(list)
    for node in sorted(nodes, key=attrgetter("window_start_ms", "broker_id")):
        by_client[node.instance, node.client_id].append(node)
    return dict(by_client), dict(requests)


class Readers(NamedTuple):
    sessions: SessionReaders
    read_hashes: partial[KeyHashes]


def make_readers(run: RunContext, windows: Windows) -> Readers:
    tables = ARRIVALS, RECORD_BATCHES, KEY_HASHES
    arrivals, batches, hashes = (list_data_files(run.warehouse, one, run.cluster_name, windows) for one in tables)
    sessions = SessionReaders(
        partial(_read_sessions, run.warehouse, arrivals, ARRIVAL_COLUMNS, every_epoch=False),
        # every epoch: arrivals pool those of transactional producers
        partial(_read_sessions, run.warehouse, batches, BATCH_COLUMNS, every_epoch=True),
    )
    return Readers(sessions, partial(_read_hashes, run.warehouse, arrivals, hashes))


def replay_stored_keys(spark: SparkSession, run: RunContext, recording: Recording) -> dict[TopicWindow, KeyedTopic]:
    windows = recording.windows
    reach = sorted({*windows, *(TimeWindow(w.start_ms - run.window_ms, w.start_ms) for w in windows)})
    stored = sorted(committed_windows(run.warehouse, run.cluster_name, reach))
    committed = frozenset(run.split_by_rows(stored)[0])
    span = tuple(sorted({*windows, *(window for window in reach if window in committed)}))

    def list_of(table: Table, content: str) -> list[tuple[str, str]]:
        return [(content, path) for path in list_data_files(run.warehouse, table, run.cluster_name, span)]

    files = list_of(KEY_TRAFFIC, TRAFFIC)
    row_count = count_file_rows(run.warehouse, [path for _, path in files])
    buckets = max(1, -(-row_count // run.config.replay.rows_per_bucket))
    counts, partitioners = recording.partition_counts(), recording.partitioners
    plan = plan_keys(windows, committed, counts, recording.candidates, partitioners=partitioners, bucket_count=buckets)
    files += list_of(KEY_HASHES, HASHES)
    if any(isinstance(column, AnswerColumn) for column in plan.columns):
        files += list_of(KEY_ANSWERS, ANSWERS)
    return list_keyed_topics(plan, replay_keys(spark, files, plan, partial(iter_file_rows, run.warehouse)))


def _read_sessions(
    warehouse: Folder,
    paths: Sequence[str],
    columns: Sequence[str],
    start_ms: int,
    sessions: Iterable[tuple[int, int]],
    *,
    every_epoch: bool,
) -> pa.Table:
    wanted = set(sessions)
    rows = read_window_rows(warehouse, paths, columns, start_ms, {"producer_id": sorted({one for one, _ in wanted})})
    pairs = zip(rows["producer_id"].to_pylist(), rows["producer_epoch"].to_pylist(), strict=True)
    is_wanted = [every_epoch or pair in wanted for pair in pairs]
    return rows if all(is_wanted) else rows.filter(pa.array(is_wanted, pa.bool_()))  # a filter copies


def _read_hashes(warehouse: Folder, arrivals: Sequence[str], paths: Sequence[str], keyed: Keyed) -> KeyHashes:
    """Hashes of the keys that some sessions sent: a day may have many times as many."""
    wanted = NO_HASHES.keys
    for start_ms, sessions in keyed:
        rows = _read_sessions(warehouse, arrivals, _KEY_COLUMNS, start_ms, sessions, every_epoch=False)
        wanted = np.union1d(wanted, pc.list_flatten(rows["keys"]).to_numpy())
    if not len(wanted):
        return NO_HASHES
    batches = (batch for path in paths for batch in iter_file_rows(warehouse, path, KEY_HASH_COLUMNS))
    return index_hashes(batches, wanted)


def load_traffic(run: RunContext, wanted: set[TopicWindow]) -> dict[TopicWindow, list[dict[str, Any]]]:
    traffic: dict[TopicWindow, list[dict[str, Any]]] = defaultdict(list)
    for start_ms in sorted({start_ms for start_ms, _, _ in wanted}):
        stored = run.load(PARTITION_TRAFFIC, (run.window_at(start_ms),), _TRAFFIC_COLUMNS)
        names = pa.array({topic for _, topic, _ in wanted}, stored.schema.field("topic").type)
        for row in stored.filter(pc.is_in(stored["topic"], names)).to_pylist():
            traffic[start_ms, row["topic"], row["topic_id"]].append(row)
    return traffic
