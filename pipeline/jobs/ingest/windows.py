"""Which windows a run replaces, which it keeps, and the rows that vouch for them."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Set
from dataclasses import replace

import pyarrow.compute as pc

from pipeline.engine import describe_work
from pipeline.jobs.ingest.gaps import list_cut_off, list_gaps
from pipeline.jobs.ingest.ingest_input import IngestInput
from pipeline.model.cluster import CLUSTER_METADATA, NO_LEADER, ClusterHistory, PartitionState, Timeline
from pipeline.model.log import LogName, Problem, fits_topics
from pipeline.model.log_tree import KAFKA_TOPICS, DirectoryKind
from pipeline.model.number_text import format_span
from pipeline.model.window import DAY_MS, HOUR_MS, LATEST_MS, MINUTE_MS, TimeWindow, instant_of, milliseconds_of
from pipeline.runs import CATCH_UP_MS, RunContext
from pipeline.sources.cluster_reading import iter_availability
from pipeline.sources.metrics.metric_source import MetricReading
from pipeline.sources.questions import name_some
from pipeline.sources.records.pieces import Kind
from pipeline.sources.source import ClusterReading
from pipeline.storage.data_files import load_stored
from pipeline.storage.durability import has_table
from pipeline.storage.files import Scope
from pipeline.storage.tables_on_disk import table_path
from pipeline.storage.window_status import StoredWindows, committed_windows
from pipeline.tables.bronze import WINDOW_STATUS
from pipeline.tables.silver import PARTITION_TRAFFIC
from pipeline.tables.values import tuples_of
from pipeline.transforms.traffic import find_covered_less, find_known_less

IsOnNewDisk = Callable[[PartitionState, PartitionState, int], bool]
Expired = dict[str, set[TimeWindow]]  # by source, windows of which it gives less than is stored
_LAST_LOGS = """
    SELECT topic, topic_id, partition, max(last_offset) AS last_offset FROM traffic
    WHERE record_count > 0 AND window_start = (SELECT max(window_start) FROM traffic)
    GROUP BY topic, topic_id, partition ORDER BY topic, topic_id, partition"""
_DELETED = (
    "topics were deleted, or made anew, and what they got since the window before is lost (`topics` leaves topics out):"
)
_SHORTER = "logs end before what the window before had, as after an unclean election or with a new disk: of"
_NEW_DISK = "a broker came back with a new disk, and what it had got alone is lost: of"
_UNCLEAN = "an unclean election drops what the leader before got while the new one was out of sync: of"
LATE_MS = HOUR_MS  # how late a run may come and still observe the state of its window: schedules slip


def find_newest_window(run: RunContext) -> TimeWindow | None:
    """The window that the present state of a cluster belongs to: the run's last one, if it was due lately and none is later."""
    last = run.windows[-1]
    if run.as_of_ms >= last.end_ms + milliseconds_of(run.config.grace) + run.window_ms + LATE_MS:
        return None
    if not has_table(table_path(run.warehouse, WINDOW_STATUS)):
        return last
    later = (TimeWindow(last.end_ms, max(run.as_of_ms, last.end_ms) + run.window_ms),)
    return None if committed_windows(run.warehouse, run.cluster_name, later) else last


def describe_other_lengths(run: RunContext) -> str:
    """Says that windows of the day before have another length than `window` now has; empty where they have not."""
    reach = (TimeWindow(max(0, run.span.start_ms - DAY_MS), run.span.end_ms),)
    stored = committed_windows(run.warehouse, run.cluster_name, reach)
    others = sorted({window.duration_ms for window in stored} - {run.window_ms})
    if not others:
        return ""
    lengths = " and ".join(format_span(length_ms) for length_ms in others)
    return (
        f"windows of the last day are {lengths} long, and `window` is now {format_span(run.window_ms)}: verdicts over several"
        " windows and forecasts mix both; set it back, or begin another `warehouse`"
    )


