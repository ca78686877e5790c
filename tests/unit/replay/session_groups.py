"""Made-up recorded traffic for units: sessions whose truth is known."""

import dataclasses

import numpy as np

from pipeline.calibration.caveats import Origin
from pipeline.calibration.partitioner.baseline import Baseline
from pipeline.calibration.partitioner.settings import Setting
from pipeline.calibration.session_traffic import NO_KEY, SessionBatches, SessionTraffic
from pipeline.replay.sessions import describe_session
from pipeline.replay.simulated.arrivals import NO_HASHES
from pipeline.replay.simulated.plan import GroupTopic, SessionGroup
from pipeline.replay.simulated.producers import KEEP, resolve_candidate
from pipeline.replay.simulated.scenario import lay_out_group
from tests.simulated_sessions import delayed

MINUTE_MS = 60_000
NO_BATCHES = SessionBatches(*(np.zeros(0, np.int64),) * 6)
START_MS = 1_795_251_600_000


def make_traffic(
    record_count=6_000,
    *,
    topic="orders",
    partition_count=3,
    key_count=0,
    keyed_ratio=0.0,
    producer_id=7,
    seed=1,
    start_ms=START_MS,
    span_ms=MINUTE_MS,
):
    """A session's records at random times in a span; those with a key lie by key, the others anywhere."""
    rng = np.random.default_rng(seed)
    elapsed_ms = np.sort(rng.integers(0, span_ms, record_count)).astype(np.int32)
    is_keyed = rng.random(record_count) < keyed_ratio
    key_index = np.where(is_keyed, rng.integers(0, max(1, key_count), record_count), NO_KEY).astype(np.int32)
    partition = np.where(is_keyed, key_index % partition_count, rng.integers(0, partition_count, record_count))
    of = {"topic": topic, "topic_id": "", "producer_id": producer_id, "producer_epoch": 0, "start_ms": start_ms}
    return SessionTraffic(
        **of,
        elapsed_ms=elapsed_ms,
        body_bytes=rng.integers(100, 500, record_count).astype(np.int32),
        partition=partition.astype(np.int32),
        key_index=key_index,
        keys=np.arange(key_count, dtype=np.int64),
    )


def make_baseline(strategy="java-sticky-2.4", client="kafka-clients", version="3.2.3", **settings):
    """What is in use; settings by Kafka's names with underscores, as inferred."""
    found = {name.replace("_", "."): Setting(str(value), Origin.INFERRED) for name, value in settings.items()}
    return Baseline(strategy, client, version, "", found, 1.0, "", Origin.INFERRED, "made up")


def lay_out(group, arrivals, candidate=None, hashes=NO_HASHES):
    """A group under a candidate; under what is in use without one."""
    candidate = candidate or KEEP
    producers = [resolve_candidate(candidate, one.baseline, one.compression) for one in group.sessions]
    return lay_out_group(group, arrivals, candidate, producers, hashes)


def make_group(*traffics, baseline=None, leaders=(0, 1, 2), delays=None, number=0):
    """A unit of sessions, one for each producer id, on three brokers."""
    by_producer = {}
    for traffic in traffics:
        by_producer.setdefault(traffic.producer_id, []).append(traffic)
    sessions = tuple(
        dataclasses.replace(
            describe_session(own[0].start_ms, MINUTE_MS, own[0], NO_BATCHES, baseline or make_baseline()),
            record_count=sum(len(traffic) for traffic in own),
            keyless_count=sum(int((~traffic.is_keyed).sum()) for traffic in own),
        )
        for _, own in sorted(by_producer.items())
    )
    topics = tuple(GroupTopic(name, "", tuple(leaders)) for name in sorted({traffic.topic for traffic in traffics}))
    models = {broker: delayed(broker, (delays or {}).get(broker, 0.0)) for broker in range(3)}
    return SessionGroup(number, traffics[0].start_ms, sessions, topics, models)
