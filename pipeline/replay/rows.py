"""The rows of the replay's tables, without cluster and run: made here, once, from values."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from pipeline.calibration.caveats import Origin
from pipeline.calibration.partitioner.baseline import Baseline
from pipeline.calibration.partitioner.settings import Setting
from pipeline.calibration.service.model import Parameter, ServiceModel, mean_of
from pipeline.model.window import NS_PER_MS, instant_of
from pipeline.replay.back_tests import back_test
from pipeline.replay.comparison import SHORT_ID, comparison_row
from pipeline.replay.keyed.plan import FAMILIES
from pipeline.replay.keyed.sums import RECORDS
from pipeline.replay.keyed.topics import AS_RECORDED, KeyedOutcome, KeyedTopic
from pipeline.replay.loads import UNKNOWN, Estimate, count_seeds
from pipeline.replay.metrics import MetricsBySession
from pipeline.replay.recorded import ProducerSession, TopicWindow
from pipeline.replay.simulated.runs import CELL_BATCHES, CELL_BYTES, CELL_LOG_BYTES, CELL_RECORDS
from pipeline.replay.simulated.topics import SimulatedTopic
from pipeline.replay.topics import CandidateOutcome, ReplayedTopic, TopicInput
from pipeline.simulator.scenario.measured import MEASURED_SERVICE
from pipeline.tables import Table
from pipeline.tables.replay import BACK_TESTS, HASH_VERDICTS, REPLAY_BROKERS, REPLAY_RESULTS, SCENARIO_COMPARISON
from pipeline.tables.silver import PRODUCER_SESSIONS, SERVICE_MODELS

Row = dict[str, Any]

_STRATEGIES = {family.name: family.strategies for family in FAMILIES}
TABLES = (
    *(PRODUCER_SESSIONS, SERVICE_MODELS, HASH_VERDICTS),
    *(REPLAY_RESULTS, REPLAY_BROKERS, SCENARIO_COMPARISON, BACK_TESTS),
)
"""The replay's tables."""


def list_rows(topic: TopicInput, replayed: ReplayedTopic, definitions: Mapping[str, str]) -> dict[Table, list[Row]]:
    """The rows of a topic in a window, by table; service models of a producer go with the first of its topics."""
    where = _name(topic.where)
    tested = back_test(
        replayed.recorded, replayed.outcomes[0].runs, replayed.sessions, replayed.latency_avg_ms, replayed.concerns
    )
    rows: dict[Table, list[Row]] = {
        PRODUCER_SESSIONS: [session_row(session) for session in topic.sessions],
        SERVICE_MODELS: list(service_rows(topic.first_metrics)),
        HASH_VERDICTS: [{**where, **_verdict_row(topic.keyed)}] if topic.keyed else [],
        BACK_TESTS: [{**where, **tested}],
        **{table: [] for table in (REPLAY_RESULTS, REPLAY_BROKERS, SCENARIO_COMPARISON)},
    }
    for outcome in replayed.outcomes:
        named = {**where, "candidate": outcome.name, "is_baseline": outcome.is_baseline}
        definition = {"definition": definitions.get(outcome.name)}
        rows[SCENARIO_COMPARISON].append({**named, **definition, **comparison_row(replayed, outcome, tested)})
        rows[REPLAY_RESULTS] += [{**named, **row} for row in partition_rows(replayed, outcome)]
        rows[REPLAY_BROKERS] += [{**named, **row} for row in broker_rows(replayed, outcome)]
    return rows


def _name(where: TopicWindow) -> Row:
    start_ms, topic, topic_id = where
    return {"window_start": instant_of(start_ms), "topic": topic, "topic_id": topic_id}


def session_row(session: ProducerSession) -> Row:
    """The row of `silver.producer_sessions`."""
    return {
        **_name(session.topic_window),
        "producer_id": session.producer_id,
        "producer_epoch": session.producer_epoch,
        "record_count": session.record_count,
        "keyless_record_count": session.keyless_count,
        "batch_count": session.batch_count,
        "traffic_pattern": session.pattern,
        "client_id": session.client_id,
        "zone": session.zone or None,
        "zone_source": session.zone_source,
        **baseline_columns(session.baseline),
    }


def service_rows(metrics: MetricsBySession) -> Iterator[Row]:
    """Rows of `silver.service_models`."""
    for (start_ms, producer_id, epoch, topic, topic_id), each in metrics.items():
        session = {"producer_id": producer_id, "producer_epoch": epoch, "client_id": each.client_id}
        for model in each.models.values():
            yield {**_name((start_ms, topic, topic_id)), **session, **_service_columns(model)}