def list_expired_windows(run: RunContext, given: IngestInput, stored: StoredWindows) -> Expired:
    expired: Expired = defaultdict(set)
    record_source = given.reading.record_source
    if stored.windows:
        describe_work(f"{run.subject}: compare coverage with what is stored")
        scope = Scope.of(run.cluster_name, sorted(stored.windows))
        traffic = load_stored(given.staging.spark, run.warehouse, PARTITION_TRAFFIC, scope)
        less = find_covered_less(given.parts[Kind.SUMMARIES].frame(), traffic, stored.windows)
        # a metadata log tells leaders of a week, records may stay for longer
        less = less.union(find_known_less(given.parts[Kind.BATCHES].frame(), traffic, stored.windows)).toArrow()
        expired[record_source] = {run.window_at(start_ms) for start_ms in less[0].to_pylist()}
    for (source, window), row_count in stored.row_counts.items():
        if source != record_source and given.row_counts[source, window] < row_count:
            expired[source].add(window)
    return expired


def fresh_windows(run: RunContext, stale: set[TimeWindow]) -> tuple[TimeWindow, ...]:
    return tuple(window for window in run.windows if window not in stale)


def commit_windows(
    run: RunContext, given: IngestInput, stored: StoredWindows, expired: Expired, versions: dict[str, int]
) -> dict[str, int]:
    newest_ms = pc.max(given.window_sums["max_timestamp_ms"]).as_py()
    unknown, lost = _list_unknown_leaders(run), _list_lost(run, given.reading)
    dropped = _list_dropped(run, given.reading)
    rows = []
    for window, source, brought in iter_availability(
        run.cluster, given.reading, run.windows, newest_ms, listed=given.metrics.listed, samples=given.instances
    ):
        is_of_records = source == given.reading.record_source
        at_ms = window.start_ms
        missing = [*lost.get(at_ms, ()), *dropped[at_ms], *unknown[at_ms]] if is_of_records else []
        available = brought.without(missing, len(missing))
        is_expired = window in expired.get(source, set())
        counts = stored.row_counts if is_expired else given.row_counts
        # A kept window's row goes on to vouch for what had arrived when its rows were stored.
        arrived_before = stored.availability.get((source, window)) if is_expired else None
        rows.append(
            {
                "window_start": instant_of(window.start_ms),
                "window_end": instant_of(window.end_ms),
                "row_count": counts.get((source, window), 0),
                "problem_count": len(given.problems.get(source, ())),
                "as_of": instant_of(run.as_of_ms),
                "source_expired": is_expired,
                "table_versions": versions,
                "committed_at": instant_of(run.now_ms),
                "tries": stored.tries.get(window, 0) + 1,
                "source": source,
                "expected_count": available.expected_count,
                "arrived_count": available.arrived_count,
                "missing": available.missing or None,
                "newest_at": None if available.newest_ms is None else instant_of(available.newest_ms),
                **(arrived_before._asdict() if arrived_before else {}),
            }
        )
    return run.replace(WINDOW_STATUS, rows, run.windows)


def _list_unknown_leaders(run: RunContext) -> dict[int, list[str]]:
    columns = ("window_start_ms", "topic", "partition", "leader_id", "leader_epoch")
    unknown: dict[int, list[str]] = defaultdict(list)
    rows = run.tuples(PARTITION_TRAFFIC, run.windows, *columns, where="leader_id < 0")
    for start_ms, topic, number, _, epoch in sorted(rows):
        led = f" in leader epoch {epoch}" if epoch >= 0 else ""
        unknown[start_ms].append(f"{topic}-{number} (who led{led} is not known)")
    return unknown


