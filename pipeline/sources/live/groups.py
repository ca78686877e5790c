"""Committed offsets and members of the consumer groups of a live cluster."""

from collections.abc import Iterator, Mapping
from typing import Any

from kafka.errors import KafkaError

from pipeline.model.cluster import ConsumerGroupMember
from pipeline.model.log import TopicPartition
from pipeline.sources.live.connection import ClusterConnection, describe_error
from pipeline.sources.live.state import LiveState


def ask_groups(connection: ClusterConnection, state: LiveState) -> tuple[ConsumerGroupMember, ...]:
    """One row per group and partition it has committed to or owns, as `kafka-consumer-groups --describe` prints it.

    Groups whose coordinator does not answer, or that we may not see, are named in `state.failures`.
    """
    client, questions = connection.admin, state.failures.questions
    try:
        known = client.list_groups(broker_ids=[b for b in connection.broker_ids if b not in state.silent_brokers])
    except KafkaError as error:
        questions["consumer groups"] = describe_error(error)
        return ()
    rows: list[ConsumerGroupMember] = []
    for group_id in sorted({g["group_id"] for g in known if g.get("protocol_type", "consumer") in {"consumer", ""}}):
        try:
            described = client.describe_groups([group_id])[group_id]
            committed = client.list_group_offsets(group_id)[group_id]
        except (KafkaError, KeyError) as error:
            questions[f"consumer group {group_id}"] = describe_error(error)
            continue
        if described.get("error"):  # groups of the newer protocol have a description of their own
            questions[f"members of group {group_id}"] = str(described["error"])
        rows += _group_rows(group_id, described, committed, state)
    return tuple(rows)


def _group_rows(
    group_id: str, described: Mapping[str, Any], committed: Mapping[Any, Any], state: LiveState
) -> Iterator[ConsumerGroupMember]:
    owners = {key: member for member in described.get("members") or () for key in _owned(member)}
    offsets = {TopicPartition(key.topic, key.partition): row.offset for key, row in committed.items()}
    assignor = described.get("protocol_data") or None
    for key in sorted({*owners, *offsets}):
        if key not in state.partitions:
            continue
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


def _owned(member: Mapping[str, Any]) -> Iterator[TopicPartition]:
    assignment = member.get("member_assignment")
    if isinstance(assignment, dict):  # bytes where it could not be decoded
        for entry in assignment["assigned_partitions"]:
            yield from (TopicPartition(entry["topic"], number) for number in entry["partitions"])