def _verdict_row(topic: KeyedTopic) -> Row:
    verdict, judged = topic.verdict, topic.judged
    return {
        "partition_count": topic.partition_count,
        "verdict": verdict.verdict,
        "strategies": ", ".join(_STRATEGIES.get(verdict.best, ())),
        "tied_with": ", ".join(verdict.tied_with) if verdict.best else "",
        "explained_ratio": verdict.explained_ratio,
        "chance_ratio": verdict.chance_ratio,
        "chance_p_value": verdict.chance_p_value,
        "key_count": judged.key_count,
        "record_count": judged.record_count,
        "unjudged_record_count": int(topic.recorded[:, RECORDS].sum()) - judged.record_count,
        "explained_key_counts": {family: part.key_count for family, part in topic.explained.items()},
        "explained_record_counts": {family: part.record_count for family, part in topic.explained.items()},
        "reason": verdict.reason,
    }


def _assigned_keys(topic: ReplayedTopic, outcome: CandidateOutcome) -> tuple[KeyedTopic, KeyedOutcome] | None:
    if topic.keyed is None or outcome.keys is None or outcome.keys.strategy is None:
        return None
    return topic.keyed, outcome.keys


def partition_rows(topic: ReplayedTopic, outcome: CandidateOutcome) -> Iterator[Row]:
    """Rows of `gold.replay_results`; nothing where neither keys nor a simulation say where records go."""
    recorded, runs, keys = topic.recorded, outcome.placing_runs, _assigned_keys(topic, outcome)
    source: SimulatedTopic | KeyedOutcome
    if runs is not None:
        source, partitioner = runs, outcome.partitioner
        was = np.stack([recorded.records, recorded.sizes], axis=1)
    elif keys is not None:
        source, partitioner, was = keys[1], keys[1].strategy, keys[0].recorded
    else:
        return
    count, led = source.partition_count, max(recorded.leaders, default=-1) + 1
    all_count = max(count, len(was))
    batches = list(_batch_columns(outcome.runs, all_count)) if outcome.runs else ()
    for partition in range(all_count):
        number = partition if partition < count else None
        records, size_bytes = was[partition].tolist() if partition < len(was) else (0, 0)
        yield {
            "partition": partition,
            "partitioner": partitioner or AS_RECORDED,
            "partition_count": count,
            "seed_count": len(runs.runs) if runs else 1,
            "leader_id": recorded.leaders.get(partition, -1) if count >= led else -1,
            **source.records.columns("record_count", number),
            **source.sizes.columns("size_bytes", number),
            "recorded_record_count": records,
            "recorded_size_bytes": size_bytes,
            **(_key_columns(*keys, partition) if keys else {"key_count": None}),
            **(batches[partition] if batches else {}),
        }


def _key_columns(topic: KeyedTopic, keys: KeyedOutcome, partition: int) -> Row:
    number = keys.assignment
    own = (key for key in topic.sums.top_keys if number is not None and key.partitions[number] == partition)
    top = next(own, None)
    return {
        "key_count": int(keys.key_counts[partition]) if partition < keys.partition_count else 0,
        **({"top_key": top.key_id[:SHORT_ID], "top_key_size_bytes": top.size_bytes} if top else {}),
    }


def _batch_columns(runs: SimulatedTopic, count: int) -> Iterator[Row]:
    """By partition, so many: columns of `gold.replay_results` that only a simulation gives."""
    recorded, shares = runs.recorded, runs.shares(CELL_LOG_BYTES, of_brokers=False)
    counts = [count_seeds(column) for column in runs.cells(CELL_BATCHES).T.tolist()]
    for partition in range(count):
        is_there, was_there = partition < runs.partition_count, partition < recorded.partition_count
        yield {
            **(counts[partition].columns("batch_count") if is_there else {}),
            **runs.log_sizes.columns("log_size_bytes", partition if is_there else None),
            **(shares[partition].columns("log_share") if is_there else {}),
            "recorded_batch_count": int(recorded.batches[partition]) if was_there else 0,
            "recorded_log_size_bytes": int(recorded.log_sizes[partition]) if was_there else 0,
        }


