"""Consumer groups of a running cluster: members, what each owns, committed offsets, lag."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka.errors import KafkaError

from pipeline.model.consumer_group import ConsumerGroupMember
from pipeline.model.log import TopicPartition
from pipeline.sources.live.asking import describe_error

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pipeline.sources.live.connection import Connection
    from pipeline.sources.live.state import LiveState


def read_groups(connection: Connection, state: LiveState) -> tuple[ConsumerGroupMember, ...]:
    """One row per group and partition that it has committed to or owns, as `kafka-consumer-groups --describe` has it.

    Groups whose coordinator does not answer, or that we may not see, are named in `state.failures`.

    Args:
        connection: To the cluster.
        state: High watermarks, for the lag.
    """
    client = connection.admin
    try:
        known = client.list_groups(broker_ids=[b for b in connection.broker_ids if b not in state.silent_brokers])
    except KafkaError as error:
        state.failures.questions["consumer groups"] = describe_error(error)
        return ()
    rows: list[ConsumerGroupMember] = []
    names = sorted({group["group_id"] for group in known if group.get("protocol_type", "consumer") in {"consumer", ""}})
    for group_id in names:
        try:
            described = client.describe_groups([group_id])[group_id]
            committed = client.list_group_offsets(group_id)[group_id]
        except (KafkaError, KeyError) as error:
            state.failures.questions[f"consumer group {group_id}"] = describe_error(error)
            continue
        if described.get("error"):  # groups of the newer protocol have a description of their own
            state.failures.questions[f"members of group {group_id}"] = str(described["error"])
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
    assignment = member.get("member_assignment") or {}
    if not isinstance(assignment, dict):
        return
    for entry in assignment.get("assigned_partitions") or ():
        topic = entry["topic"] if isinstance(entry, dict) else entry[0]
        partitions = entry["partitions"] if isinstance(entry, dict) else entry[1]
        yield from (TopicPartition(topic, number) for number in partitions)
