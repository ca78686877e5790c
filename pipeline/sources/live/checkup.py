"""Checks what a live cluster allows this principal on this machine."""

from collections import Counter
from collections.abc import Iterator

from kafka.errors import KafkaError

from pipeline.sources.files.cluster_rows import TOPIC_CONFIGS
from pipeline.sources.live import admin, requests
from pipeline.sources.live.admin import Metadata
from pipeline.sources.live.connection import ClusterConnection, connect
from pipeline.sources.live.diagnosis import probe_broker
from pipeline.sources.live.fetch import FetchState, iter_replies
from pipeline.sources.live.requests import PAGE_PARTITIONS, Failures, describe_error
from pipeline.sources.live.settings import FetchRead, LiveSettings
from pipeline.sources.live.state import BROKER_CONFIGS
from pipeline.sources.questions import Finding

PROBE_TIMEOUT_S = 3.0
_QUESTIONS = (  # what is asked besides records, and the permission it takes
    ("replica sizes", "Describe on the cluster"),
    ("topic configs", "DescribeConfigs on the topics"),
    ("broker configs", "DescribeConfigs on the cluster"),
    ("reassignments", "Describe on the cluster"),
)
_NO_TOPIC_ADVICE = "allow Describe and Read on the topics; if the cluster is new, create a topic"
"""A broker leaves out of its metadata the topics that the principal may not describe."""


def examine_live_cluster(source: LiveSettings) -> Iterator[Finding]:
    """Connects, then tries every question once; says what is lost where one is refused; errors as of `connect`."""
    with connect(source) as connection:
        metadata = admin.ask_metadata(connection)
        counts = f"{len(metadata.brokers)} brokers, {len(metadata.partitions):,} visible partitions"
        is_any = bool(metadata.partitions)
        yield Finding(name="connection", is_ok=is_any, found=counts, advice="" if is_any else _NO_TOPIC_ADVICE)
        secrets = source.client.read_secrets()
        for broker in metadata.brokers.values():
            name, (_, host, port) = f"broker {broker.broker_id}", broker.endpoints[0]
            failure = probe_broker(host, port, source.client, secrets, timeout_s=PROBE_TIMEOUT_S, log_in=False)
            found, advice = f"{host}:{port}", ""
            if failure is not None:
                found = f"advertises {host}:{port}: {failure.reason}"
                advice = "see advertised.listeners of the broker, or the way to it from here"
            yield Finding(name=name, is_ok=failure is None, found=found, advice=advice)
        for name in (f"broker {broker_id}" for broker_id in metadata.absent_brokers):
            found = "holds replicas and is not in the cluster"
            yield Finding(name=name, is_ok=False, found=found, advice="see why it is away")
        for address, said in metadata.dissenters.items():
            complaint = f"contradicts most brokers about the addresses or leaders {said}"
            yield Finding(name=f"metadata of {address}", is_ok=False, found=complaint, advice="check this broker")
        if not metadata.partitions:  # brokers answer questions about nothing, allowed or not
            return
        brokers, partitions = list(metadata.brokers)[:1], list(metadata.partitions)[:1]
        failures = Failures()
        requests.ask_log_directories(connection, brokers, partitions, failures)
        requests.ask_topic_configs(connection, brokers, [key.topic for key in partitions], TOPIC_CONFIGS, failures)
        requests.ask_broker_configs(connection, brokers, BROKER_CONFIGS, failures)
        requests.ask_reassignments(connection, brokers, failures)
        for question, permission in _QUESTIONS:
            advice = f"allow {permission} if it is wanted; everything else works without"
            reason = failures.questions.get(question)
            answer = "answered" if reason is None else f"not answered ({reason}); {advice}"
            yield Finding(name=question, is_ok=True, found=answer)
        if source.groups:
            yield _examine_groups(connection)
        yield _examine_records(connection, metadata)


def _examine_groups(connection: ClusterConnection) -> Finding:
    """Describes one consumer group; brokers leave out those that the principal may not describe, or refuse to describe them."""
    name, advice = "consumer groups", "allow Describe on the groups if they are wanted; everything else works without"
    try:
        known = sorted(group["group_id"] for group in connection.admin.list_groups())
        for group_id in known[:1]:
            connection.admin.list_group_offsets(group_id)
    except (KafkaError, TypeError) as error:  # the latter for nulls
        return Finding(name=name, is_ok=True, found=f"not answered ({describe_error(error)}); {advice}")
    counted = f"{len(known):,} that we may see" if known else f"none that we may see; if there are any: {advice}"
    return Finding(name=name, is_ok=True, found=counted)


def _examine_records(connection: ClusterConnection, metadata: Metadata) -> Finding:
    failures = Failures()
    leaders = {key: state.leader_id for key, state in list(metadata.partitions.items())[:PAGE_PARTITIONS]}
    starts = admin.ask_offsets(connection, leaders, admin.EARLIEST, failures)
    ends = admin.ask_offsets(connection, leaders, admin.LATEST, failures)
    held = [key for key in ends if key in starts and ends[key].offset > starts[key].offset]
    if not held:
        return Finding(name="records", is_ok=True, found="no partition holds any")
    # A topic of users first: the brokers' own are often kept from others.
    key = min(held, key=lambda key: (key.topic in metadata.internal_topics, key))
    start = starts[key].offset
    state, log = FetchState(start), metadata.partitions[key].log_name
    read = FetchRead(*log, leaders[key], start, start + 1, is_first=True, is_last=True)
    for data in iter_replies(connection, read, state, Counter([leaders[key]])):
        return Finding(name="records", is_ok=True, found=f"record batches of {key}: {len(data):,} bytes in one reply")
    advice = "allow Read on the topics, or set `read: offsets`: records as an upper bound, bytes estimated"
    return Finding(name="records", is_ok=False, found=f"{key} cannot be fetched: {state.stopped}", advice=advice)
