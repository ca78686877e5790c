"""Requests to many brokers, page by page, side by side: errors in words; disks (KIP-827: volumes), configs and running reassignments."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any, TypeVar

from kafka.errors import BrokerResponseError, KafkaError, KafkaTimeoutError, RequestTimedOutError, for_code
from kafka.protocol.admin import DescribeConfigsRequest, DescribeLogDirsRequest, ListPartitionReassignmentsRequest

from pipeline.codec.tools.tool_text import DescribedReplica, is_log_size
from pipeline.model.cluster import DirectorySpace
from pipeline.model.log import TopicPartition
from pipeline.model.number_text import format_name
from pipeline.sources.live.connection import ClusterConnection, count_votes
from pipeline.sources.questions import name_some

PAGE_PARTITIONS = 5_000
PAGE_TOPICS = 500
BROKERS_AT_ONCE = 8
PAUSES_S = (0.5, 2.0)
_T = TypeVar("_T")


@dataclass(slots=True)
class Failures:
    brokers: dict[int, str] = field(default_factory=dict)
    partitions: dict[TopicPartition, str] = field(default_factory=dict)
    questions: dict[str, str] = field(default_factory=dict)
    topics: dict[str, str] = field(default_factory=dict)
    directories: dict[int, str] = field(default_factory=dict)  # by broker: those of its log directories that failed


def pages(items: Iterable[_T], size: int) -> Iterator[tuple[_T, ...]]:
    """The items in their order, at most so many at a time."""
    rest = iter(items)
    while page := tuple(islice(rest, size)):
        yield page


def group_partitions(page: Iterable[TopicPartition]) -> dict[str, list[int]]:
    grouped: dict[str, list[int]] = defaultdict(list)
    for key in page:
        grouped[key.topic].append(key.partition)
    return grouped


def describe_error(error: BaseException | None) -> str:
    if error is None:
        return "no answer"
    name = type(error).__name__.removesuffix("Error")
    text = str(error.args[0]) if error.args else ""
    says_more = text and text != name and not text.startswith("Request ")  # the library's own dump of both messages
    return f"{name}: {text[:200]}" if says_more else name


def refuse_error(code: int) -> None:
    if code:
        raise for_code(code)()


def ask_all(
    questions: Sequence[tuple[int, Sequence[TopicPartition]]],
    ask: Callable[[int, Sequence[TopicPartition]], _T],
    refused: dict[int, str] | None = None,
) -> tuple[list[_T], dict[int, str]]:
    """Asks all brokers side by side; the answers, and why others are silent; who answers with an error is not, where `refused` takes it."""
    silent: dict[int, str] = {}

    def one(broker_id: int, page: Sequence[TopicPartition]) -> _T | None:
        for pause_s in (*PAUSES_S, 0):
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


TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4
_ASKED_ALIKE = 3
_MOST_DIRECTORIES, _MOST_CHARACTERS = 100, 4_096
"""Directories of a broker, each of which is compared with all others; characters of a path or value, which rows repeat."""


def ask_log_directories(
    connection: ClusterConnection, broker_ids: Iterable[int], partitions: Iterable[TopicPartition], failures: Failures
) -> tuple[list[DescribedReplica], dict[int, dict[str, DirectorySpace]]]:
    """Replicas of the partitions on every broker's disks; volumes by broker and log directory, of brokers from 3.3 on."""
    spaces: dict[int, dict[str, DirectorySpace]] = {}

    def ask(broker_id: int, page: Sequence[TopicPartition]) -> list[DescribedReplica]:
        reply = connection.send(DescribeLogDirsRequest(topics=list(group_partitions(page).items())), broker_id)
        refuse_error(getattr(reply, "error_code", 0))
        directories = [one for one in reply.results if one.log_dir is not None and len(one.log_dir) <= _MOST_CHARACTERS]
        del directories[_MOST_DIRECTORIES:]
        failed = [(one.log_dir, for_code(one.error_code)()) for one in directories if one.error_code]
        if failed:  # a broker with a disk that failed answers, and leads what is on its others
            named = [f"{format_name(path)} ({describe_error(error)})" for path, error in failed]
            failures.directories[broker_id] = name_some(f"log directories of broker {broker_id}:", named)
        for directory in directories:
            is_told = not directory.error_code and (getattr(directory, "total_bytes", None) or -1) >= 0
            if is_told and len(spaces.get(broker_id, ())) < _MOST_DIRECTORIES:
                volume = DirectorySpace(directory.total_bytes, directory.usable_bytes)
                spaces.setdefault(broker_id, {})[directory.log_dir] = volume
        rows = [(d.log_dir, topic.name, row) for d in directories for topic in d.topics for row in topic.partitions]
        replicas = [
            DescribedReplica(
                *(broker_id, path, TopicPartition(topic, row.partition_index)),
                *(row.partition_size, row.offset_lag, row.is_future_key),
            )
            for path, topic, row in rows
        ]
        asked = set(page)
        believed = [one for one in replicas if one.topic_partition in asked and is_log_size(one.size_bytes)]
        if len(believed) < len(replicas) or len(directories) < len(reply.results):
            reason = "it names partitions that nobody asked about, or sizes or directories that no disk has"
            failures.questions[f"some replica sizes of broker {broker_id}"] = reason
        return believed

    wanted = list(pages(partitions, PAGE_PARTITIONS))
    refused: dict[int, str] = {}
    answers, silent = ask_all([(broker_id, page) for broker_id in broker_ids for page in wanted], ask, refused)
    # a broker whose disks are busy is not away: its records are read all the same
    failures.questions |= {f"replica sizes of broker {broker_id}": reason for broker_id, reason in silent.items()}
    if refused:
        failures.questions["replica sizes"] = next(iter(refused.values()))
    return [replica for answer in answers for replica in answer], spaces


