"""What a live cluster will and will not give to this principal from this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.model.finding import Finding
from pipeline.sources.files.cluster_rows import TOPIC_CONFIGS
from pipeline.sources.live import admin, describe
from pipeline.sources.live.asking import PAGE_PARTITIONS, Failures
from pipeline.sources.live.connection import connected
from pipeline.sources.live.diagnosis import probe_broker
from pipeline.sources.live.fetch import FetchState, iter_replies
from pipeline.sources.live.plan import FetchRead
from pipeline.sources.live.state import BROKER_CONFIGS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pipeline.config.live_source import LiveCluster
    from pipeline.sources.live.admin import Metadata
    from pipeline.sources.live.connection import Connection

PROBE_TIMEOUT_S = 3.0


def examine_live_cluster(source: LiveCluster) -> Iterator[Finding]:
    """Connects, then tries every question once; a refused one costs what only it tells.

    Args:
        source: As configured, with short time limits.

    Raises:
        SourceUnreachableError: with the cause as far as it could be found out.
        ConfigError: a secret or a certificate is not there.
    """
    with connected(source) as connection:
        metadata = admin.ask_metadata(connection)
        counts = f"{len(metadata.brokers)} brokers, {len(metadata.partitions):,} partitions we may see"
        yield Finding(name="connection", is_ok=True, found=counts)
        yield from _brokers(source, metadata)
        yield from _questions(connection, metadata)
        yield _records(connection, metadata)


def _brokers(source: LiveCluster, metadata: Metadata) -> Iterator[Finding]:
    """Whether the addresses that brokers advertise serve from here: bootstrap may work where they do not."""
    for broker in metadata.brokers.values():
        endpoint = broker.endpoints[0]
        failure = probe_broker(
            endpoint.host, endpoint.port, source.client, None, timeout_s=PROBE_TIMEOUT_S, log_in=False
        )
        address = f"{endpoint.host}:{endpoint.port}"
        if failure is None:
            yield Finding(name=f"broker {broker.broker_id}", is_ok=True, found=address)
        else:
            advice = "see advertised.listeners of the broker, or the way to it from here"
            found = f"advertises {address}: {failure.reason}"
            yield Finding(name=f"broker {broker.broker_id}", is_ok=False, found=found, advice=advice)
    named = {broker_id for state in metadata.partitions.values() for broker_id in state.replicas}
    for broker_id in sorted(named - metadata.brokers.keys()):
        found = "holds replicas and is not in the cluster"
        yield Finding(name=f"broker {broker_id}", is_ok=False, found=found, advice="see why it is away")


def _questions(connection: Connection, metadata: Metadata) -> Iterator[Finding]:
    brokers, topics = list(metadata.brokers)[:1], sorted({key.topic for key in metadata.partitions})[:1]
    failures = Failures()
    describe.ask_log_directories(connection, brokers, list(metadata.partitions)[:1], failures)
    yield _told("replica sizes", failures.questions.get("replica sizes"), "Describe", "cluster")
    describe.ask_topic_configs(connection, topics, TOPIC_CONFIGS, failures)
    yield _told("topic configs", failures.questions.get("topic configs"), "DescribeConfigs", "topics")
    describe.ask_broker_configs(connection, brokers, BROKER_CONFIGS, failures)
    yield _told("broker configs", failures.questions.get("broker configs"), "DescribeConfigs", "cluster")
    describe.ask_reassignments(connection, failures)
    yield _told("reassignments", failures.questions.get("reassignments"), "Describe", "cluster")


def _told(what: str, reason: str | None, operation: str, resource: str) -> Finding:
    if reason is None:
        return Finding(name=what, is_ok=True, found="told")
    advice = f"allow {operation} on the {resource} if it is wanted; everything else works without"
    return Finding(name=what, is_ok=True, found=f"not told ({reason}); {advice}")


def _records(connection: Connection, metadata: Metadata) -> Finding:
    """Fetches one batch from the first partition that has one."""
    failures = Failures()
    leaders = {key: state.leader_id for key, state in list(metadata.partitions.items())[:PAGE_PARTITIONS]}
    starts = admin.ask_offsets(connection, leaders, admin.EARLIEST, failures)
    ends = admin.ask_offsets(connection, leaders, admin.LATEST, failures)
    held = [key for key in ends if key in starts and ends[key].offset > starts[key].offset]
    if not held:
        return Finding(name="records", is_ok=True, found="no partition holds any")
    # A topic of users first: the brokers' own are often kept from others.
    key = min(held, key=lambda key: (key.topic in metadata.internal_topics, key))
    state = FetchState(starts[key].offset)
    read = FetchRead(
        topic=key.topic,
        topic_id=metadata.partitions[key].topic_id or "",
        partition=key.partition,
        leader_id=leaders[key],
        start_offset=starts[key].offset,
        end_offset=starts[key].offset + 1,
        is_first=True,
        is_last=True,
        size_bytes=0,
    )
    for data in iter_replies(connection, read, state, {leaders[key]}):
        return Finding(name="records", is_ok=True, found=f"record batches of {key}: {len(data):,} bytes in one reply")
    advice = "allow Read on the topics, or set `read: offsets`: records as an upper bound, bytes estimated"
    found = f"{key} cannot be fetched: {state.stopped}"
    return Finding(name="records", is_ok=False, found=found, advice=advice)
