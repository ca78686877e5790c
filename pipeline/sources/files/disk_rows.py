"""Columns of `bronze.brokers` about disks: what replicas take in each log directory, and what its volume holds."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pipeline.model.cluster import DirectorySpace, ReplicaState

DiskColumns = dict[str, dict[str, int]]


def disk_columns(
    replicas: Iterable[ReplicaState],
    spaces: Mapping[int, Mapping[str, DirectorySpace]],
    relative: Callable[[str], str],
) -> dict[int, DiskColumns]:
    """Bytes by log directory, for each broker whose disks were found or described.

    Args:
        replicas: What the disks hold, copies on their way between disks included; those without a size are left out.
        spaces: Volumes by broker and log directory, where the brokers tell.
        relative: Shortens a path to what it is under its source root.

    Returns:
        By broker: `log_dir_bytes`, `log_dir_total_bytes`, `log_dir_usable_bytes`, each by log directory.
    """
    held: dict[int, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for replica in replicas:
        if replica.broker_id is not None and replica.size_bytes is not None and replica.log_directory:
            held[replica.broker_id][relative(replica.log_directory)] += replica.size_bytes
    return {
        broker_id: {
            "log_dir_bytes": dict(held.get(broker_id, {})),
            "log_dir_total_bytes": {relative(path): s.total_bytes for path, s in spaces.get(broker_id, {}).items()},
            "log_dir_usable_bytes": {relative(path): s.usable_bytes for path, s in spaces.get(broker_id, {}).items()},
        }
        for broker_id in sorted({*held, *spaces})
    }
