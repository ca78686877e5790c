"""Partitions as plans take them, and loads of brokers: what a test does not name is usual."""

from pipeline.model.placement import PlacedPartition
from pipeline.model.verdict import BrokerLoad


def place(number, replicas, *, topic="t", leader=None, in_sync=None, load=100, size=1_000):
    """Led by its first replica, all of them in sync, unless told otherwise."""
    leads = {
        "leader_id": replicas[0] if leader is None else leader,
        "in_sync": replicas if in_sync is None else in_sync,
    }
    return PlacedPartition(topic=topic, partition=number, replicas=replicas, **leads, load_bytes=load, size_bytes=size)


def load_of(broker_id, size, total, *, start_ms=0, expected_share=1 / 3, **given):
    """A broker that took so much of a window's total."""
    share = size / total if total else None
    shares = {"share": share, "expected_share": expected_share, "share_ratio": share and share / expected_share}
    usual = {"size_bytes": size, "record_count": size, "effective_unit_count": None, **shares}
    return BrokerLoad(window_start_ms=start_ms, broker_id=broker_id, **usual | given)
