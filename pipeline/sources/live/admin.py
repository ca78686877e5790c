"""Questions to the brokers of a running cluster, asked in pages and of all brokers at once, each failing alone.

A partition that has no leader, or whose leader does not answer, has no offsets here; who asks sees it missing. Pages
keep one request to some thousand partitions: brokers answer it in one piece.

References:
    Kafka protocol: Metadata, ListOffsets, DescribeLogDirs, DescribeConfigs, ListPartitionReassignments.
"""

from __future__ import annotations

import base64
import time
import uuid
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from kafka.errors import BrokerResponseError, KafkaError, KafkaTimeoutError, RequestTimedOutError, for_code
from kafka.protocol.admin import DescribeConfigsRequest, DescribeLogDirsRequest
from kafka.protocol.consumer import ListOffsetsRequest
from kafka.protocol.metadata import MetadataRequest

from pipeline.errors import SourceUnreachableError
from pipeline.model.cluster import NO_LEADER, Broker, Endpoint, PartitionState
from pipeline.model.log import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pipeline.sources.live.connection import Connection

PAGE_PARTITIONS = 5_000
PAGE_TOPICS = 500
ATTEMPTS = 3
BROKERS_AT_ONCE = 8
_SAID_LIMIT = 200
_PAUSES_S = (0.5, 2.0)
EARLIEST, LATEST = -2, -1
TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4
NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"

_T = TypeVar("_T")


class Metadata(NamedTuple):
    """What one broker says of the cluster."""

    brokers: dict[int, Broker]
    partitions: dict[TopicPartition, PartitionState]
    internal_topics: frozenset[str]


class OffsetAt(NamedTuple):
    """An offset and the timestamp of its record; -1 and -1 where there is none."""

    offset: int
    timestamp_ms: int


class DiskReplica(NamedTuple):
    """A replica as its broker describes its disk; `offset_lag` as in `kafka-log-dirs`."""

    broker_id: int
    log_directory: str
    topic_partition: TopicPartition
    size_bytes: int
    offset_lag: int
    is_future: bool


@dataclass(slots=True)
class Failures:
    """Why brokers and partitions did not answer, in words, collected over all questions."""

    brokers: dict[int, str] = field(default_factory=dict)
    partitions: dict[TopicPartition, str] = field(default_factory=dict)
    questions: dict[str, str] = field(default_factory=dict)


def ask_metadata(connection: Connection) -> Metadata:
    """Brokers, and every topic that we may see.

    Raises:
        SourceUnreachableError: no broker answered.
    """
    request_options = {
        "allow_auto_topic_creation": False,
        "include_cluster_authorized_operations": False,
        "include_topic_authorized_operations": False,
    }
    last: Exception | None = None
    for _ in range(ATTEMPTS):
        try:
            reply = connection.send(MetadataRequest(topics=None, **request_options))
        except KafkaError as error:
            last = error
            continue
        return _read_metadata(reply)
    raise SourceUnreachableError(f"no broker answers: {describe_error(last)}") from last


def _read_metadata(reply: Any) -> Metadata:  # noqa: ANN401
    brokers = {
        row.node_id: Broker(broker_id=row.node_id, rack=row.rack, endpoints=(Endpoint("", row.host, row.port),))
        for row in reply.brokers
    }
    partitions, internal = {}, set()
    for topic in reply.topics:
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
    return Metadata(brokers, dict(sorted(partitions.items())), frozenset(internal))


def format_topic_id(topic_id: Any) -> str | None:  # noqa: ANN401  (uuid.UUID or None)
    """A topic id as Kafka prints it; None for none (brokers before 2.8)."""
    if topic_id is None:
        return None
    text = base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")
    return None if text == NO_ID else text


def parse_topic_id(text: str) -> uuid.UUID:
    """A topic id from what Kafka prints; the empty one for "".

    >>> format_topic_id(parse_topic_id("mVsUlzfsTymVTWsIRJRDCQ"))
    'mVsUlzfsTymVTWsIRJRDCQ'
    """
    return uuid.UUID(bytes=base64.urlsafe_b64decode((text or NO_ID) + "=="))


