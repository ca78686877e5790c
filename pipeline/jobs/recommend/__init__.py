"""Recommends actions for brokers above their share, and judges earlier ones: `gold.recommendations`, `gold.promises`.

Windows go in time order, promises before advice: a kind of advice whose promises are broken loses rank.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from pipeline.advice.candidate_effects import describe_candidate, format_config_diff, list_settings, predict_ratios
from pipeline.advice.recommendations import CandidateEffect, HotBroker, recommend
from pipeline.advice.rekeying import find_rekeyings
from pipeline.config.rules import Gate
from pipeline.jobs.recommend.promises import PromiseLedger
from pipeline.model.number_text import format_name
from pipeline.model.placement import PlacedPartition, PlacementBroker
from pipeline.model.promise import Promise, PromiseScore
from pipeline.model.recommendation import Recommendation
from pipeline.model.window import TimeWindow, milliseconds_of
from pipeline.rules.brokers import disk_fillings
from pipeline.runs import JobReport, Row, RunContext
from pipeline.storage.values import row_of
from pipeline.tables.bronze import BROKERS, CLUSTER_STATE
from pipeline.tables.gold import BROKER_SHARE, PARTITION_HEALTH
from pipeline.tables.health import PROMISES, RECOMMENDATIONS, TOPIC_HEALTH
from pipeline.tables.replay import REPLAY_BROKERS, SCENARIO_COMPARISON

_FOLLOWING = 0.5


def run(run: RunContext, windows: Sequence[TimeWindow]) -> JobReport:
    """Replaces the windows' recommendations; windows in which no broker is above its limit get none."""
    if not windows:
        return JobReport()
    hot: dict[int, list[Row]] = defaultdict(list)
    for row in run.rows(BROKER_SHARE, windows):
        gate = _gate_of(run, row)
        if (row["share_ratio"] or 0) >= gate.limit_ratio and (row["chance_p_value"] or 0) <= gate.chance_level:
            hot[milliseconds_of(row["window_start"])].append(row)
    ledger = PromiseLedger(run, windows)
    promises: list[Promise] = []
    found: list[Recommendation] = []
    for window in sorted(windows):
        judged, scores = ledger.judge(window)
        advice = _recommend(run, window, hot[window.start_ms], scores) if window.start_ms in hot else []
        ledger.add(advice)
        promises += judged
        found += advice
    versions = {
        PROMISES.name: run.replace(PROMISES, promises, windows),
        RECOMMENDATIONS.name: run.replace(RECOMMENDATIONS, map(_row, found), windows),
    }
    return JobReport(table_versions=versions)


def _gate_of(run: RunContext, row: Row) -> Gate:
    """The limits of a broker, by the topic that most of its excess comes from."""
    return run.cluster.gate.of_topic(row["excess_topic"] or "")


def _row(value: Recommendation) -> Row:
    ratios = {str(broker_id): ratio for broker_id, ratio in value.broker_ratios.items()}
    return {**row_of(value, RECOMMENDATIONS), "broker_ratios": ratios}


def _recommend(
    run: RunContext, window: TimeWindow, hot: Sequence[Row], scores: Mapping[str, PromiseScore]
) -> list[Recommendation]:
    shares, loads = run.rows(BROKER_SHARE, (window,)), run.rows(PARTITION_HEALTH, (window,))
    partitions, brokers = load_placement(run, window)
    effects = _effects(run, window, shares, loads)
    effects += find_rekeyings(shares, loads, run.rows(TOPIC_HEALTH, (window,)))
    return [
        recommendation
        for row in hot
        for recommendation in recommend(
            HotBroker(
                broker_id=row["broker_id"],
                window_start_ms=window.start_ms,
                share_ratio=row["share_ratio"],
                target_ratio=_gate_of(run, row).resolves_at,
                load_follows=_follows(row),
                max_moved_bytes=run.cluster.max_moved_bytes,
            ),
            partitions,
            brokers,
            effects,
            scores,
        )
    ]


