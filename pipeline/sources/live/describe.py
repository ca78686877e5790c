"""Describes brokers' disks, configs, running reassignments and consumer groups.

A question that this principal may not ask leaves its reason in `Failures`; the others go on.

References: DescribeLogDirs, DescribeConfigs, ListPartitionReassignments; KIP-827 (volumes of log directories).
"""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from kafka.errors import KafkaError, for_code
from kafka.protocol.admin import DescribeConfigsRequest, DescribeLogDirsRequest, ListPartitionReassignmentsRequest

from pipeline.codec.tools.tool_text import DescribedReplica, is_log_size
from pipeline.model.cluster import DirectorySpace
from pipeline.model.log import TopicPartition
from pipeline.model.number_text import format_name
from pipeline.sources.live import requests
from pipeline.sources.live.connection import ClusterConnection, count_votes
from pipeline.sources.live.requests import Failures, describe_error, pages
from pipeline.sources.questions import name_some

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
        reply = connection.send(DescribeLogDirsRequest(topics=list(requests.group_partitions(page).items())), broker_id)
        requests.refuse_error(getattr(reply, "error_code", 0))
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

    wanted = list(pages(partitions, requests.PAGE_PARTITIONS))
    refused: dict[int, str] = {}
    answers, silent = requests.ask_all([(broker_id, page) for broker_id in broker_ids for page in wanted], ask, refused)
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
    for page in pages(topics, requests.PAGE_TOPICS):
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
    """Values of some configs by broker; each broker knows its own only."""
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
            requests.refuse_error(reply.error_code)
        except KafkaError as error:
            refused = describe_error(error)
            continue
        told = [
            (TopicPartition(topic.name, row.partition_index), row) for topic in reply.topics for row in topic.partitions
        ]
        answers.append({key: (tuple(row.adding_replicas), tuple(row.removing_replicas)) for key, row in told})
        if len(answers) == _ASKED_ALIKE:
            break
    agreed, contested = count_votes(answers)
    if contested or (refused and not answers):
        failures.questions["reassignments"] = "brokers tell different ones" if contested else refused
    return agreed
