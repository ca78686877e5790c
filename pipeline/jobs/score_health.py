"""Measures trusted windows: shares of brokers, partitions, topics, hot keys, latency."""

import hashlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain

import polars as pl
import pyarrow as pa
from pyspark.sql import SparkSession

from pipeline.measures.chance import slot_ms
from pipeline.measures.outages import Outage, find_absent, sum_known_ms
from pipeline.measures.zone_plans import ZoneLoads
from pipeline.model.log_tree import KAFKA_TOPICS
from pipeline.model.window import TimeWindow, Windows, instant_of, milliseconds_of
from pipeline.partitioners.clients.java import RACK_AWARE
from pipeline.runs import JobReport, Row, RunContext
from pipeline.stages import map_tasks
from pipeline.storage.files import WRITTEN
from pipeline.storage.observations import load_answers, load_outages
from pipeline.storage.tables_on_disk import ensure_tables
from pipeline.tables.bronze import BROKERS, CLUSTER_STATE, CONSUMER_GROUPS, WINDOW_STATUS
from pipeline.tables.gold import BROKER_SHARE, LATENCY, PARTITION_HEALTH, VERDICTS, ZONE_TRAFFIC
from pipeline.tables.health import GROUP_BALANCE, HOT_KEYS, TOPIC_HEALTH
from pipeline.tables.keys import KEY_TRAFFIC
from pipeline.tables.replay import BACK_TESTS, HASH_VERDICTS
from pipeline.tables.silver import PARTITION_TRAFFIC, PRODUCER_NODES, PRODUCER_SESSIONS, RECORD_BATCHES
from pipeline.tables.values import tuples_of
from pipeline.transforms import shares as share_sums
from pipeline.transforms.arithmetic import HALF, join_squares
from pipeline.transforms.latency import HISTORY_WINDOWS, compare_latency
from pipeline.transforms.topic_health import count_replicas, list_fixed_topics, measure_groups, measure_topic_health
from pipeline.transforms.zone_traffic import WindowZones, list_zone_loads, measure_zone_traffic, sum_rack_aware_bytes

_MEASURED = (PARTITION_HEALTH, BROKER_SHARE, TOPIC_HEALTH, GROUP_BALANCE, HOT_KEYS, LATENCY, ZONE_TRAFFIC)
_OF_KEYS = ("window_start", "topic", "topic_id", "partition", "kind", "key_id", "record_count", "size_bytes")
_OF_GROUPS = ("window_start", "observed_at", "group_id", "topic", "partition", "lag_count", "member_id")
_OF_SIZES = ("topic", "partition", "size_bytes")
_LOADS = ("topic", "topic_id", "partition", "leader_id", "size_bytes")
_SESSIONS = (
    *("topic", "topic_id", "producer_id", "producer_epoch", "zone", "zone_source"),
    *("record_count", "keyless_record_count", "strategy", "settings"),
)
_SENT = """
    SELECT topic, topic_id, partition, leader_id, producer_id, producer_epoch, sum(size_bytes) AS size_bytes
    FROM rows GROUP BY 1, 2, 3, 4, 5, 6"""
_KEYED = """
    SELECT topic, topic_id, partition,
        sum(CASE WHEN kind = 'no_key' THEN 0 ELSE size_bytes END) * 1.0 / sum(size_bytes) AS keyed_ratio
    FROM rows WHERE kind <> 'unreadable' GROUP BY 1, 2, 3 HAVING sum(size_bytes) > 0"""
_SLOTS = """
    SELECT CAST(floor((date_part('epoch', max_timestamp) - date_part('epoch', window_start)) * 1000 / {slot_ms}) AS BIGINT)
        AS slot, leader_id AS broker_id, sum(size_bytes) AS size_bytes,
        sum(size_bytes * size_bytes / {half}) AS upper, sum(size_bytes * size_bytes % {half}) AS lower
    FROM rows WHERE leader_id >= 0 AND max_timestamp IS NOT NULL AND NOT is_time_outlier GROUP BY 1, 2"""  # file by file


def pending_windows(run: RunContext) -> tuple[TimeWindow, ...]:
    """Windows to judge: those of the run over which the data gate passed, and the newest of those never judged before."""
    return tuple(sorted(chain.from_iterable(run.in_turns(run.pending_windows(VERDICTS)))))