def broker_rows(topic: ReplayedTopic, outcome: CandidateOutcome) -> Iterator[Row]:
    """Rows of `gold.replay_brokers`; nothing where neither keys nor a simulation say where records go."""
    recorded, runs, keys = topic.recorded, outcome.placing_runs, _assigned_keys(topic, outcome)
    if runs is not None:
        # leaderless partitions have no broker: then brokers hold less than was recorded
        is_led = all(leader >= 0 for leader in recorded.leaders.values())
        was = recorded.records, recorded.sizes
        placed = ((CELL_RECORDS, runs.records), (CELL_BYTES, runs.sizes))
        loads = [runs.by_broker(column, int(of.median.sum()) if is_led else None) for column, of in placed]
        broker_ids, shares = runs.broker_ids, runs.shares(CELL_BYTES, of_brokers=True)
        is_drawn = runs.partition_count != recorded.partition_count
    elif keys is not None:
        drawn, was = recorded.draw_leaders(keys[1].partition_count), tuple(keys[0].recorded.T)
        loads = [drawn.sum_by_broker(part) for part in (keys[1].records, keys[1].sizes)]
        broker_ids, size_bytes = drawn.broker_ids, int(keys[1].sizes.median.sum())
        ends = np.stack([loads[1].median, loads[1].low, loads[1].high], axis=1) / max(1, size_bytes)
        shares = [Estimate(*end) if size_bytes else UNKNOWN for end in ends.tolist()]
        is_drawn = drawn.is_drawn
    else:
        return
    total = int(was[1].sum())
    batches = _batch_columns_by_broker(outcome.runs) if outcome.runs else {}
    for number, broker_id in enumerate(broker_ids):
        led = [partition for partition, leader in recorded.leaders.items() if leader == broker_id]
        led_records, led_bytes = (int(part[led].sum()) for part in was)
        yield {
            "broker_id": broker_id,
            "placement": "drawn" if is_drawn else "known",
            **loads[0].columns("record_count", number),
            **loads[1].columns("size_bytes", number),
            "recorded_record_count": led_records,
            "recorded_size_bytes": led_bytes,
            **shares[number].columns("share"),
            "recorded_share": led_bytes / total if total else None,
            **batches.get(broker_id, {}),
        }


def _batch_columns_by_broker(runs: SimulatedTopic) -> dict[int, Row]:
    batches, log_sizes = runs.by_broker(CELL_BATCHES), runs.by_broker(CELL_LOG_BYTES)
    log_shares, was = runs.shares(CELL_LOG_BYTES, of_brokers=True), runs.recorded.broker_log_sizes
    total = sum(was.values())
    return {
        broker_id: {
            **batches.columns("batch_count", number),
            **log_sizes.columns("log_size_bytes", number),
            **log_shares[number].columns("log_share"),
            "recorded_log_size_bytes": was.get(broker_id, 0),
            "recorded_log_share": was.get(broker_id, 0) / total if total else None,
        }
        for number, broker_id in enumerate(runs.broker_ids)
    }


def baseline_columns(baseline: Baseline) -> dict[str, Any]:
    """The last columns of a row of `silver.producer_sessions`."""
    return {
        "strategy": baseline.strategy,
        "source": baseline.source,
        "confidence": baseline.confidence,
        "runner_up": baseline.runner_up,
        "client": baseline.client,
        "client_version": baseline.version,
        "version_range": baseline.version_range,
        "settings": {name: setting.value for name, setting in sorted(baseline.settings.items())},
        "setting_sources": {name: _format_source(setting) for name, setting in sorted(baseline.settings.items())},
        "reason": baseline.reason,
        "assumptions": "; ".join(caveat.text for caveat in baseline.assumptions),
    }


def _format_source(setting: Setting) -> str:
    if setting.low is None:
        return setting.source
    bounds = f"{setting.low:g} or more" if setting.high is None else f"{setting.low:g} to {setting.high:g}"
    return f"{setting.source}, {bounds}"


def _service_columns(model: ServiceModel) -> Row:
    """A row of `silver.service_models` without the session."""
    times_ns = {
        "request": mean_of(MEASURED_SERVICE.request_ns),
        "partition": MEASURED_SERVICE.partition_ns,
        "kib": MEASURED_SERVICE.kib_ns,
    }
    # measured elsewhere: how far off they are is not known
    parts = {name: Parameter(ns / NS_PER_MS, 0.0, math.inf, Origin.ASSUMED) for name, ns in times_ns.items()}
    row: Row = {"broker_id": model.broker_id}
    for name, parameter in {**parts, "delay": model.delay_ms}.items():
        row[f"{name}_ms"] = parameter.value
        row[f"{name}_low_ms"] = parameter.low
        row[f"{name}_high_ms"] = parameter.high if math.isfinite(parameter.high) else None
        row[f"{name}_source"] = parameter.source
    return row | {
        "delay_starts_ms": [at_ms for at_ms, _ in model.delay_series],
        "delays_us": [round(delay_ms * 1000) for _, delay_ms in model.delay_series],
        "is_identifiable": model.is_identifiable,
        "assumptions": "; ".join(caveat.text for caveat in model.assumptions),
    }