def load_placement(run: RunContext, window: TimeWindow) -> tuple[list[PlacedPartition], list[PlacementBroker]]:
    """Loads partitions and brokers of a window, input of the plans."""
    registered = {row["broker_id"]: row for row in run.rows(BROKERS, (window,))}
    rooms = {
        broker_id: max(0, min(total - used for used, total in fillings.values()))  # a replica may come to any of them
        for broker_id, row in registered.items()
        if (fillings := dict(disk_fillings(row, run.cluster.disk_bytes)))
    }
    brokers = [
        PlacementBroker(
            broker_id=row["broker_id"],
            rack=registered.get(row["broker_id"], {}).get("rack"),
            capacity=row["capacity"],
            is_fenced=bool(registered.get(row["broker_id"], {}).get("is_fenced")),
            free_bytes=rooms.get(row["broker_id"]),
        )
        for row in sorted(run.rows(BROKER_SHARE, (window,)), key=lambda row: row["broker_id"])
    ]
    return place_partitions(run.rows(PARTITION_HEALTH, (window,)), run.rows(CLUSTER_STATE, (window,))), brokers


def _follows(row: Row) -> bool:
    excess = row["share"] - row["expected_share"]
    return row["remainder_term"] is not None and row["remainder_term"] > _FOLLOWING * excess


def place_partitions(loads: Sequence[Row], state: Sequence[Row]) -> list[PlacedPartition]:
    """Replicas of `bronze.cluster_state` beside what their partitions carried.

    `state`: rows of `bronze.cluster_state` of the same window.
    """
    carried = {(row["topic"], row["topic_id"], row["partition"]): row["size_bytes"] for row in loads}
    replicas: dict[tuple[str, str, int], list[Row]] = defaultdict(list)
    for row in state:
        if row["reassignment"] is None:
            replicas[row["topic"], row["topic_id"], row["partition"]].append(row)
    return [
        PlacedPartition(
            topic=key[0],
            partition=key[2],
            replicas=tuple(row["replica_id"] for row in rows),
            leader_id=rows[0]["leader_id"],
            in_sync=tuple(row["replica_id"] for row in rows if row["is_in_sync"] is not False),
            load_bytes=carried.get(key, 0),
            size_bytes=max((row["size_bytes"] or 0) for row in rows),
        )
        for key, unordered in sorted(replicas.items())
        for rows in [sorted(unordered, key=lambda row: row["replica_position"])]
    ]


def _effects(run: RunContext, window: TimeWindow, shares: Sequence[Row], loads: Sequence[Row]) -> list[CandidateEffect]:
    candidates = {candidate.name: candidate for candidate in run.config.candidates}
    topic_bytes: dict[str, int] = defaultdict(int)
    for row in loads:
        topic_bytes[row["topic"]] += row["size_bytes"]
    placed: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in run.rows(REPLAY_BROKERS, (window,)):
        if not row["is_baseline"] and row["candidate"] in candidates and row["share"] is not None:
            placed[row["candidate"], row["topic"]].append(row)
    compared = {(row["candidate"], row["topic"]): row for row in run.rows(SCENARIO_COMPARISON, (window,))}
    effects = []
    for (name, topic), rows in sorted(placed.items()):
        described = describe_candidate(candidates[name], topic, compared.get((name, topic), {}))
        if described is not None:
            title, cost, caveat = described
            ratios = predict_ratios(shares, rows, topic_bytes=topic_bytes[topic])
            effects.append(
                CandidateEffect(
                    action=f"replay:{name}",
                    topic=topic,
                    title=title,
                    cost=cost,
                    basis=f"The replay of the window's own traffic of {format_name(topic)} puts",
                    caveat=caveat,
                    ratios=ratios,
                    config_diff=format_config_diff(candidates[name], topic, title),
                    setting_count=len(list_settings(candidates[name])),
                )
            )
    return effects
