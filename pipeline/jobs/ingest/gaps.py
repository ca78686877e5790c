"""Leaders of whom logs tell otherwise: gaps, as unclean elections leave them, and brokers that no controller reaches."""

from collections import defaultdict
from itertools import groupby, pairwise
from typing import NamedTuple

from pipeline.model.log import TopicPartition, fits_topics
from pipeline.model.log_tree import KAFKA_TOPICS
from pipeline.model.window import LATEST_MS, MINUTE_MS, TimeWindow
from pipeline.runs import RunContext
from pipeline.sources.questions import name_some
from pipeline.sources.records.batch_rows import LeaderEpochs
from pipeline.sources.source import ClusterReading
from pipeline.tables.silver import PARTITION_TRAFFIC, RECORD_BATCHES
from pipeline.tables.values import tuples_of

_GAP = "logs have a gap before another broker led, as after an unclean election, which drops records: of"
_CUT_OFF = "brokers that the controllers fenced go on serving clients, so who led is not known: of"
_LEAST_MS = MINUTE_MS // 2  # for as long a replica is in sync that fetches nothing, by `replica.lag.time.max.ms`
_TIMES = 2  # how often the gap is as long as any other of the log, or its silence at both ends
_LEAST_BATCHES = 16  # of the gap, at the rate of the time around it: it has none by chance in 1 of 9 million
_CHANGED = """
    SELECT topic, topic_id, partition FROM traffic
    GROUP BY topic, topic_id, partition HAVING count(DISTINCT leader_id) > 1"""
_TERMS = """
    SELECT topic, topic_id, partition, leader_epoch, leader_id, min(first_us) AS first_us, max(last_us) AS last_us,
        max(gap_us) AS gap_us, count(*) AS batch_count
    FROM (
        SELECT *, CAST(base_timestamp AS BIGINT) AS first_us, CAST(max_timestamp AS BIGINT) AS last_us, {gap_us} AS gap_us
        FROM batches JOIN ({logs}) AS logs USING (topic, topic_id, partition)
        WHERE base_timestamp IS NOT NULL AND max_timestamp IS NOT NULL AND NOT is_time_outlier
    ) AS timed
    GROUP BY topic, topic_id, partition, leader_epoch, leader_id"""
_LOG = "OVER (PARTITION BY topic, topic_id, partition ORDER BY leader_epoch)"
_SILENT = f"""
    SELECT DISTINCT topic, topic_id, partition FROM (
        SELECT *, leader_id <> lag(leader_id) {_LOG} AS is_other, first_us - lag(last_us) {_LOG} AS silent_us
        FROM ({_TERMS.format(gap_us=0, logs=_CHANGED)}) AS terms
    ) AS silences WHERE is_other AND silent_us > {_LEAST_MS * 1000}"""  # noqa: S608 - numbers and our own words
_GAP_US = """
    CAST(base_timestamp AS BIGINT) - lag(CAST(max_timestamp AS BIGINT)) OVER (
        PARTITION BY topic, topic_id, partition, leader_epoch ORDER BY base_offset)"""
_ORDERED = f"{_TERMS.format(gap_us=_GAP_US, logs=_SILENT)} ORDER BY topic, topic_id, partition, leader_epoch"
_FIELDS = ("topic", "topic_id", "partition", "leader_id", "first_us", "last_us", "gap_us", "batch_count")


class _Term(NamedTuple):
    topic: str
    topic_id: str
    partition: int
    leader_id: int
    first_us: int
    last_us: int
    gap_us: int | None  # the longest between two batches of this leader
    batch_count: int


def list_gaps(run: RunContext) -> defaultdict[int, list[str]]:
    """By window, partitions with a gap in it, far longer than any other of theirs, at the end of which another broker led."""
    reach = TimeWindow(max(0, run.span.start_ms - run.window_ms), run.span.end_ms)
    named = defaultdict[int, dict[str, None]](dict)
    rows = run.query(_ORDERED, (reach,), batches=RECORD_BATCHES, traffic=PARTITION_TRAFFIC)
    for log, group in groupby(map(_Term._make, tuples_of(rows, *_FIELDS)), lambda term: term[:3]):
        if log[0] in KAFKA_TOPICS or not fits_topics(log[0], run.cluster.topics):
            continue
        terms = [*group]
        silent_us = [terms[0].first_us - reach.start_ms * 1000, reach.end_ms * 1000 - terms[-1].last_us]
        usual_us = max(*silent_us, *(term.gap_us or 0 for term in terms))
        batch_count = sum(term.batch_count for term in terms)
        active_us = sum(term.last_us - term.first_us for term in terms)  # a longer gap lies between bursts, as of jobs
        for before, after in pairwise(terms):
            gap_us = after.first_us - before.last_us
            is_rare = gap_us * batch_count >= _LEAST_BATCHES * (reach.duration_ms * 1000 - gap_us)
            is_long = max(_LEAST_MS * 1000, _TIMES * usual_us) < gap_us <= active_us
            if before.leader_id == after.leader_id or not is_long or not is_rare:
                continue
            for window in run.windows:
                if window.start_ms * 1000 < after.first_us and before.last_us < window.end_ms * 1000:
                    named[window.start_ms][str(TopicPartition(before.topic, before.partition))] = None
    return defaultdict(list, {start_ms: [name_some(_GAP, [*keys])] for start_ms, keys in named.items()})


def list_cut_off(run: RunContext, reading: ClusterReading) -> dict[int, list[str]]:
    """By window, partitions with records that a fenced broker took in an epoch of its own, while another led: its disk goes on."""
    fenced_ms, history = dict[int, int](), reading.history
    for broker_id, timeline in history.brokers.items():
        changes = [*zip(timeline.moments_ms, timeline.values, strict=True)]
        since_ms = next((at for at, one in reversed(changes) if not (one and one.is_fenced)), 0)
        since_ms = next((at for at, _ in changes if at > since_ms), LATEST_MS)
        if max(reading.disk_ends_ms.get(broker_id, {}).values(), default=0) > since_ms + MINUTE_MS:
            fenced_ms[broker_id] = since_ms
    named = defaultdict[int, dict[str, None]](dict)
    columns = ("window_start_ms", "topic", "topic_id", "partition", "leader_id", "leader_epoch")
    leaders = LeaderEpochs.of(history, reading.tree, reading.replicas).by_epoch if fenced_ms else {}
    for at_ms, *log, leader_id, epoch in run.tuples(PARTITION_TRAFFIC, run.windows, *columns) if fenced_ms else ():
        own = leaders.get(tuple(log), {}).get(epoch, leader_id)
        if own != leader_id and fenced_ms.get(own, LATEST_MS) < at_ms + run.window_ms:
            named[at_ms][str(TopicPartition(log[0], log[2]))] = None
    return {at_ms: [name_some(_CUT_OFF, sorted(keys))] for at_ms, keys in named.items()}
