"""Partition leaders from the metadata log, else the text of `kafka-topics --describe`, else an only replica; and each replica's log end."""

import contextlib
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from operator import attrgetter
from pathlib import Path

import numpy as np

from pipeline.codec.log.batch_headers import HeaderScan
from pipeline.codec.log.index_files import read_offset_index
from pipeline.codec.log.segment import scan_headers
from pipeline.errors import InputError
from pipeline.model import cluster as nouns
from pipeline.model.log import Problem, TopicPartition
from pipeline.model.log_tree import DirectoryKind, LogDirectory, LogTree, PartitionDirectory, SegmentFile
from pipeline.model.window import NS_PER_MS
from pipeline.sources.files.log_directories import CHECKPOINTS
from pipeline.sources.files.metadata_log import read_metadata_log


def read_cluster_history(
    tree: LogTree, described: nouns.ClusterHistory | None = None
) -> tuple[nouns.ClusterHistory, tuple[Problem, ...]]:
    """The cluster's history by its longest metadata log, else as `described`, else by its replicas; problems."""
    known, problems = [one for one in tree.directories if one.cluster_id is not None], []
    for one in known:
        if one.cluster_id != known[0].cluster_id:
            reason = f"cluster.id {one.cluster_id}, others of this source have {known[0].cluster_id}"
            problems.append(Problem(path=one.path, reason=reason, severity="suspect"))
    copies = [log for _, log in tree.iter_partitions(kind=DirectoryKind.LIVE) if log.is_cluster_metadata]
    copies.sort(key=lambda copy: (-copy.length[0], -copy.length[1], copy.path))  # the longest first
    for directory in copies:
        history, faults = read_metadata_log(directory)
        problems += faults
        if history is not None:
            return history, tuple(problems)
    return described or infer_from_replicas(tree), tuple(problems)


def with_ids_by_name(
    tree: LogTree, partitions: Mapping[TopicPartition, nouns.PartitionState]
) -> tuple[LogTree, tuple[Problem, ...]]:
    """The tree with topic ids of the cluster's state where `partition.metadata` is missing; and which these are."""
    problems, directories = [], []
    ids = {key: state.topic_id for key, state in partitions.items() if state.topic_id is not None}
    for directory in tree.directories:
        by_name = {one.path for one in directory.partitions if one.topic_id is None and one.topic_partition in ids}
        if count := len(by_name):
            reason = f"{count:,} partition{'s' * (count > 1)} without partition.metadata: topics are known by name only"
            problems.append(Problem(path=directory.path, reason=reason, severity="suspect"))
        known = (
            replace(one, topic_id=ids[one.topic_partition]) if one.path in by_name else one
            for one in directory.partitions
        )
        directories.append(replace(directory, partitions=tuple(known)))
    return replace(tree, directories=tuple(directories)), tuple(problems)


def infer_from_replicas(tree: LogTree) -> nouns.ClusterHistory:
    """One state from the replicas alone, in order of broker: the only one leads; of several, none is known to."""
    held: dict[TopicPartition, list[tuple[int, PartitionDirectory]]] = {}
    for log_directory, partition in tree.iter_partitions(kind=DirectoryKind.LIVE):
        if log_directory.broker_id is not None and not partition.is_cluster_metadata:
            held.setdefault(partition.topic_partition, []).append((log_directory.broker_id, partition))
    states = []
    for key, copies in sorted(held.items()):
        brokers = tuple(sorted({broker_id for broker_id, _ in copies}))
        partition = copies[0][1]
        states.append(
            nouns.PartitionState(
                topic=key.topic,
                topic_id=partition.topic_id,
                partition=key.partition,
                leader_id=brokers[0] if len(brokers) == 1 else nouns.NO_LEADER,
                leader_epoch=None,
                replicas=brokers,
                isr=None,
            )
        )
    return nouns.ClusterHistory.always(nouns.ONLY_REPLICA, states, {})