def _list_lost(run: RunContext, reading: ClusterReading) -> dict[int, list[str]]:
    """By window, what was there with traffic, by the newest window before, and lost what it got: topics that are gone, shorter logs.

    Of what was collected nothing is lost but in the window in which a topic was deleted.
    """
    history, asked = reading.history, None if reading.live is None else reading.live.state
    lists_topics = asked is not None or history.newest_ms is not None  # of each topic that there is
    if not (lists_topics or reading.deleted) or not run.span.start_ms:
        return {}
    keys = history.partitions if asked is None else asked.in_scope
    states = {key.topic: history.partitions[key].at(LATEST_MS) for key in keys}
    ids = {topic: state.topic_id or "" for topic, state in states.items() if state}
    ends = defaultdict[LogName, int](lambda: -1)  # of the longest replica
    for one in reading.replicas:
        name = LogName(one.topic, one.topic_id or "", one.partition)
        ends[name] = max(ends[name], -1 if one.is_future or one.log_end_offset is None else one.log_end_offset)
    reach = TimeWindow(max(0, run.span.start_ms - CATCH_UP_MS), run.span.start_ms)
    committed = committed_windows(run.warehouse, run.cluster_name, (reach,))
    newest_ms = max((one.start_ms for one in committed), default=run.span.start_ms)  # long ago after a pause
    before = TimeWindow(max(0, newest_ms - max(DAY_MS, run.window_ms)), run.span.start_ms)
    logs = tuples_of(run.query(_LAST_LOGS, (before,), traffic=PARTITION_TRAFFIC), *LogName._fields, "last_offset")
    gone, shorter = set(), []
    for topic, topic_id, partition, last_offset in logs:
        is_denied = asked is not None and topic in asked.failures.topics
        if is_denied or topic in KAFKA_TOPICS or not fits_topics(topic, run.cluster.topics):
            continue
        is_gone = lists_topics and (topic not in ids or (topic_id != "" and ids[topic] not in {"", topic_id}))
        if is_gone or topic in reading.deleted:
            gone.add((topic, topic_id))
        elif -1 < ends[LogName(topic, topic_id, partition)] <= last_offset:
            shorter.append(f"{topic}-{partition}")
    deleted, lost = _find_deletions(history, gone, reading.deleted), {}
    for window in run.windows:
        names = [
            topic
            for (topic, _), at_ms in deleted.items()
            if window.start_ms < at_ms and (reading.collected is None or at_ms < window.end_ms)
        ]
        lost[window.start_ms] = [one for one in (name_some(_DELETED, names), name_some(_SHORTER, shorter)) if one]
    return lost


def _list_dropped(run: RunContext, reading: ClusterReading) -> dict[int, list[str]]:
    """By window, partitions that lost acknowledged records of it, by an unclean election or with a disk: as the metadata log tells, or gaps."""
    history, named = reading.history, defaultdict[int, list[str]](list)
    if history.state_source != CLUSTER_METADATA:
        return list_gaps(run)
    dropped: dict[tuple[int, str], dict[str, None]] = defaultdict(dict)  # by window and reason
    is_on_new_disk = _find_new_disks(reading)
    for key, timeline in sorted(history.partitions.items()):
        if key.topic in KAFKA_TOPICS or not fits_topics(key.topic, run.cluster.topics):
            continue
        for reason, since_ms, at_ms in _iter_losses(timeline, history.known_since_ms or 0, is_on_new_disk):
            # a collector has read what was on the disk before
            from_ms = at_ms if reason == _NEW_DISK and reading.collected else since_ms
            for window in run.windows:
                if window.start_ms <= at_ms and from_ms < window.end_ms:
                    dropped[window.start_ms, reason][str(key)] = None
    for (start_ms, reason), keys in dropped.items():
        named[start_ms].append(name_some(reason, [*keys]))
    for start_ms, names in list_cut_off(run, reading).items():
        named[start_ms] += names
    return named


def _iter_losses(
    timeline: Timeline[PartitionState], known_since_ms: int, is_on_new_disk: IsOnNewDisk
) -> Iterator[tuple[str, int, int]]:
    """Reasons for which a partition lost records, and the moments between which these may have come."""
    begun_ms = timeline.moments_ms[0] if timeline.moments_ms[0] > known_since_ms else 0
    in_sync_ms: dict[int, int] = {}  # by broker, until when it was in sync
    led: PartitionState | None = None  # the last state with a leader
    for before, after, at_ms in zip(timeline.values, timeline.values[1:], timeline.moments_ms[1:], strict=False):
        if before is None or after is None:
            in_sync_ms, led, begun_ms = {}, None, at_ms
            continue
        led = before if led is None or before.leader_id != NO_LEADER else led
        in_sync_ms |= dict.fromkeys(before.eligible_leaders, at_ms)
        if before.leader_id == after.leader_id:
            continue
        leaders = {led.leader_id} - {NO_LEADER} or {*led.eligible_leaders, *led.last_known_elr}
        if before.leader_id == NO_LEADER and after.leader_id in leaders:  # it comes back
            if is_on_new_disk(led, after, at_ms):
                yield _NEW_DISK, begun_ms, at_ms
        elif _is_unclean(before, after):
            # a leader takes a replica out of the in-sync set replica.lag.time.max.ms after it fell behind
            yield _UNCLEAN, max(begun_ms, in_sync_ms.get(after.leader_id, begun_ms) - MINUTE_MS), at_ms