def digest_inputs(run: RunContext, windows: Windows) -> dict[TimeWindow, str]:
    """What each window is judged from, as a digest: the ingest of it, whether it was replayed, and the configuration."""
    ingests = defaultdict(list)
    for row in run.rows(WINDOW_STATUS, windows, ("window_start", "source", "run_id", "committed_at")):
        ingests[milliseconds_of(row.pop("window_start"))].append(sorted(row.items()))
    replayed_ms, config = run.starts_in((HASH_VERDICTS, BACK_TESTS), windows), run.config.model_dump_json()
    digested = {w: (sorted(ingests[w.start_ms], key=repr), w.start_ms in replayed_ms, config) for w in windows}
    return {w: hashlib.blake2b(repr(inputs).encode(), digest_size=8).hexdigest() for w, inputs in digested.items()}


def judged_windows(run: RunContext, inputs: Mapping[TimeWindow, str]) -> set[TimeWindow]:
    if not inputs:
        return set()
    judged_from = dict(run.tuples(VERDICTS, tuple(inputs), "window_start_ms", "judged_from"))
    return {window for window, digest in inputs.items() if judged_from.get(window.start_ms) == digest}


def run(spark: SparkSession, run: RunContext, windows: tuple[TimeWindow, ...]) -> JobReport:
    """Replaces the windows' rows in the tables of health; Spark's tasks measure windows one by one: none holds more."""
    scored = run.starts_in((BROKER_SHARE,), windows) if windows else set()
    kept, unkept = run.split_by_rows([window for window in windows if window.start_ms in scored])
    windows = tuple(window for window in windows if window in kept or window.start_ms not in scored)
    notes = (unkept,) if unkept else ()
    if not windows:
        return JobReport(notes=notes or ("no trusted window to score",))
    ensure_tables(run.warehouse, _MEASURED)  # an older warehouse lacks some, or columns of theirs
    work = [partial(measure_window, run, window) for window in windows]
    work.append(partial(_measure_latency, run, windows))
    measured = map_tasks(spark, work, run.to_files(lambda part: part().items(), _MEASURED, windows), WRITTEN)
    return JobReport(table_versions=run.replace_by_files("measure windows", measured, _MEASURED, windows), notes=notes)


def measure_window(run: RunContext, window: TimeWindow) -> dict[str, pa.Table]:
    start = instant_of(window.start_ms)
    state, brokers = run.load(CLUSTER_STATE, (window,)), pl.DataFrame(run.load(BROKERS, (window,)))
    key_traffic = pl.DataFrame(run.load(KEY_TRAFFIC, (window,), _OF_KEYS))
    leaders = pl.DataFrame(state.select(["window_start", "topic", "topic_id", "partition", "leader_id", "is_leader"]))
    plain = share_sums.sum_loads(pl.DataFrame(run.load(PARTITION_TRAFFIC, (window,))), leaders)
    weighed = share_sums.weigh_keys(key_traffic, plain)
    topic_keys = share_sums.sum_topic_keys(weighed)
    loads = share_sums.with_keys(plain, key_traffic, weighed, topic_keys)
    partitions = share_sums.measure_partition_health(loads, start)
    broker_ids, capacities = brokers["broker_id"].to_list(), run.cluster.capacity
    outages, stood = _find_stood(run, window, brokers, {*capacities, *plain["leader_id"]})
    shares = share_sums.measure_broker_shares(loads, sum_slots(run, window), broker_ids, capacities, start, stood=stood)
    # with the window before: growth of lag begins there
    described = run.load(CONSUMER_GROUPS, (TimeWindow(window.start_ms - run.window_ms, window.end_ms),))
    topics = measure_topic_health(
        partition_health=pl.DataFrame(partitions),
        loads=loads,
        topic_keys=topic_keys,
        replicas=count_replicas(state, {outage.broker_id for outage in outages if outage.covers(window.end_ms)}),
        brokers=brokers,
        consumer_groups=pl.DataFrame(described).filter(pl.col("window_start") == start),
        fixed_topics=list_fixed_topics(state, KAFKA_TOPICS),
        cluster=run.cluster_name,
    )
    zones = load_window_zones(run, window, pl.DataFrame(state), brokers.to_dicts(), pl.DataFrame(described))
    return {
        PARTITION_HEALTH.name: partitions,
        BROKER_SHARE.name: with_rack_aware_term(shares, zones) if broker_ids else shares.slice(0, 0),
        TOPIC_HEALTH.name: topics,
        GROUP_BALANCE.name: measure_groups(tuples_of(described, *_OF_GROUPS), tuples_of(partitions, *_OF_SIZES), start),
        HOT_KEYS.name: share_sums.rank_hot_keys(weighed).to_arrow(),
        ZONE_TRAFFIC.name: measure_zone_traffic(zones, start, run.window_ms),
    }


