"""Texts of Kafka's tools: replicas where no disk of theirs was read, consumer groups, what is being moved.

`kafka-log-dirs --describe` tells size and lag of every replica, `kafka-get-offsets` the high watermark of every
partition. What the disks say themselves comes first. `kafka-reassign-partitions --verify` tells which reassignments run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.codec.tools.consumer_group_text import parse_consumer_groups
from pipeline.codec.tools.reassignment_text import parse_reassignment_status
from pipeline.codec.tools.tool_text import parse_log_dirs_describe, parse_offsets
from pipeline.config.file_sources import ConsumerGroups, GetOffsets, LogDirsDescribe, ReassignVerify
from pipeline.errors import InputError
from pipeline.model.cluster import ReplicaState
from pipeline.model.log import Problem
from pipeline.sources.files.named_files import list_files, split_instant

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path
    from typing import TypeVar

    from pipeline.codec.tools.tool_text import DescribedReplica
    from pipeline.config.pipeline_config import Source
    from pipeline.model.cluster import PartitionState
    from pipeline.model.consumer_group import ConsumerGroupMember
    from pipeline.model.log import TopicPartition
    from pipeline.sources.files.cluster_rows import Moving

    T = TypeVar("T")


def read_described_replicas(
    sources: Sequence[Source],
    partitions: Mapping[TopicPartition, PartitionState],
    on_disk: Sequence[ReplicaState],
    problems: dict[str, list[Problem]],
) -> tuple[ReplicaState, ...]:
    """Replicas that the texts describe and no disk showed.

    Args:
        sources: Of the cluster.
        partitions: Leaders and topic ids, as far as another source tells them.
        on_disk: What was read of disks.
        problems: Takes what was wrong, by source kind.

    Returns:
        By topic-partition and broker; a follower's log ends below the high watermark by its lag.
    """
    found: dict[tuple[TopicPartition, int | None, bool], DescribedReplica] = {}
    offsets: dict[TopicPartition, int] = {}
    for source in sources:
        if isinstance(source, LogDirsDescribe):
            told = _read(source.path, source.kind, parse_log_dirs_describe, problems) or ()
            found |= {(replica.topic_partition, replica.broker_id, replica.is_future): replica for replica in told}
        elif isinstance(source, GetOffsets):
            offsets |= _read(source.path, source.kind, parse_offsets, problems) or {}
    known = {(state.topic_partition, state.broker_id, state.is_future) for state in on_disk}
    return tuple(
        _as_state(replica, partitions.get(key[0]), offsets.get(key[0]))
        for key, replica in sorted(found.items())
        if key not in known
    )


def read_described_groups(
    sources: Sequence[Source], problems: dict[str, list[Problem]]
) -> tuple[tuple[int, ConsumerGroupMember], ...]:
    """Consumer groups with what they read, and the instants in the names of their texts.

    Args:
        sources: Of the cluster.
        problems: Takes what was wrong, by source kind.
    """
    rows: list[tuple[int, ConsumerGroupMember]] = []
    for source in sources:
        if not isinstance(source, ConsumerGroups):
            continue
        for path in list_files(source.paths, ("*consumer-groups*.txt",), problems[source.kind]):
            _, instant_ms = split_instant(path.stem)
            if instant_ms is None:
                reason = "no instant in the file name: expected <name>-<epoch ms>.txt"
                problems[source.kind].append(Problem(path=str(path), position=None, reason=reason))
                continue
            members = _read(path, source.kind, parse_consumer_groups, problems) or ()
            rows += [(instant_ms, member) for member in members if member.topic is not None]
    return tuple(rows)


def read_moving_partitions(sources: Sequence[Source], problems: dict[str, list[Problem]]) -> frozenset[Moving]:
    """Partitions of which `kafka-reassign-partitions --verify` says that their reassignment is still in progress.

    Args:
        sources: Of the cluster.
        problems: Takes what was wrong, reassignments that came to nothing among it, by source kind.
    """
    moving: set[Moving] = set()
    for source in sources:
        if not isinstance(source, ReassignVerify):
            continue
        for found in _read(source.path, source.kind, parse_reassignment_status, problems) or ():
            if found.is_running:
                moving.add((found.topic_partition, found.broker_id))
            elif not found.is_over:
                reason = f"the reassignment of {found.topic_partition} did not come to its end: {found.status}"
                problem = Problem(path=str(source.path), position=None, reason=reason, severity="suspect")
                problems[source.kind].append(problem)
    return frozenset(moving)


def _as_state(replica: DescribedReplica, partition: PartitionState | None, high_watermark: int | None) -> ReplicaState:
    is_leader = partition is not None and partition.leader_id == replica.broker_id
    return ReplicaState(
        topic=replica.topic_partition.topic,
        topic_id=None if partition is None else partition.topic_id,
        partition=replica.topic_partition.partition,
        broker_id=replica.broker_id,
        log_directory=replica.log_directory,
        log_end_offset=None if high_watermark is None or replica.is_future else high_watermark - replica.offset_lag,
        high_watermark=high_watermark if is_leader else None,
        size_bytes=replica.size_bytes,
        is_future=replica.is_future,
    )


def _read(path: Path, kind: str, parse: Callable[..., T], problems: dict[str, list[Problem]]) -> T | None:
    try:
        return parse(path.read_text(encoding="utf-8"), path=path)
    except (OSError, UnicodeDecodeError, InputError) as error:
        problems[kind].append(Problem.of_error(path, error))
        return None
