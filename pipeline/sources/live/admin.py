"""Which brokers are in a running cluster, who leads what, and which offsets there are (Metadata, ListOffsets), some thousand at once."""

import base64
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

from kafka.errors import KafkaError, ListenerNotFoundError, TopicAuthorizationFailedError, for_code
from kafka.protocol.consumer import ListOffsetsRequest
from kafka.protocol.metadata import MetadataRequest

from pipeline.errors import SourceUnreachableError
from pipeline.model.cluster import NO_LEADER, Broker, Endpoint, PartitionState
from pipeline.model.log import TopicPartition, is_partition_number
from pipeline.model.window import TimeWindow, Windows
from pipeline.sources.live import requests
from pipeline.sources.live.connection import ClusterConnection, connect, count_votes
from pipeline.sources.live.requests import Failures, describe_error, pages
from pipeline.sources.live.settings import LiveSettings

ATTEMPTS = 3
EARLIEST, LATEST = -2, -1
NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"
LEADERLESS = "it has no leader"


class Metadata(NamedTuple):
    brokers: dict[int, Broker]
    partitions: dict[TopicPartition, PartitionState]
    internal_topics: frozenset[str]
    contested: frozenset[TopicPartition] = frozenset()  # no more than half say the same: they stand without leader
    dissenters: Mapping[str, str] = MappingProxyType({})  # by address, what a broker says otherwise than most
    impossible: frozenset[TopicPartition] = frozenset()  # left out: no topic has partitions of these numbers
    unlisted: frozenset[TopicPartition] = frozenset()  # led by a broker that has no listener of the name we use

    @property
    def absent_brokers(self) -> list[int]:  # that hold replicas
        return sorted({b for state in self.partitions.values() for b in state.replicas} - self.brokers.keys())


class OffsetAt(NamedTuple):
    """An offset, the timestamp of its record and its leader epoch; -1 where there is none (epochs: Kafka 2.1 on)."""

    offset: int
    timestamp_ms: int
    leader_epoch: int = -1


def ask_metadata(connection: ClusterConnection) -> Metadata:
    """Brokers, and every topic that we may see; `SourceUnreachableError` where no broker answers."""
    last, metadata = None, None
    for pause_s in (*requests.PAUSES_S, 0):
        try:
            metadata = _compare(connection.ask_metadata(MetadataRequest(topics=None, allow_auto_topic_creation=False)))
        except KafkaError as error:
            last = error
            continue
        if not metadata.dissenters:
            break
        time.sleep(pause_s)  # while leaders change, each broker learns of it in its own time
    if metadata is None:
        raise SourceUnreachableError(f"no broker answers: {describe_error(last)}") from last
    return metadata


def find_denied(connection: ClusterConnection, topics: Collection[str], failures: Failures) -> None:
    """Notes topics that we may not describe, as most brokers say: answers about all topics lack them, as if they were deleted."""
    if not topics:
        return
    named = [MetadataRequest.MetadataRequestTopic(name=topic) for topic in sorted(topics)]
    try:
        replies = connection.ask_metadata(MetadataRequest(topics=named, allow_auto_topic_creation=False))
    except KafkaError as error:
        failures.questions["topics that are gone"] = describe_error(error)
        return
    codes, _ = count_votes([{one.name: one.error_code for one in reply.topics} for reply in replies.values()])
    denied = (topic for topic in sorted(topics) if codes.get(topic) == TopicAuthorizationFailedError.errno)
    failures.topics |= dict.fromkeys(denied, "TopicAuthorizationFailed: allow Describe, or leave it out by `topics`")


def _compare(replies: Mapping[str, Any]) -> Metadata:
    """What most replies say; in-sync sets apart, since they change often: one that no most say is not known."""
    answers = [_read_metadata(reply) for reply in replies.values()]
    brokers, _ = count_votes([answer.brokers for answer in answers])
    states = [{key: replace(state, isr=()) for key, state in answer.partitions.items()} for answer in answers]
    agreed, contested = count_votes(states)
    in_sync, _ = count_votes([{key: state.isr for key, state in answer.partitions.items()} for answer in answers])
    dissenters = {}
    for address, answer, said in zip(replies, answers, states, strict=True):
        unlike = [f"broker {broker_id}" for broker_id in sorted(dict(answer.brokers.items() ^ brokers.items()))]
        unlike += map(str, sorted(dict(said.items() ^ agreed.items())))
        if unlike:
            dissenters[address] = f"of {', '.join(unlike[:3])}{' and others' if unlike[3:] else ''}"
    for key in contested:
        agreed[key] = replace(next(said[key] for said in states if key in said), leader_id=NO_LEADER)
    return Metadata(
        brokers=brokers,
        partitions={key: replace(agreed[key], isr=in_sync.get(key)) for key in sorted(agreed)},
        internal_topics=frozenset(count_votes([dict.fromkeys(answer.internal_topics, True) for answer in answers])[0]),
        contested=frozenset(contested),
        dissenters=dissenters,
        impossible=frozenset().union(*(answer.impossible for answer in answers)),
        unlisted=frozenset().union(*(answer.unlisted for answer in answers)),
    )


