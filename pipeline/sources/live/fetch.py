"""Raw record batches of an offset range, read by Fetch requests (KIP-74, KIP-219, KIP-320), one partition each, without a session.

All up to the high watermark, aborted data and markers included. Topics are named by id where brokers know ids (3.1): one made anew
is another. Moved leaders, restarts and throttling are tried again until the time is up; lost offsets are told.
"""

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from kafka.errors import KafkaError, for_code
from kafka.protocol.consumer import FetchRequest

from pipeline.errors import SourceUnreachableError
from pipeline.model.cluster import NO_LEADER
from pipeline.model.log import TopicPartition
from pipeline.sources.live import admin
from pipeline.sources.live.connection import ClusterConnection
from pipeline.sources.live.requests import Failures, describe_error, refuse_error
from pipeline.sources.live.settings import FetchRead

BY_NAME_VERSION = 12  # the newest version that names topics; later ones want ids
_OFFSET_OUT_OF_RANGE = 1
_UNKNOWN_TOPIC_ID = 100
_MOVED = frozenset({3, 5, 6, 8, 9, 74, 75, 76})
"""Unknown topic or partition, leader or replica not available, leader moved or its epoch not yet known."""
_PAUSE_S = 0.2
_LONGEST_PAUSE_S = 5.0
_SHORT_S = 1.0
_ALWAYS = {"max_wait_ms": 500, "min_bytes": 1, "isolation_level": 0, "session_id": 0, "session_epoch": -1}
"""Of every request: no session, and aborted data too."""
_MOST_TIMEOUTS, _LEAST_BYTES_PER_S = 20, 1 << 20
"""How long replies may go on to come: so many times `read_timeout`, and a second for each mebibyte they bring."""


@dataclass
class FetchState:
    next_offset: int  # first offset not read yet
    lost: list[tuple[int, int]] = field(default_factory=list)  # `[from, to)`, deleted while they were to be read
    stopped: str = ""  # why the rest could not be read; empty where it was
    retry_count: int = 0


def iter_replies(
    connection: ClusterConnection, read: FetchRead, state: FetchState, given_up: Counter[int]
) -> Iterator[bytes]:
    """Yields record sets that hold `state.next_offset`, which the consumer moves past the last whole batch, until the range's end.

    The last batch may be cut, the first begin below. `given_up` counts brokers silent for long: such a one is tried for a short time.
    """
    leader_id, limit_bytes = read.leader_id, connection.source.fetch_bytes
    limit_s = _SHORT_S if leader_id in given_up else connection.source.read_timeout.total_seconds()
    began_s = time.monotonic()
    pauses, read_bytes = _pauses(began_s + limit_s), 0
    while state.next_offset < read.end_offset:
        row, reason = _ask(connection, read, _request(read, state.next_offset, limit_bytes), leader_id)
        code = 0 if row is None else row.error_code
        if row is not None and code == 0 and row.records:
            now_s = time.monotonic()
            read_bytes += len(row.records)
            if now_s - began_s > _MOST_TIMEOUTS * limit_s + read_bytes / _LEAST_BYTES_PER_S:
                given_up[leader_id] += 1
                state.stopped = f"broker {leader_id} sent {read_bytes:,} bytes in {now_s - began_s:.0f} s"
                return
            pauses = _pauses(now_s + limit_s)
            before = state.next_offset
            yield bytes(row.records)
            if state.next_offset <= before:
                state.stopped = f"the reply at offset {before} holds no whole batch from there on"
                return
        elif code == _OFFSET_OUT_OF_RANGE:
            if not _skip_deleted(connection, read, leader_id, state):
                return
        elif code and code not in _MOVED:
            is_gone = code == _UNKNOWN_TOPIC_ID
            state.stopped = "the topic was deleted, or recreated" if is_gone else f"the broker refuses: {reason}"
            return
        else:
            state.retry_count += 1
            pause_s = next(pauses, None)
            if pause_s is None:
                given_up[leader_id] += 1
                state.stopped = f"broker {leader_id} given up: {reason}"
                return
            time.sleep(pause_s)
            leader_id = _find_leader(connection, read, leader_id)


def _ask(connection: ClusterConnection, read: FetchRead, request: Any, leader_id: int) -> tuple[Any | None, str]:
    """The partition's part of the reply, None where there is none; and why there are no records, in words."""
    try:
        reply = connection.send(request, leader_id)
        refuse_error(getattr(reply, "error_code", 0))
    except KafkaError as error:
        return None, describe_error(error)
    if not reply.responses:
        return None, "the broker throttles"
    topic, is_named = reply.responses[0], reply.responses[0].topic == read.topic
    if reply.version > BY_NAME_VERSION:
        is_named = topic.topic_id == admin.parse_topic_id(read.topic_id)
    row = next((one for one in topic.partitions if is_named and one.partition_index == read.partition), None)
    if row is None:
        return None, "the broker answers about another partition"
    if row.error_code:
        return row, describe_error(for_code(row.error_code)())
    return row, "nothing there, below the high watermark known before"


def _pauses(deadline: float) -> Iterator[float]:
    pause_s = _PAUSE_S
    while time.monotonic() + pause_s <= deadline:
        yield pause_s
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


def _request(read: FetchRead, offset: int, limit_bytes: int) -> Any:
    topic_type, limit = FetchRequest.FetchTopic, {"fetch_offset": offset, "partition_max_bytes": limit_bytes}
    partitions = [topic_type.FetchPartition(partition=read.partition, **limit)]
    topics = [topic_type(topic=read.topic, topic_id=admin.parse_topic_id(read.topic_id), partitions=partitions)]
    versions = {"min_version": 4} | ({} if read.topic_id else {"max_version": BY_NAME_VERSION})
    return FetchRequest(
        max_bytes=limit_bytes, rack_id="", forgotten_topics_data=[], topics=topics, **_ALWAYS, **versions
    )


def _skip_deleted(connection: ClusterConnection, read: FetchRead, leader_id: int, state: FetchState) -> bool:
    """Goes on at the log's present start where retention has overtaken the reading; False where there is no more."""
    key = TopicPartition(read.topic, read.partition)
    offsets = admin.ask_offsets(connection, {key: leader_id}, admin.EARLIEST, Failures())
    if key not in offsets:
        state.stopped = f"offset {state.next_offset} is out of range, log start offset unknown"
        return False
    log_start = offsets[key].offset
    if log_start <= state.next_offset:
        state.stopped = f"offset {state.next_offset} is beyond the log's end: it was cut, or the topic was recreated"
        return False
    state.lost.append((state.next_offset, min(log_start, read.end_offset)))
    state.next_offset = log_start
    return log_start < read.end_offset


def _find_leader(connection: ClusterConnection, read: FetchRead, known: int) -> int:
    try:
        metadata = admin.ask_metadata(connection)
    except SourceUnreachableError:
        return known
    partition = metadata.partitions.get(TopicPartition(read.topic, read.partition))
    return known if partition is None or partition.leader_id == NO_LEADER else partition.leader_id