def read_replica_states(tree: LogTree) -> tuple[tuple[nouns.ReplicaState, ...], tuple[Problem, ...]]:
    """How far each replica's log reaches, by its last batches, and what could not be read; not of those to be deleted, nor strays."""
    problems: list[Problem] = []
    states = [
        _read_replica(log_directory, partition, problems)
        for log_directory, partition in tree.iter_partitions()
        if partition.kind in {DirectoryKind.LIVE, DirectoryKind.FUTURE} and not partition.is_cluster_metadata
    ]
    states.sort(key=attrgetter("order"))
    return tuple(states), tuple(problems)


def read_metadata_ends(tree: LogTree) -> dict[int, int]:
    """The newest time in each broker's own metadata log: no older than that are its disks, or a copy of them."""
    ends_ms: dict[int, int] = {}
    for directory, log in tree.iter_partitions(kind=DirectoryKind.LIVE):
        if log.is_cluster_metadata and log.segments and directory.broker_id is not None:
            with contextlib.suppress(InputError, OSError):  # whoever reads the log says so
                tail = scan_tail(log.segments[-1])
                stamps_ms = tail.max_timestamp_ms[tail.usable]
                ends_ms[directory.broker_id] = int(stamps_ms.max(initial=ends_ms.get(directory.broker_id, -1)))
    return {broker_id: at_ms for broker_id, at_ms in ends_ms.items() if at_ms >= 0}


def read_disk_ends(tree: LogTree) -> dict[int, dict[str, int]]:
    """When each broker's disks were written last, by path: a broker writes their high watermarks anew every five seconds."""
    ends_ms: dict[int, dict[str, int]] = defaultdict(dict)
    for directory in tree.directories:
        if directory.broker_id is not None and directory.high_watermarks:
            with contextlib.suppress(OSError):
                stat = Path(directory.path, CHECKPOINTS["high_watermarks"]).stat()
                ends_ms[directory.broker_id][directory.path] = stat.st_mtime_ns // NS_PER_MS
    return ends_ms


def read_log_end_offset(segment: SegmentFile) -> int | None:
    """The offset after the last batch of a segment: its base offset where it is empty, None where that is unknown too."""
    scan = scan_tail(segment)
    if len(scan):
        return int(scan.last_offset[-1]) + 1
    return segment.base_offset


def scan_tail(segment: SegmentFile) -> HeaderScan:
    """The batches from the last index entry on that points into the file; all where there is none."""
    start = 0
    if segment.index_path is not None:
        with contextlib.suppress(InputError, OSError):
            positions = read_offset_index(segment.index_path, segment.base_offset or 0).position
            size_bytes = Path(segment.path).stat().st_size  # it may have been cut since it was found
            start = int(np.max(positions[(positions >= 0) & (positions < size_bytes)], initial=0))
    return scan_headers(segment.path, start=start, check_crc=False)


def _read_replica(
    log_directory: LogDirectory, partition: PartitionDirectory, problems: list[Problem]
) -> nouns.ReplicaState:
    key = partition.topic_partition
    log_end_offset, epoch = None, -1
    held = [segment for segment in partition.segments if segment.size_bytes]
    if partition.segments:
        try:
            log_end_offset = read_log_end_offset(partition.segments[-1])
            if held and not partition.leader_epochs:
                epoch = max(scan_tail(held[-1]).rows["partition_leader_epoch"][-1:].tolist(), default=-1)
        except (InputError, OSError) as error:
            problems.append(Problem.of_error(partition.segments[-1].path, error))
    first = partition.segments[0].base_offset if partition.segments else None
    is_live = partition.kind is DirectoryKind.LIVE
    return nouns.ReplicaState(
        topic=partition.topic,
        topic_id=partition.topic_id,
        partition=partition.partition,
        broker_id=log_directory.broker_id,
        log_directory=log_directory.path,
        directory_id=log_directory.directory_id,
        log_start_offset=log_directory.log_start_offsets.get(key, first) if is_live else first,
        log_end_offset=log_end_offset,
        high_watermark=log_directory.high_watermarks.get(key) if is_live else None,
        size_bytes=partition.size_bytes,
        is_future=not is_live,
        leader_epoch=epoch,
    )