def _read_metadata(reply: Any) -> Metadata:
    brokers = {
        row.node_id: Broker(broker_id=row.node_id, rack=row.rack, endpoints=(Endpoint("", row.host, row.port),))
        for row in reply.brokers
    }
    partitions, internal, unlisted = {}, set(), set()
    for topic in (one for one in reply.topics if one.name):  # the protocol lets a name be null
        if topic.is_internal:
            internal.add(topic.name)
        topic_id = format_topic_id(getattr(topic, "topic_id", None))
        for row in topic.partitions:
            state = PartitionState(
                topic=topic.name,
                topic_id=topic_id,
                partition=row.partition_index,
                leader_id=row.leader_id if row.leader_id >= 0 else NO_LEADER,
                leader_epoch=row.leader_epoch if getattr(row, "leader_epoch", -1) >= 0 else None,
                replicas=tuple(row.replica_nodes),
                isr=tuple(row.isr_nodes),
            )
            partitions[state.topic_partition] = state
            if getattr(row, "error_code", 0) == ListenerNotFoundError.errno:
                unlisted.add(state.topic_partition)
    impossible = frozenset(key for key in partitions if not is_partition_number(key.partition))
    possible = {key: state for key, state in partitions.items() if key not in impossible}
    return Metadata(brokers, possible, frozenset(internal), impossible=impossible, unlisted=frozenset(unlisted))


def format_topic_id(topic_id: Any) -> str | None:  # of a uuid.UUID, or None
    if topic_id is None:
        return None
    text = base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")
    return None if text == NO_ID else text


def parse_topic_id(text: str) -> uuid.UUID:
    """A topic id from what Kafka prints; the empty one for ""."""
    return uuid.UUID(bytes=base64.urlsafe_b64decode((text or NO_ID) + "=="))


def ask_offsets(
    connection: ClusterConnection, leaders: Mapping[TopicPartition, int], timestamp: int, failures: Failures
) -> dict[TopicPartition, OffsetAt]:
    """Offsets at an instant (milliseconds, `EARLIEST`, `LATEST`), -1 for none; a leader that moved is asked anew."""
    offsets: dict[TopicPartition, OffsetAt] = {}
    wanted = dict(leaders)
    for attempt in range(ATTEMPTS):
        silent_ones = {NO_LEADER, *failures.brokers}
        asked = [(broker_id, page) for broker_id, page in _by_broker(wanted) if broker_id not in silent_ones]

        def ask(broker_id: int, page: Sequence[TopicPartition]) -> dict[TopicPartition, OffsetAt | str]:
            topic_type, topics = ListOffsetsRequest.ListOffsetsTopic, []
            for topic, numbers in requests.group_partitions(page).items():
                partitions = [topic_type.ListOffsetsPartition(partition_index=n, timestamp=timestamp) for n in numbers]
                topics.append(topic_type(name=topic, partitions=partitions))
            reply = connection.send(ListOffsetsRequest(isolation_level=0, topics=topics, min_version=1), broker_id)
            answered = {
                TopicPartition(topic.name, row.partition_index): OffsetAt(row.offset, row.timestamp, row.leader_epoch)
                if row.error_code == 0
                else describe_error(for_code(row.error_code)())
                for topic in reply.topics
                for row in topic.partitions
            }
            return {key: answered[key] for key in page if key in answered}  # not what others lead

        answers, silent = requests.ask_all(asked, ask)
        answered = {key: value for answer in answers for key, value in answer.items()}
        offsets |= {key: value for key, value in answered.items() if isinstance(value, OffsetAt)}
        missing = [key for key in leaders if key not in offsets]
        if not missing:
            return offsets
        failures.brokers |= silent
        reasons = {key: value for key, value in answered.items() if isinstance(value, str)}
        is_known = all(key in failures.partitions for key in missing)
        for key in missing:
            leader_id, reason = wanted.get(key, NO_LEADER), reasons.get(key, "no answer")
            if leader_id in failures.brokers:
                reason = f"its leader, broker {leader_id}, does not answer: {failures.brokers[leader_id]}"
            failures.partitions[key] = LEADERLESS if leader_id == NO_LEADER else reason
        if is_known or attempt + 1 == ATTEMPTS:
            break
        time.sleep(requests.PAUSES_S[attempt])
        known = ask_metadata(connection).partitions
        wanted = {key: known[key].leader_id if key in known else NO_LEADER for key in missing}
    return offsets


def _by_broker(leaders: Mapping[TopicPartition, int]) -> Iterator[tuple[int, tuple[TopicPartition, ...]]]:
    grouped: dict[int, list[TopicPartition]] = defaultdict(list)
    for key, broker_id in leaders.items():
        grouped[broker_id].append(key)
    for broker_id, keys in sorted(grouped.items()):
        yield from ((broker_id, page) for page in pages(keys, requests.PAGE_PARTITIONS))


OffsetsAt = Callable[[int], Mapping[TopicPartition, int]]
"""Offset of the first record of each partition from an instant on, -1 for none."""


def choose_newest(windows: Windows, offsets_at: OffsetsAt) -> TimeWindow | None:
    newest_first = sorted(windows, reverse=True)
    if not newest_first:
        return None
    since_end = offsets_at(newest_first[0].end_ms)
    for window in newest_first:
        since_start = offsets_at(window.start_ms)  # another record than the first since its end: it holds one
        if any(offset >= 0 and offset != since_end.get(key, -1) for key, offset in since_start.items()):
            return window
        since_end = since_start
    return None


def find_newest_traffic(source: LiveSettings, windows: Windows) -> TimeWindow | None:
    """Asks for the newest of some consecutive windows with a record of a client's topic; errors as of `connect`."""
    with connect(source) as connection:
        metadata = ask_metadata(connection)
        clients = {key: one for key, one in metadata.partitions.items() if key.topic not in metadata.internal_topics}
        leaders = {key: state.leader_id for key, state in clients.items() if state.leader_id >= 0}

        def offsets_at(at_ms: int) -> Mapping[TopicPartition, int]:
            return {key: at.offset for key, at in ask_offsets(connection, leaders, at_ms, Failures()).items()}

        return choose_newest(windows, offsets_at)
