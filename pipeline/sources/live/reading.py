"""Reads a live cluster before its records: its state, its groups, the ranges to fetch."""

import hashlib
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from kafka.errors import KafkaError

from pipeline.errors import SourceUnreachableError
from pipeline.model.cluster import LIVE_CLUSTER as STATE_SOURCE
from pipeline.model.cluster import MAX_NAME_LENGTH, NO_LEADER, ClusterHistory, ConsumerGroupMember
from pipeline.model.log import Problem, TopicPartition
from pipeline.model.window import TimeWindow, milliseconds_of, spanning
from pipeline.sources.live import admin
from pipeline.sources.live.connection import ClusterConnection, connect
from pipeline.sources.live.offsets import OffsetTraffic, read_offset_traffic
from pipeline.sources.live.plan import Shortfall, choose_slices, join_reads, plan_fetches, sample_partitions
from pipeline.sources.live.requests import Failures, describe_error
from pipeline.sources.live.settings import FetchRead, LiveSettings
from pipeline.sources.live.state import LiveState, describe_unanswered, read_live_state
from pipeline.sources.questions import ClusterQuestion, SourceAvailability, name_groups, name_some

_MOST_CHARACTERS = 1 << 28  # of groups' rows: as many as a million rows of common names have
_ROW_CHARACTERS = 150  # as which a row counts besides its names
GROUPS_S = 300  # for all groups: their coordinators may claim any number, and answer late


def ask_groups(connection: ClusterConnection, state: LiveState, at_ms: int = 0) -> tuple[ConsumerGroupMember, ...]:
    """A row per group and partition it committed to or owns; `state.failures` names groups without answer; `at_ms` decides who comes first."""
    client, questions = connection.admin, state.failures.questions
    known: list[dict[str, Any]] = []
    for broker_id in (one for one in connection.broker_ids if one not in state.silent_brokers):
        try:
            known += client.list_groups(broker_ids=[broker_id])
        except (KafkaError, TypeError) as error:  # the latter for an answer of null
            questions[f"consumer groups of broker {broker_id}"] = describe_error(error)
    rows: list[ConsumerGroupMember] = []
    room = _MOST_CHARACTERS
    consuming = [g["group_id"] for g in known if g.get("protocol_type", "consumer") in {"consumer", ""}]
    named = sorted({*consuming} - {None})
    group_ids = [group_id for group_id in named if len(group_id) <= MAX_NAME_LENGTH]
    group_ids.sort(key=lambda group_id: hashlib.blake2b(f"{at_ms} {group_id!a}".encode()).digest())
    left_out = [group_id for group_id in named if len(group_id) > MAX_NAME_LENGTH]
    until_s = time.monotonic() + GROUPS_S
    for number, group_id in enumerate(group_ids):
        if time.monotonic() > until_s or room <= 0:
            limit = "have as many rows as a run holds" if room <= 0 else f"took {GROUPS_S} s"
            questions["consumer groups"] = f"{len(group_ids) - number:,} groups were not asked: the others {limit}"
            break
        try:
            described = client.describe_groups([group_id])[group_id]
            committed = client.list_group_offsets(group_id)[group_id]
        except Exception as error:  # noqa: BLE001 - the library decodes bytes that a member chose, and raises what it may
            questions[f"consumer group {group_id}"] = describe_error(error)
            continue
        if described.get("error"):  # groups of the newer protocol have a description of their own
            questions[f"members of group {group_id}"] = str(described["error"])
        for row in _group_rows(group_id, described, committed, state):
            if row.can_be and room > 0:
                rows.append(row)
                room -= _ROW_CHARACTERS + sum(row.name_lengths)
            else:
                left_out.append(group_id)
    if left_out:
        questions["some rows of consumer groups"] = name_groups(left_out)
    return tuple(sorted(rows, key=lambda row: row.group_id))


