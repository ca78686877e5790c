"""What consumer groups consume, as `kafka-consumer-groups` tells it."""

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
        member_id: None for a partition nobody consumes now.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMembership:
    """A line of `kafka-consumer-groups --describe --members`: a member, whether it owns partitions or not.

    Attributes:
        group_id: Consumer group.
        member_id: Member.
        client_host: Its host, without the leading slash.
        client_id: `client.id`.
        partition_count: Partitions it owns.
        assignment: Those partitions as topic and number, with `--verbose`; None where they are not printed, or without
            their topics (3.9 leaves the names out).
    """

    group_id: str
    member_id: str
    client_host: str | None
    client_id: str | None
    partition_count: int
    assignment: tuple[tuple[str, int], ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupState:
    """A line of `kafka-consumer-groups --describe --state`.

    Attributes:
        group_id: Consumer group.
        coordinator_id: Broker that coordinates it, or None.
        assignor: Assignment strategy, such as `range` or `uniform`; None for a group without members.
        state: `Stable`, `Empty` and so on, as printed.
        member_count: Members.
    """

    group_id: str
    coordinator_id: int | None
    assignor: str | None
    state: str
    member_count: int
