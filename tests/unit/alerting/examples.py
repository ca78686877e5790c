"""A broker incident as the tests tell it: three brokers, `orders` on broker 1, minute windows from 09:00 UTC."""

from dataclasses import replace

from pipeline.config.rules import Gate
from pipeline.evidence.incident import BrokerShareEvidence, HotPartition, ProduceLatency, ShareCauses, rank_topics
from pipeline.model.promise import Promise, Recommendation
from pipeline.model.verdict import BrokerLoad
from tests.incident_rows import new_change

LOGS = {"sources": [{"kind": "log_directories", "paths": ["b"]}]}
T0_MS = 1_795_251_600_000  # 2026-11-21T09:00:00Z
MINUTE_MS = 60_000
LOADS = {
    ("orders", 1): 900,
    ("orders", 2): 50,
    ("orders", 3): 50,
    ("refunds", 1): 200,
    ("refunds", 2): 400,
    ("refunds", 3): 400,
}


def broker_load(broker_id, share, *, expected_share=1 / 3, minute=6):
    return BrokerLoad(
        window_start_ms=T0_MS + minute * MINUTE_MS,
        broker_id=broker_id,
        size_bytes=round(share * 2_000),
        record_count=10,
        share=share,
        expected_share=expected_share,
        share_ratio=share / expected_share,
        effective_unit_count=1_812.4,
    )


def new_recommendation(**changes):
    """The replay's first advice about broker 1: a line of the producers' configuration."""
    action = Recommendation(
        window_start_ms=T0_MS,
        subject="broker 1",
        rank=1,
        action="replay:linger",
        title="set `linger.ms=5` on producers of orders",
        text="The replay says so.",
        topic="orders",
        share_ratio=1.65,
        predicted_ratio=1.05,
        predicted_ratio_low=1.02,
        predicted_ratio_high=1.11,
        predicted_peak_ratio=1.05,
        moved_bytes=0,
        moved_partition_count=0,
        is_enough=True,
        broker_ratios={1: 1.05, 2: 1.0},
    )
    return replace(action, **changes)


def new_promise(**changes):
    """What became of it: set in the minute from 09:07, kept in the one from 09:08."""
    promise = Promise(
        window_start_ms=T0_MS + 8 * MINUTE_MS,
        promised_ms=T0_MS + 6 * MINUTE_MS,
        subject="broker 1",
        action="replay:linger",
        topic="orders",
        rank=1,
        title="set `linger.ms=5` on producers of orders",
        trust="trusted",
        expected_share=1 / 3,
        share_ratio=1.65,
        predicted_ratio=1.047,
        predicted_ratio_low=1.032,
        predicted_ratio_high=1.068,
        carried_out_ratio=1.0,
        carried_out_ms=T0_MS + 7 * MINUTE_MS,
        without_ratio=1.68,
        corrected_ratio=1.05,
        corrected_ratio_low=1.035,
        corrected_ratio_high=1.071,
        actual_ratio=1.053,
        outcome="kept",
        reason="the share is as predicted",
    )
    return replace(promise, **changes)


def new_evidence(**changes):
    """Broker 1 at 55 % in the minute from 09:06, above since 09:04."""
    of_incident = {"incident_id": "K-JKT62CWA", "value": 1.65, "window_count": 3}
    evidence = BrokerShareEvidence(
        cluster="demo",
        change=new_change("new", T0_MS + 6 * MINUTE_MS, since_ms=T0_MS + 4 * MINUTE_MS, **of_incident),
        broker_id=1,
        window_ms=MINUTE_MS,
        limits_at="gate.limit_ratio",
        brokers=(broker_load(1, 0.55), broker_load(2, 0.225), broker_load(3, 0.225)),
        topics=rank_topics(LOADS, broker_id=1, expected_share=1 / 3),
        partitions=(HotPartition(topic="orders", partition=0, size_bytes=900),),
        causes=ShareCauses(leaders_term=0.01, topic_mix_term=-0.01, partition_skew_term=0.2167),
        above_count=3,
        gate=Gate(limit_ratio=1.2, k=3, n=4),
        latency=ProduceLatency(
            window_start_ms=0,
            broker_id=1,
            request_latency_avg_ms=23.1,
            ratio_to_peers=11.0,
            request_latency_max_ms=61.0,
        ),
        owner="platform team",
    )
    return replace(evidence, **changes)


def resolved_evidence(**changes):
    """Broker 1 back at 34 % in the minute from 09:10."""
    opened = new_evidence()
    evidence = replace(
        opened,
        change=replace(
            opened.change, state="resolved", window_start_ms=T0_MS + 10 * MINUTE_MS, value=1.02, window_count=7
        ),
        brokers=(broker_load(1, 0.34, minute=10), broker_load(2, 0.33, minute=10), broker_load(3, 0.33, minute=10)),
    )
    return replace(evidence, **changes)