def _group_rows(
    group_id: str, described: Mapping[str, Any], committed: Mapping[Any, Any], state: LiveState
) -> Iterator[ConsumerGroupMember]:
    owners = {key: member for member in described.get("members") or () for key in _iter_owned(member)}
    offsets = {TopicPartition(key.topic, key.partition): row.offset for key, row in committed.items()}
    assignor = described.get("protocol_data") or None
    for key in sorted({*owners, *offsets} & state.partitions.keys()):
        high = state.high_watermarks.get(key)
        offset = offsets.get(key, -1)
        member = owners.get(key, {})
        host = member.get("client_host")
        yield ConsumerGroupMember(
            group_id=group_id,
            topic=key.topic,
            partition=key.partition,
            committed_offset=offset if offset >= 0 else None,
            log_end_offset=high.offset if high else None,
            lag_count=high.offset - offset if high and offset >= 0 else None,
            member_id=member.get("member_id"),
            client_host=host.removeprefix("/") if host else None,
            client_id=member.get("client_id"),
            assignor=assignor,
        )


def _iter_owned(member: Mapping[str, Any]) -> Iterator[TopicPartition]:
    assignment = member.get("member_assignment")
    if isinstance(assignment, dict):  # bytes where it could not be decoded
        for entry in assignment["assigned_partitions"] or ():  # a member may say null anywhere
            yield from (TopicPartition(entry["topic"], number) for number in entry["partitions"] or ())


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveReading:
    source: LiveSettings
    observed_at_ms: int  # the run's now: state and groups are of this moment
    state: LiveState | None = None  # None where the cluster could not be reached
    reads: tuple[FetchRead, ...] = ()  # ranges to fetch; empty where only offsets are looked up
    slices: tuple[TimeWindow, ...] = ()  # times whose records are fetched: the span, or a slice of each window
    offset_traffic: tuple[OffsetTraffic, ...] = ()  # what partitions got that are not fetched, by offsets and sizes
    shortfalls: tuple[Shortfall, ...] = ()
    groups: tuple[tuple[int, ConsumerGroupMember], ...] = ()
    unreachable: str = ""  # why the cluster could not be reached, or ""

    @property
    def history(self) -> ClusterHistory:
        return ClusterHistory(state_source=STATE_SOURCE) if self.state is None else self.state.history

    @property
    def problems(self) -> tuple[Problem, ...]:
        path = ",".join(self.source.bootstrap_servers)
        if self.state is None:
            return (Problem(path=path, reason=self.unreachable),)
        short = [Problem(path=str(s.key), reason=s.reason, severity="suspect") for s in self.shortfalls]
        return (*describe_unanswered(self.state, path), *short)

    def availability(self, window: TimeWindow) -> SourceAvailability:
        """What arrived of a window: brokers and partitions read whole; silent brokers and failed disks are named where they were asked."""
        if self.state is None:
            return SourceAvailability(None, 0, self.unreachable)
        away = [f"broker {broker_id} ({reason})" for broker_id, reason in self.state.silent_brokers.items()]
        away = [*away, *self.state.failures.directories.values()] if self.observed_at_ms in window else []
        lacking = (one for one in self.shortfalls if one.until_ms is None or window.start_ms < one.until_ms)
        reasons = {str(shortfall.key): shortfall.reason for shortfall in lacking}
        reasons |= {f"topic {topic}": reason for topic, reason in self.state.failures.topics.items()}
        expected = len(self.state.history.brokers.keys() - self.state.silent_brokers.keys())
        expected += len(self.state.in_scope) + len(self.state.failures.topics)
        named = name_some("", [*away, *(f"{name} ({reason})" for name, reason in reasons.items())]).lstrip()
        # Brokers that answer report all there is up to now, be it nothing.
        return SourceAvailability(expected, max(0, expected - len(reasons)), named, self.observed_at_ms)


