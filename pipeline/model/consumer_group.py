"""What consumer groups consume, as `kafka-consumer-groups` shows it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupMember:
    """A line of `kafka-consumer-groups --describe`: what a group consumes of a partition, and who does.

    Attributes:
        group_id: Consumer group.
        topic: Topic; None on the line of a member without partitions.
        partition: Number; None likewise.
        committed_offset: None where nothing was committed.
        log_end_offset: As printed.
        lag_count: As printed; None where nothing was committed.
        member_id: None for a partition without a consumer now.
        client_host: Host of the member, without the leading slash.
        client_id: `client.id`.
        assignor: Partition assignor of the group, where the source says.
    """

    group_id: str
    topic: str | None
    partition: int | None
    committed_offset: int | None
    log_end_offset: int | None
    lag_count: int | None
    member_id: str | None
    client_host: str | None
    client_id: str | None
    assignor: str | None = None
