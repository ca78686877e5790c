"""Placement of partitions and their traffic: input and result of a reassignment plan."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

Place: TypeAlias = tuple[str, int]  # topic and partition
Leaders: TypeAlias = Mapping[Place, int]
Replicas: TypeAlias = Mapping[Place, tuple[int, ...]]  # the leader first


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedPartition:
    topic: str
    partition: int
    replicas: tuple[int, ...]  # brokers in assignment order; the first is the preferred leader
    leader_id: int  # the leader; negative for none
    in_sync: tuple[int, ...]  # replicas that may be elected; all of them where the source does not say
    load_bytes: int  # bytes appended in the window: what its leader carries
    size_bytes: int  # bytes of one replica on disk: what moving it copies
    is_sized: bool = True  # False where nobody says how large it is: no plan copies it
    least_in_sync: int = 1  # `min.insync.replicas`: with fewer in sync it refuses acks=all
    is_pinned: bool = False  # plans leave it where it is: its load follows the broker


def read_least_in_sync(configs: Iterable[tuple[str, str]]) -> int:
    told = dict(configs).get("min.insync.replicas", "")
    return int(told) if told.isdecimal() and len(told) < 10 else 1  # a topic's owner may write anything


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementBroker:
    """A broker that may take partitions; nothing goes to a fenced one, nothing new to one that takes no replicas."""

    broker_id: int
    rack: str | None = None
    capacity: float = 1.0
    is_fenced: bool = False
    takes_replicas: bool = True  # False where Kafka places no new replica on it, or its rack is not known
    doubt: str = ""  # what of its registration could not be read
    free_bytes: int | None = None  # room for replicas on its disks; None where nobody says


Partitions: TypeAlias = Sequence[PlacedPartition]
Brokers: TypeAlias = Sequence[PlacementBroker]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionMove:
    topic: str
    partition: int
    replicas: tuple[int, ...]
    new_replicas: tuple[int, ...]  # as they will be; the first is to lead
    moved_bytes: int  # copied between brokers: 0 where only the order changes