def ask_offsets(
    connection: Connection, leaders: Mapping[TopicPartition, int], timestamp: int, failures: Failures
) -> dict[TopicPartition, OffsetAt]:
    """Offsets of partitions at an instant, from their leaders; a leader that moved is asked again where it went.

    Args:
        connection: To the cluster.
        leaders: Whom to ask of what.
        timestamp: Milliseconds, `EARLIEST` or `LATEST`.
        failures: Takes partitions and brokers that gave no answer.

    Returns:
        Offset -1 where no record is that young.
    """
    found: dict[TopicPartition, OffsetAt] = {}
    wanted = dict(leaders)
    for attempt in range(ATTEMPTS):
        asked = [
            (broker_id, page)
            for broker_id, page in _by_broker(wanted)
            if broker_id != NO_LEADER and broker_id not in failures.brokers
        ]

        def ask(broker_id: int, page: Sequence[TopicPartition]) -> dict[TopicPartition, OffsetAt | str]:
            return _read_offsets(connection.send(_offsets_request(page, timestamp), broker_id))

        answers, silent = _ask_all(asked, ask)
        answered = {key: value for answer in answers for key, value in answer.items()}
        found |= {key: value for key, value in answered.items() if isinstance(value, OffsetAt)}
        missing = [key for key in leaders if key not in found]
        if not missing:
            return found
        failures.brokers |= silent
        reasons = {key: value for key, value in answered.items() if isinstance(value, str)}
        is_known = all(key in failures.partitions for key in missing)
        for key in missing:
            failures.partitions[key] = _why(wanted.get(key, NO_LEADER), failures, reasons.get(key, "no answer"))
        if is_known or attempt + 1 == ATTEMPTS:
            break
        time.sleep(_PAUSES_S[attempt])
        known = ask_metadata(connection).partitions
        wanted = {key: known[key].leader_id if key in known else NO_LEADER for key in missing}
    return found


def _why(leader_id: int, failures: Failures, reason: str) -> str:
    if leader_id == NO_LEADER:
        return "it has no leader"
    if leader_id in failures.brokers:
        return f"its leader, broker {leader_id}, does not answer: {failures.brokers[leader_id]}"
    return reason


def _by_broker(leaders: Mapping[TopicPartition, int]) -> Iterator[tuple[int, tuple[TopicPartition, ...]]]:
    grouped: dict[int, list[TopicPartition]] = defaultdict(list)
    for key, broker_id in leaders.items():
        grouped[broker_id].append(key)
    for broker_id, keys in sorted(grouped.items()):
        yield from ((broker_id, page) for page in pages(keys, PAGE_PARTITIONS))


def _offsets_request(page: Sequence[TopicPartition], timestamp: int) -> Any:  # noqa: ANN401
    topic_type = ListOffsetsRequest.ListOffsetsTopic
    topics = [
        topic_type(
            name=topic,
            partitions=[
                topic_type.ListOffsetsPartition(partition_index=number, timestamp=timestamp) for number in numbers
            ],
        )
        for topic, numbers in group_partitions(page).items()
    ]
    return ListOffsetsRequest(isolation_level=0, topics=topics, min_version=1)


def _read_offsets(reply: Any) -> dict[TopicPartition, OffsetAt | str]:  # noqa: ANN401
    return {
        TopicPartition(topic.name, row.partition_index): OffsetAt(row.offset, row.timestamp)
        if row.error_code == 0
        else describe_error(for_code(row.error_code)())
        for topic in reply.topics
        for row in topic.partitions
    }


def ask_log_directories(
    connection: Connection, broker_ids: Iterable[int], partitions: Iterable[TopicPartition], failures: Failures
) -> list[DiskReplica]:
    """What every broker holds of the partitions on its disks.

    Args:
        connection: To the cluster.
        broker_ids: Whom to ask.
        partitions: Of what.
        failures: Takes brokers that gave no answer.
    """
    wanted = list(pages(partitions, PAGE_PARTITIONS))

    def ask(broker_id: int, page: Sequence[TopicPartition]) -> list[DiskReplica]:
        topics = list(group_partitions(page).items())
        reply = connection.send(DescribeLogDirsRequest(topics=topics), broker_id)
        _refuse(getattr(reply, "error_code", 0))
        return _read_disks(broker_id, reply)

    refused: dict[int, str] = {}
    answers, silent = _ask_all([(broker_id, page) for broker_id in broker_ids for page in wanted], ask, refused)
    failures.brokers |= silent
    if refused:
        failures.questions["replica sizes"] = next(iter(refused.values()))
    return [replica for answer in answers for replica in answer]


def _read_disks(broker_id: int, reply: Any) -> list[DiskReplica]:  # noqa: ANN401
    for directory in reply.results:
        _refuse(directory.error_code)
    return [
        DiskReplica(
            broker_id,
            directory.log_dir,
            TopicPartition(topic.name, row.partition_index),
            row.partition_size,
            row.offset_lag,
            row.is_future_key,
        )
        for directory in reply.results
        for topic in directory.topics
        for row in topic.partitions
    ]


