"""What an earlier run saw of a partition: a row of `bronze.cluster_state`, the leader's."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierState:
    """A partition as its leader reported it.

    Attributes:
        window_start_ms: The run's window, UTC milliseconds.
        topic: Topic.
        topic_id: Topic id, or "".
        partition: Number.
        leader_id: Leader then.
        leader_epoch: Its epoch; None where not reported.
        log_start_offset: First offset that could be read; None where not reported.
        log_end_offset: High watermark; None where not reported.
        size_bytes: Bytes of the leader's log; None where not reported.
    """

    window_start_ms: int
    topic: str
    topic_id: str
    partition: int
    leader_id: int
    leader_epoch: int | None
    log_start_offset: int | None
    log_end_offset: int | None
    size_bytes: int | None