def _is_unclean(before: PartitionState, after: PartitionState) -> bool:
    """Whether a replica that was not in sync was elected; not so where a reassignment ends, which changes replicas at once."""
    is_same = (before.topic_id, before.replicas) == (after.topic_id, after.replicas)
    return is_same and after.leader_id not in before.eligible_leaders | {NO_LEADER}


def _find_new_disks(reading: ClusterReading) -> IsOnNewDisk:
    """Whether a leader came back without the disk that it led on, and without the log that was on it, which may have been moved."""
    brokers, logs = reading.history.brokers, reading.tree.iter_partitions(kind=DirectoryKind.LIVE)
    epochs = {(at.broker_id, log.topic_partition): log.leader_epochs[0].epoch for at, log in logs if log.leader_epochs}
    since_ms: dict[tuple[int, str], int] = {}  # by broker and directory, when it was registered first
    for broker_id, timeline in brokers.items():
        for at_ms, broker in zip(timeline.moments_ms, timeline.values, strict=True):
            for directory_id in broker.directory_ids if broker else ():
                since_ms.setdefault((broker_id, directory_id), at_ms)

    def is_on_new_disk(led: PartitionState, now: PartitionState, at_ms: int) -> bool:
        of_replicas = (dict(zip(one.replicas, one.directory_ids, strict=False)) for one in (led, now))
        before, after = (of.get(now.leader_id, "") for of in of_replicas)
        if before == after or since_ms.get((now.leader_id, before), LATEST_MS) > at_ms:
            return False
        first_epoch = epochs.get((now.leader_id, now.topic_partition))
        is_kept = first_epoch is not None and now.leader_epoch is not None and first_epoch < now.leader_epoch
        broker = brokers[now.leader_id].at(at_ms)
        return broker is not None and before not in broker.directory_ids and not is_kept

    return is_on_new_disk


def _find_deletions(history: ClusterHistory, gone: Set[tuple[str, str]], now: Set[str]) -> dict[tuple[str, str], int]:
    """When topics, by name and id, were deleted, some of them `now`; where that is not known, when the state began to be."""
    topics, since_ms = {topic for topic, _ in gone}, history.known_since_ms or 0
    deleted = {of: LATEST_MS if of[0] in now else since_ms for of in sorted(gone)}
    for key, timeline in history.partitions.items() if gone else ():
        if key.topic in topics:
            for state, until_ms in zip(timeline.values, timeline.moments_ms[1:], strict=False):
                of = key.topic, (state.topic_id if state else None) or ""
                if of in deleted:
                    deleted[of] = max(deleted[of], until_ms)
    return deleted


_RECENT_MS = 3 * MINUTE_MS  # before the newest window's end: a broker that leaves is emptied before


def leave_out_others(metrics: MetricReading, reading: ClusterReading) -> MetricReading:
    """The metrics without those of a server of which some broker took in records, and is not the cluster's."""
    history, newest = reading.history, reading.newest
    is_known = history.newest_ms is not None or (reading.live is not None and reading.live.state is not None)
    if newest is None or not is_known or not history.brokers:
        return metrics
    states = (state for timeline in history.partitions.values() for state in timeline.values if state is not None)
    known = {*history.brokers, *(broker_id for state in states for broker_id in state.replicas)}
    since_ms = newest.end_ms - _RECENT_MS
    problems, others = dict(metrics.problems), set()
    paths = {batch["source"][0].as_py(): batch["path"][0].as_py() for batch in metrics.batches if len(batch)}
    for source, path in paths.items():
        taking = metrics.taking.get(source, {})
        if unknown := sorted(one for one, at_ms in taking.items() if at_ms >= since_ms and one not in known):
            others.add(source)
            reason = (
                f"{name_some('brokers', [*map(str, unknown)])} take in records, and this cluster has no such broker: "
                "another cluster's metrics are among these; none of the samples is taken; set `selector` of this source to "
                "what names this cluster, or correct `brokers` or `broker_label` of it"
            )
            problems[source] = (*problems.get(source, ()), Problem(path=path, reason=reason))
    kept = (batch for batch in metrics.batches if not len(batch) or batch["source"][0].as_py() not in others)
    return replace(metrics, batches=tuple(kept), problems=problems)
