"""State of a cluster at a window's end: as observed, or as leader epochs prove it afterwards."""

from collections.abc import Mapping
from dataclasses import replace

from pipeline.model.cluster import LIVE_CLUSTER, NO_LEADER, ClusterHistory, ClusterState, PartitionState, Timeline
from pipeline.model.log import LogName, TopicPartition


def state_of_window(
    history: ClusterHistory, end_ms: int, epochs: Mapping[LogName, int], *, is_newest: bool
) -> tuple[ClusterState, bool]:
    """The cluster at a window's end, and whether all of it is known or only the leaders that `epochs` (largest of its batches) prove."""
    state = history.state_at(end_ms)
    if history.known_since_ms is None or end_ms >= history.known_since_ms:
        return state, True
    proved = _prove_leaders(history, state, end_ms, epochs)
    if not is_newest:
        return replace(state, partitions=proved, topic_configs={}, default_configs={}), False
    led = {
        key: replace(now, leader_id=proved[key].leader_id, leader_epoch=proved[key].leader_epoch)
        for key, now in state.partitions.items()
        if key in proved and NO_LEADER not in {now.leader_id, proved[key].leader_id}
    }
    return replace(state, partitions={**state.partitions, **led}), True


def _prove_leaders(
    history: ClusterHistory, state: ClusterState, at_ms: int, epochs: Mapping[LogName, int]
) -> dict[TopicPartition, PartitionState]:
    """Partitions at a moment by the newest epoch that had begun: observed, borne by a batch, or the first; others may not have been there."""
    leaders: dict[TopicPartition, dict[int | None, int]] = {}  # by leader epoch
    seen: dict[TopicPartition, list[int]] = {}
    observed_topics, written_topics = set(), set()
    for key, now in state.partitions.items():
        terms = [term for term in history.leader_terms(key) if term.topic_id == now.topic_id]
        leaders[key] = {term.leader_epoch: term.leader_id for term in terms}
        begun = (term for term in terms if term.since_ms is not None and term.since_ms <= at_ms)
        seen[key] = [term.leader_epoch for term in begun if term.leader_epoch is not None]
        if seen[key]:
            observed_topics.add(key.topic)
        batch_epoch = epochs.get(now.log_name)
        if batch_epoch is not None:
            written_topics.add(key.topic)
            seen[key].append(batch_epoch)
    proved = {}
    for key, now in state.partitions.items():
        if not seen[key] and (key.topic in observed_topics or key.topic not in written_topics):
            continue
        epoch = max(seen[key], default=0)
        leader_id = leaders[key].get(epoch, NO_LEADER)
        proved[key] = PartitionState(
            topic=key.topic,
            topic_id=now.topic_id,
            partition=key.partition,
            leader_id=leader_id,
            leader_epoch=None if leader_id == NO_LEADER else epoch,
            replicas=now.replicas,
            isr=None,
        )
    return proved


def away_ms(history: ClusterHistory, broker_id: int, start_ms: int, end_ms: int) -> int | None:
    """How long a broker was out of the cluster, once it was registered; None where it never was, or without a history, as of a live cluster.

    All the time where the history begins later, and it was out from its begin on: the first known state is a good guess.
    """
    timeline, since_ms = history.brokers.get(broker_id, Timeline()), history.known_since_ms
    if history.state_source == LIVE_CLUSTER or since_ms is None or not timeline.values:
        return None
    if start_ms < since_ms:
        known = timeline.list_values(since_ms, max(since_ms, end_ms))
        is_out = timeline.moments_ms[0] <= since_ms and all(one is None or one.is_fenced for one in known)
        return end_ms - start_ms if is_out else None
    if timeline.moments_ms[0] >= end_ms:
        return None
    # a history that begins with a snapshot does not show that a broker stood before it was fenced
    away, was_in = 0, timeline.moments_ms[0] <= start_ms
    untils_ms = (*timeline.moments_ms[1:], end_ms)
    for since_ms, broker, until_ms in zip(timeline.moments_ms, timeline.values, untils_ms, strict=True):
        is_in = broker is not None and not broker.is_fenced
        if was_in and not is_in:
            away += max(0, min(until_ms, end_ms) - max(since_ms, start_ms))
        was_in |= is_in
    return away