def ask_topic_configs(
    connection: ClusterConnection,
    broker_ids: Sequence[int],
    topics: Iterable[str],
    names: Sequence[str],
    failures: Failures,
) -> dict[str, dict[str, str]]:
    """Values of some configs by topic, defaults included: as most of three brokers say."""
    configs: dict[str, dict[str, str]] = {}
    for page in pages(topics, PAGE_TOPICS):
        resources = [(TOPIC_RESOURCE, topic, list(names)) for topic in page]
        refused = Failures()
        ask = partial(_ask_configs, connection, resources, question="topic configs", failures=refused)
        answers = filter(None, map(ask, broker_ids[:_ASKED_ALIKE]))
        told = [{(topic, name): v for topic in page for name, v in one.get(topic, {}).items()} for one in answers]
        agreed, contested = count_votes(told)
        for (topic, name), value in agreed.items():
            configs.setdefault(topic, {})[name] = value
        if not told or any(topic not in configs for topic in page):
            failures.questions |= refused.questions
        if contested:
            failures.questions["some topic configs"] = "brokers tell different ones"
    return configs


def ask_broker_configs(
    connection: ClusterConnection, broker_ids: Iterable[int], names: Sequence[str], failures: Failures
) -> dict[int, dict[str, str]]:
    configs: dict[int, dict[str, str]] = {}
    for broker_id in broker_ids:
        resources = [(BROKER_RESOURCE, str(broker_id), list(names))]
        answer = _ask_configs(connection, resources, broker_id, "broker configs", failures)
        if str(broker_id) in answer:  # whatever else it tells is not its to tell
            configs[broker_id] = answer[str(broker_id)]
    return configs


def _ask_configs(
    connection: ClusterConnection, resources: list[Any], broker_id: int | None, question: str, failures: Failures
) -> dict[str, dict[str, str]]:
    try:
        reply = connection.send(DescribeConfigsRequest(resources=resources, include_synonyms=False), broker_id)
    except KafkaError as error:
        failures.questions[question] = describe_error(error)
        return {}
    refused = {one.resource_name: for_code(one.error_code)() for one in reply.results if one.error_code}
    if refused:  # a topic may be gone by now, or be another principal's: the others count
        is_all = len(refused) == len(reply.results)
        named = question if is_all else name_some(f"{question} of", sorted(map(format_name, refused)))
        failures.questions[named] = describe_error(next(iter(refused.values())))
    asked = {name for *_, names in resources for name in names}
    return {
        result.resource_name: {
            row.name: row.value
            for row in result.configs
            if row.name in asked and row.value is not None and len(row.value) <= _MOST_CHARACTERS
        }
        for result in reply.results
        if not result.error_code
    }


def ask_reassignments(
    connection: ClusterConnection, broker_ids: Sequence[int], failures: Failures
) -> dict[TopicPartition, tuple[tuple[int, ...], tuple[int, ...]]]:
    """Replicas being added and removed, as most of three brokers say; with ZooKeeper, as the controller alone says."""
    answers: list[dict[TopicPartition, tuple[tuple[int, ...], tuple[int, ...]]]] = []
    refused = ""
    for broker_id in broker_ids:
        try:
            reply = connection.send(ListPartitionReassignmentsRequest(), broker_id)
            refuse_error(reply.error_code)
        except KafkaError as error:
            refused = describe_error(error)
            continue
        told = [(TopicPartition(one.name, row.partition_index), row) for one in reply.topics for row in one.partitions]
        answers.append({key: (tuple(row.adding_replicas), tuple(row.removing_replicas)) for key, row in told})
        if len(answers) == _ASKED_ALIKE:
            break
    agreed, contested = count_votes(answers)
    if contested or (refused and not answers):
        failures.questions["reassignments"] = "brokers tell different ones" if contested else refused
    return agreed
