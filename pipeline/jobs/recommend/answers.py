"""Reads how fast brokers answer, since when, and what else changed then."""

import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence

from pipeline.advice.slow_broker import BrokerAnswers
from pipeline.evidence.incident import KNOWN_LATENCY, ProduceLatency
from pipeline.measures.slow_brokers import is_slow
from pipeline.model.number_text import format_percent
from pipeline.model.window import TimeWindow
from pipeline.runs import RunContext
from pipeline.tables.broker_metrics import BROKER_METRICS, BROKER_REQUEST_TIMES
from pipeline.tables.gold import BROKER_SHARE, LATENCY, PARTITION_HEALTH

_LOOK_BACK = 24  # windows, as far back as `gold.latency` itself compares
_OTHER_VOLUME = 0.25  # a change of the bytes produced that is worth a word


def read_answers(run: RunContext, window: TimeWindow, broker_ids: Sequence[int]) -> dict[int, BrokerAnswers]:
    """Reads how fast these brokers answered in a window; without those whose latency nobody reports."""
    first_ms = max(0, window.start_ms - _LOOK_BACK * run.window_ms)
    reach = (TimeWindow(first_ms, window.end_ms),)
    by_broker: dict[int, dict[int, ProduceLatency]] = defaultdict(dict)
    for one in run.values(ProduceLatency, LATENCY, reach, where=KNOWN_LATENCY):
        by_broker[one.broker_id][one.window_start_ms] = one
    # mean time of Produce requests by broker and stage; the median where the exporter drops the mean
    stages: dict[int, dict[str, float]] = defaultdict(dict)
    times = run.tuples(BROKER_REQUEST_TIMES, (window,), "broker_id", "stage", "time_mean_ms", "time_p50_ms")
    for broker_id, stage, mean_ms, median_ms in times:
        time_ms = median_ms if mean_ms is None else mean_ms
        if broker_id is not None and time_ms is not None:
            stages[broker_id][stage] = time_ms
    idle = _read_idle(run, window)
    answers = {}
    for broker_id in broker_ids:
        own = by_broker.get(broker_id, {}).get(window.start_ms)
        if own is None:
            continue
        since_ms, before_ms = find_beginning(by_broker[broker_id])
        others: dict[str, list[float]] = defaultdict(list)
        for other, spent in stages.items():
            if other != broker_id:
                for stage, ms in spent.items():
                    others[stage].append(ms)
        answers[broker_id] = BrokerAnswers(
            latency_avg_ms=own.request_latency_avg_ms,
            ratio_to_peers=own.ratio_to_peers,
            latency_max_ms=own.request_latency_max_ms,
            since_ms=since_ms,
            is_since_first=since_ms is not None and before_ms is None,
            stages_ms=stages.get(broker_id, {}),
            peer_stages_ms={stage: statistics.median(found) for stage, found in others.items()},
            idle_ratios=idle.get(broker_id, {}),
            changes=() if since_ms is None or before_ms is None else _find_changes(run, before_ms, since_ms),
        )
    return answers


def find_beginning(latencies: Mapping[int, ProduceLatency]) -> tuple[int | None, int | None]:
    """The first window of those up to the newest in which a broker was slow, and the one before it; None for none."""
    since_ms = None
    for start_ms in sorted(latencies, reverse=True):
        if not is_slow(latencies[start_ms].request_latency_avg_ms, latencies[start_ms].ratio_to_peers):
            return since_ms, start_ms
        since_ms = start_ms
    return since_ms, None


def _read_idle(run: RunContext, window: TimeWindow) -> dict[int, dict[str, float]]:
    """How idle a broker's threads were; the least, where several sources report it."""
    idle: dict[int, dict[str, float]] = defaultdict(dict)
    names = {"request_handler_idle_ratio": "request handlers", "network_processor_idle_ratio": "network threads"}
    for broker_id, *ratios in run.tuples(BROKER_METRICS, (window,), "broker_id", *names):
        for name, ratio in zip(names.values(), ratios, strict=True):
            if broker_id is not None and ratio is not None:
                idle[broker_id][name] = min(ratio, idle[broker_id].get(name, 1.0))
    return idle


def _find_changes(run: RunContext, before_ms: int, since_ms: int) -> tuple[str, ...]:
    before, since = run.window_at(before_ms), run.window_at(since_ms)
    columns = ("topic", "partition", "leader_id")
    shares = [dict(run.tuples(BROKER_SHARE, (window,), "broker_id", "size_bytes")) for window in (before, since)]
    leaders = [
        {(topic, number): leader_id for topic, number, leader_id in run.tuples(PARTITION_HEALTH, (window,), *columns)}
        for window in (before, since)
    ]
    reasons = [f"broker {broker_id} was gone" for broker_id in sorted(shares[0].keys() - shares[1].keys())]
    reasons += [f"broker {broker_id} was new" for broker_id in sorted(shares[1].keys() - shares[0].keys())]
    moved = sum(leaders[1].get(place, leader) != leader for place, leader in leaders[0].items())
    if moved:
        reasons.append(f"leaders of {moved} partition{'' if moved == 1 else 's'} changed")
    sizes = [sum(of_broker.values()) for of_broker in shares]
    if sizes[0] and abs(sizes[1] / sizes[0] - 1) > _OTHER_VOLUME:
        change = sizes[1] / sizes[0] - 1
        reasons.append(f"{format_percent(abs(change))} {'more' if change > 0 else 'fewer'} bytes were produced")
    return tuple(reasons)
