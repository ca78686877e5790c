"""The files at the root of a log directory: whose it is, and the offset checkpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.codec.log.checkpoints import MetaProperties, parse_meta_properties, parse_offset_checkpoint
from pipeline.errors import InputError
from pipeline.model.log_tree import LogDirectory

if TYPE_CHECKING:
    from pipeline.model.log import TopicPartition
    from pipeline.model.log_tree import PartitionDirectory
    from pipeline.sources.files.directory_walk import DirectoryWalk, Listing

META_PROPERTIES = "meta.properties"
HIGH_WATERMARKS = "replication-offset-checkpoint"
LOG_START_OFFSETS = "log-start-offset-checkpoint"
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
CLEANER_OFFSETS = "cleaner-offset-checkpoint"
CHECKPOINT_NAMES = (HIGH_WATERMARKS, LOG_START_OFFSETS, RECOVERY_POINTS, CLEANER_OFFSETS)
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
_NOBODY = MetaProperties(0, None, None, None)


def read_log_directory_files(
    listing: Listing, walk: DirectoryWalk, partitions: tuple[PartitionDirectory, ...]
) -> LogDirectory:
    """A log directory from its root files and the partitions found in it.

    Args:
        listing: The directory; files that are missing leave their part empty.
        walk: Takes the problems: unreadable or malformed files are left out, the rest is used.
        partitions: What was found in it.

    Returns:
        The log directory.
    """
    meta = _read_meta_properties(listing, walk)
    return LogDirectory(
        path=str(listing.path),
        broker_id=meta.node_id,
        directory_id=meta.directory_id,
        cluster_id=meta.cluster_id,
        partitions=partitions,
        high_watermarks=_read_checkpoint(listing, HIGH_WATERMARKS, walk),
        log_start_offsets=_read_checkpoint(listing, LOG_START_OFFSETS, walk),
        recovery_points=_read_checkpoint(listing, RECOVERY_POINTS, walk),
        cleaner_offsets=_read_checkpoint(listing, CLEANER_OFFSETS, walk),
        is_clean_shutdown=CLEAN_SHUTDOWN in listing.files,
    )


def _read_meta_properties(listing: Listing, walk: DirectoryWalk) -> MetaProperties:
    data = walk.read_text(listing.files.get(META_PROPERTIES))
    if data is None:
        return _NOBODY
    path = listing.files[META_PROPERTIES]
    try:
        meta = parse_meta_properties(data)
    except InputError as error:
        walk.problem(path, error.reason, position=error.position, first_bytes=error.first_bytes)
        return _NOBODY
    if meta.node_id is None:
        walk.problem(path, "neither node.id nor broker.id: the broker is unknown", first_bytes=data, severity="suspect")
    return meta


def _read_checkpoint(listing: Listing, name: str, walk: DirectoryWalk) -> dict[TopicPartition, int]:
    data = walk.read_text(listing.files.get(name))
    if data is None:
        return {}
    try:
        return parse_offset_checkpoint(data)
    except InputError as error:
        walk.problem(listing.files[name], error.reason, position=error.position, first_bytes=error.first_bytes)
        return {}
