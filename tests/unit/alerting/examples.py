"""A broker incident as the tests tell it: three brokers, `orders` on broker 1, minute windows from 09:00 UTC."""

from dataclasses import replace

from pipeline.config.rules import Gate
from pipeline.evidence.incident import BrokerShareEvidence, HotPartition, ProduceLatency, ShareCauses, rank_topics
from pipeline.model.promise import Promise, Recommendation
from tests.incident_rows import new_change
from tests.placements import load_of

LOGS = {"sources": [{"kind": "log_directories", "paths": ["b"]}]}
T0_MS = 1_795_251_600_000  # 2026-11-21T09:00:00Z
MINUTE_MS = 60_000
LOADS = {("orders", 1): 900, ("orders", 2): 50, ("orders", 3): 50}
LOADS |= {("refunds", 1): 200, ("refunds", 2): 400, ("refunds", 3): 400}


def broker_load(broker_id, share, *, expected_share=1 / 3, minute=6):
    of = {"start_ms": T0_MS + minute * MINUTE_MS, "expected_share": expected_share, "effective_unit_count": 1_812.4}
    return load_of(broker_id, round(share * 2_000), 2_000, **of)


def new_recommendation(**changes):
    """The replay's first advice about broker 1: a line of the producers' configuration."""
    usual = {"window_start_ms": T0_MS, "subject": "broker 1", "rank": 1, "action": "replay:linger", "topic": "orders"}
    usual |= {"title": "set `linger.ms=5` on producers of orders", "text": "The replay says so.", "is_enough": True}
    usual |= {"share_ratio": 1.65, "predicted_ratio": 1.05, "predicted_ratio_low": 1.02, "predicted_ratio_high": 1.11}
    usual |= {"predicted_peak_ratio": 1.05, "broker_ratios": {1: 1.05, 2: 1.0}, "moved_bytes": 0}
    return Recommendation(**{"moved_partition_count": 0, **usual, **changes})


def new_promise(**changes):
    """What became of it: set in the minute from 09:07, kept in the one from 09:08."""
    usual = {"subject": "broker 1", "rank": 1, "action": "replay:linger", "topic": "orders", "trust": "trusted"}
    usual |= {"window_start_ms": T0_MS + 8 * MINUTE_MS, "title": "set `linger.ms=5` on producers of orders"}
    usual |= {"promised_ms": T0_MS + 6 * MINUTE_MS, "carried_out_ms": T0_MS + 7 * MINUTE_MS, "carried_out_ratio": 1.0}
    usual |= {"expected_share": 1 / 3, "share_ratio": 1.65, "without_ratio": 1.68, "actual_ratio": 1.053}
    usual |= {"predicted_ratio": 1.047, "predicted_ratio_low": 1.032, "predicted_ratio_high": 1.068}
    usual |= {"corrected_ratio": 1.05, "corrected_ratio_low": 1.035, "corrected_ratio_high": 1.071}
    return Promise(**usual | {"outcome": "kept", "reason": "the share is as predicted"} | changes)


def new_evidence(**changes):
    """Broker 1 at 55 % in the minute from 09:06, above since 09:04."""
    of_incident = {"incident_id": "K-JKT62CWA", "value": 1.65, "window_count": 3}
    change = new_change("new", T0_MS + 6 * MINUTE_MS, since_ms=T0_MS + 4 * MINUTE_MS, **of_incident)
    usual = {"cluster": "demo", "change": change, "broker_id": 1, "window_ms": MINUTE_MS, "owner": "platform team"}
    usual |= {"limits_at": "gate.limit_ratio", "above_count": 3, "gate": Gate(limit_ratio=1.2, k=3, n=4)}
    usual |= {
        "brokers": (broker_load(1, 0.55), broker_load(2, 0.225), broker_load(3, 0.225)),
        "topics": rank_topics(LOADS, broker_id=1, expected_share=1 / 3),
        "partitions": (HotPartition(topic="orders", partition=0, size_bytes=900),),
        "causes": ShareCauses(leaders_term=0.01, topic_mix_term=-0.01, partition_skew_term=0.2167),
        "latency": latency(23.1, 11.0),
    }
    return BrokerShareEvidence(**usual | changes)


def latency(avg_ms, ratio_to_peers):
    """How long producers wait for broker 1."""
    return ProduceLatency(window_start_ms=0, broker_id=1, request_latency_avg_ms=avg_ms, ratio_to_peers=ratio_to_peers)


def resolved_evidence(**changes):
    """Broker 1 back at 34 % in the minute from 09:10."""
    over = {"state": "resolved", "window_start_ms": T0_MS + 10 * MINUTE_MS, "value": 1.02, "window_count": 7}
    brokers = tuple(broker_load(number, share, minute=10) for number, share in ((1, 0.34), (2, 0.33), (3, 0.33)))
    return new_evidence(**{"change": replace(new_evidence().change, **over), "brokers": brokers, **changes})