def read_live_cluster(source: LiveSettings, question: ClusterQuestion, *, with_records: bool = True) -> LiveReading:
    """Asks the brokers for state and groups, and plans the reading of the windows; raises only for a missing secret."""
    at_ms = question.as_of_ms
    try:
        with connect(source) as connection:
            scope, earlier = source.internal_topics, question.earlier
            state = read_live_state(connection, question.topics, internal_topics=scope, at_ms=at_ms, earlier=earlier)
            groups = tuple((at_ms, one) for one in ask_groups(connection, state, at_ms)) if source.groups else ()
            reading = LiveReading(source=source, observed_at_ms=at_ms, state=state, groups=groups)
            led = replace(question, earlier=[one for one in earlier if one.leader_id != NO_LEADER])
            return _with_plan(reading, connection, state, led) if with_records else reading
    except SourceUnreachableError as error:
        return LiveReading(source=source, observed_at_ms=at_ms, unreachable=str(error))


def forget_deleted(live: LiveReading) -> LiveReading:
    """Leaves out topics that, as most brokers say, were deleted while they were read, and names them; not those we may no longer describe."""
    state, denied = live.state, Failures()
    before = {key.topic: one.topic_id for key, one in state.partitions.items()} if state else {}
    short = {shortfall.key.topic for shortfall in live.shortfalls} & before.keys()
    if state is None or not short:
        return live
    try:
        with connect(live.source) as connection:
            now = {key.topic: one.topic_id for key, one in admin.ask_metadata(connection).partitions.items()}
            gone = {topic for topic in short if topic not in now or now[topic] != before[topic]}
            admin.find_denied(connection, gone - now.keys(), denied)
    except SourceUnreachableError:
        return live
    gone = set() if denied.questions else gone - denied.topics.keys()
    if not gone:
        return live
    reason = "deleted, or made anew, while the run read them"
    state.failures.questions[name_some("the last records of", sorted(gone))] = reason
    in_scope = tuple(key for key in state.in_scope if key.topic not in gone)
    shortfalls = tuple(shortfall for shortfall in live.shortfalls if shortfall.key.topic not in gone)
    return replace(live, state=replace(state, in_scope=in_scope), shortfalls=shortfalls)


def _with_plan(
    reading: LiveReading, connection: ClusterConnection, state: LiveState, question: ClusterQuestion
) -> LiveReading:
    source, windows = reading.source, question.windows
    fetched: frozenset[TopicPartition] = frozenset()
    slices: tuple[TimeWindow, ...] = ()
    if source.read == "record_batches":
        fetched = sample_partitions(state.in_scope, source.sampling.partitions)
        rate = source.sampling.time
        slices = (spanning(windows),) if rate == 1 else choose_slices(windows, rate, cluster=question.name)
    lateness_ms = milliseconds_of(source.lateness) if source.sampling.time == 1 else 0
    settled = {
        key: past.settled_offset
        for past in question.earlier
        if (key := TopicPartition(past.topic, past.partition)) in fetched
        and past.settled_offset is not None
        and (past.topic_id, past.leader_id) == (state.partitions[key].topic_id or "", state.partitions[key].leader_id)
    }
    before = [past for past in question.earlier if past.window_start_ms < windows[0].start_ms]
    reads: list[FetchRead] = []
    shortfalls: list[Shortfall] = []
    earlier = {TopicPartition(past.topic, past.partition): past for past in before}
    plan = partial(
        plan_fetches, connection, state, sorted(fetched), lateness_ms=lateness_ms, settled=settled, earlier=earlier
    )
    for piece in slices:
        fetches, missing = plan(piece, as_of_ms=question.as_of_ms, is_sample=source.sampling.time != 1)
        reads = join_reads(reads, fetches)
        shortfalls += missing
    others = [key for key in state.in_scope if key not in fetched]
    traffic, missing = read_offset_traffic(connection, state, windows, others, before) if others else ((), ())
    lacks = tuple(dict.fromkeys((*shortfalls, *missing)))
    return replace(reading, reads=tuple(reads), slices=slices, offset_traffic=traffic, shortfalls=lacks)