def ask_topic_configs(
    connection: Connection, topics: Iterable[str], names: Sequence[str], failures: Failures
) -> dict[str, dict[str, str]]:
    """Values of some configs by topic, defaults included."""
    found: dict[str, dict[str, str]] = {}
    for page in pages(topics, PAGE_TOPICS):
        resources = [(TOPIC_RESOURCE, topic, list(names)) for topic in page]
        found |= _ask_configs(connection, resources, None, "topic configs", failures)
    return found


def ask_broker_configs(
    connection: Connection, broker_ids: Iterable[int], names: Sequence[str], failures: Failures
) -> dict[int, dict[str, str]]:
    """Values of some configs by broker; each broker knows its own only."""
    found: dict[int, dict[str, str]] = {}
    for broker_id in broker_ids:
        resources = [(BROKER_RESOURCE, str(broker_id), list(names))]
        answer = _ask_configs(connection, resources, broker_id, "broker configs", failures)
        found |= {int(name): values for name, values in answer.items()}
    return found


def _ask_configs(
    connection: Connection, resources: list[Any], broker_id: int | None, question: str, failures: Failures
) -> dict[str, dict[str, str]]:
    try:
        reply = connection.send(DescribeConfigsRequest(resources=resources, include_synonyms=False), broker_id)
        for result in reply.results:
            _refuse(result.error_code)
    except KafkaError as error:
        failures.questions[question] = describe_error(error)
        return {}
    return {
        result.resource_name: {row.name: row.value for row in result.configs if row.value is not None}
        for result in reply.results
    }


def ask_reassignments(
    connection: Connection, failures: Failures
) -> dict[TopicPartition, tuple[tuple[int, ...], tuple[int, ...]]]:
    """Replicas being added and removed, by topic-partition."""
    try:
        found = connection.admin.list_partition_reassignments()
    except (KafkaError, RuntimeError) as error:  # the library raises the latter where no controller answers
        failures.questions["reassignments"] = describe_error(error)
        return {}
    return {
        TopicPartition(key.topic, key.partition): (tuple(row["adding_replicas"]), tuple(row["removing_replicas"]))
        for key, row in found.items()
    }


def pages(items: Iterable[_T], size: int) -> Iterator[tuple[_T, ...]]:
    """The items in their order, at most so many at a time.

    >>> list(pages("abcde", 2))
    [('a', 'b'), ('c', 'd'), ('e',)]
    """
    rest = iter(items)
    while page := tuple(islice(rest, size)):
        yield page


def group_partitions(page: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Partition numbers by topic."""
    grouped: dict[str, list[int]] = defaultdict(list)
    for key in page:
        grouped[key.topic].append(key.partition)
    return grouped


def describe_error(error: BaseException | None) -> str:
    """A client's error in a few words.

    >>> from kafka.errors import NotLeaderForPartitionError
    >>> describe_error(NotLeaderForPartitionError())
    'NotLeaderForPartition'
    """
    if error is None:
        return "no answer"
    name = type(error).__name__.removesuffix("Error")
    said = str(error.args[0]) if error.args else ""
    tells = said and said != name and not said.startswith("Request ")  # the library's own dump of both messages
    return f"{name}: {said[:_SAID_LIMIT]}" if tells else name


def _refuse(code: int) -> None:
    if code:
        raise for_code(code)()


def _ask_all(
    questions: Sequence[tuple[int, Sequence[TopicPartition]]],
    ask: Callable[[int, Sequence[TopicPartition]], _T],
    refused: dict[int, str] | None = None,
) -> tuple[list[_T], dict[int, str]]:
    """Asks all brokers side by side, each page after page; gives answers and, by broker, why some are missing.

    A broker that answers with an error is not silent: where that may happen, `refused` takes it.
    """
    silent: dict[int, str] = {}

    def one(broker_id: int, page: Sequence[TopicPartition]) -> _T | None:
        for pause_s in (*_PAUSES_S, 0):
            if broker_id in silent or broker_id in (refused or {}):
                return None
            try:
                return ask(broker_id, page)
            except KafkaError as error:
                last = error
            if isinstance(last, KafkaTimeoutError | RequestTimedOutError) or not last.retriable:
                break
            time.sleep(pause_s)
        is_answer = refused is not None and isinstance(last, BrokerResponseError) and not last.retriable
        (refused if is_answer and refused is not None else silent)[broker_id] = describe_error(last)
        return None

    with ThreadPoolExecutor(BROKERS_AT_ONCE) as pool:
        answers = list(pool.map(one, *zip(*questions, strict=True))) if questions else []
    return [answer for answer in answers if answer is not None], silent