def _find_stood(
    run: RunContext, window: TimeWindow, brokers: pl.DataFrame, others: set[int]
) -> tuple[list[Outage], dict[int, float]]:
    """Outages of the window's brokers, and the part of it in which each, and each of `others`, was in the cluster; 0: it counts as it carried."""
    broker_ids = brokers["broker_id"].to_list()
    away_ms = dict(zip(broker_ids, brokers["away_ms"].to_list(), strict=True))
    of_cluster = run.warehouse, run.cluster_name
    answers = load_answers(*of_cluster, window, run.window_ms, as_of_ms=run.as_of_ms)
    told = load_outages(*of_cluster, (window,), run.window_ms, answers=answers)
    # what the metadata log says of a broker is not overridden
    outages = [outage for outage in told if away_ms.get(outage.broker_id) is None]
    away_ms |= sum_known_ms(outages, window.start_ms, window.end_ms)
    # all of the window where nobody knows how long a broker was away
    stood = {broker_id: 1 - min(run.window_ms, away or 0) / run.window_ms for broker_id, away in away_ms.items()}
    # one that others took over from later stood before
    absent = find_absent(answers.observed, window.end_ms) - {one.broker_id for one in outages if one.is_dated}
    if registered := {*brokers.filter(pl.col("state_source") != "log_directories")["broker_id"]}:
        # of others a disk or an older record was found, or the configuration names their capacity
        absent |= {*broker_ids, *others} - registered
    return outages, stood | {broker_id: 0.0 for broker_id in absent if away_ms.get(broker_id) is None}


def load_window_zones(
    run: RunContext, window: TimeWindow, state: pl.DataFrame, brokers: Sequence[Row], described: pl.DataFrame
) -> WindowZones:
    """Zones of a window, by its rows of these tables; the last description of a group within the window counts."""
    zones, is_own = run.cluster.zones, pl.col("window_start") == instant_of(window.start_ms)
    last = described.filter(is_own & pl.col("member_id").is_not_null()).sort("observed_at")
    return WindowZones(
        traffic=pl.DataFrame(run.load(PARTITION_TRAFFIC, (window,), _LOADS)),
        sent=pl.DataFrame(run.query(_SENT, (window,), rows=RECORD_BATCHES)),
        sessions=pl.DataFrame(run.load(PRODUCER_SESSIONS, (window,), _SESSIONS)),
        state=state,
        brokers=brokers,
        members=last.unique(["group_id", "topic", "partition"], keep="last", maintain_order=True).to_dicts(),
        find_zone=zones.find,
        broker_zones=zones.brokers,
        weights=zones.weights,
        price_per_gb=zones.price_per_gb,
    )


def load_zone_loads(run: RunContext, window: TimeWindow) -> ZoneLoads:
    state, brokers = pl.DataFrame(run.load(CLUSTER_STATE, (window,))), run.rows(BROKERS, (window,))
    zones = load_window_zones(run, window, state, brokers, pl.DataFrame(run.load(CONSUMER_GROUPS, ())))
    return list_zone_loads(zones, pl.DataFrame(run.query(_KEYED, (window,), rows=KEY_TRAFFIC)))


def with_rack_aware_term(shares: pa.Table, window: WindowZones) -> pa.Table:
    """Rows of `gold.broker_share` with what rack-aware producers add to each broker; NULL where no session is known."""
    total = sum(shares["size_bytes"].to_pylist())
    leaders = window.state.filter("is_leader").select("topic", "topic_id", "leader_id").rows()
    aware = window.sessions.filter(pl.col("strategy") == RACK_AWARE).to_dicts()
    # a client sees `broker.rack`, not the zones of the configuration
    racks = {row["broker_id"]: row["rack"] or "" for row in window.brokers}
    added = sum_rack_aware_bytes(window.sent, aware, leaders, racks)
    is_known = bool(total) and window.sessions.height > 0
    terms = [added.get(one, 0.0) / total if is_known else None for one in shares["broker_id"].to_pylist()]
    return shares.append_column("rack_aware_term", pa.array(terms, pa.float64()))


def sum_slots(run: RunContext, window: TimeWindow) -> pl.DataFrame:
    sums = run.query(_SLOTS.format(slot_ms=slot_ms(run.window_ms), half=HALF), (window,), rows=RECORD_BATCHES)
    return pl.DataFrame(sums).with_columns(join_squares(pl.col("upper"), pl.col("lower")).alias("squared"))


def _measure_latency(run: RunContext, windows: tuple[TimeWindow, ...]) -> dict[str, pa.Table]:
    reach = TimeWindow(windows[0].start_ms - HISTORY_WINDOWS * run.window_ms, windows[-1].end_ms)
    compared = compare_latency(run.load(PRODUCER_NODES, (reach,)))
    starts = [instant_of(window.start_ms) for window in windows]
    return {LATENCY.name: compared.filter(pl.col("window_start").is_in(starts)).to_arrow()}
