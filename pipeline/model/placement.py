"""Where partitions are and what they carry: what a reassignment is planned from and what it changes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedPartition:
    """A partition, its replicas and its load in a window.

    Attributes:
        replicas: Brokers in assignment order; the first is the preferred leader.
        leader_id: The leader; negative for none.
        in_sync: Replicas that may be elected; all of them where the source does not say.
        load_bytes: Bytes appended in the window: what its leader carries.
        size_bytes: Bytes of one replica on disk: what moving it copies.
    """

    topic: str
    partition: int
    replicas: tuple[int, ...]
    leader_id: int
    in_sync: tuple[int, ...]
    load_bytes: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementBroker:
    """A broker that may take partitions; nothing is moved to a fenced one."""

    broker_id: int
    rack: str | None = None
    capacity: float = 1.0
    is_fenced: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionMove:
    """What changes for one partition.

    Attributes:
        new_replicas: As they will be; the first is to lead.
        moved_bytes: Copied between brokers: 0 where only the order changes.
    """

    topic: str
    partition: int
    replicas: tuple[int, ...]
    new_replicas: tuple[int, ...]
    moved_bytes: int
