"""A partition's log and its replicas, as brokers of a small Kafka keep them."""

from base64 import urlsafe_b64encode
from dataclasses import dataclass, field
from typing import NamedTuple


class Batch(NamedTuple):
    """A batch in a partition's log; `segment` counts up where a segment begins."""

    offset: int
    data: bytes
    sent_ms: int
    stamp_ms: int
    leader: int
    epoch: int
    segment: int
    key: int


@dataclass(eq=False)
class Copy:
    """A broker's replica of a partition."""

    disk: int
    batches: list[Batch] = field(default_factory=list)
    start: int = 0  # log start offset
    epochs: list[tuple[int, int]] = field(default_factory=list)
    emptied_ms: int = 0

    @property
    def end(self) -> int:
        """The offset after the last record: each batch has one."""
        return self.batches[-1].offset + 1 if self.batches else self.start


@dataclass(eq=False)
class Log:
    """A partition of a topic; one that is made anew is another."""

    topic: str
    topic_id: bytes
    number: int
    replicas: list[int]
    isr: list[int]
    leader: int
    epoch: int = 0
    copies: dict[int, Copy] = field(default_factory=dict)
    sent: list[Batch] = field(default_factory=list)
    unsure: set[int] = field(default_factory=set)  # places in `sent` of what a reader may have or not
    adding: list[int] = field(default_factory=list)
    segment: int = 0

    @property
    def name(self) -> str:
        """As its folder is called."""
        return f"{self.topic}-{self.number}"


def name_id(raw: bytes) -> str:
    """A UUID as Kafka writes it."""
    return urlsafe_b64encode(raw).decode().rstrip("=")
