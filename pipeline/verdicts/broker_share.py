"""The broker share rule: loads of brokers, window by window, to verdicts, as docs/MEASURES.md says.

The mean of n windows has to be over the limit beyond chance because each window alone is compared with fair share: a
broker a little under its limit is above in many. A window in which it is not above is never a `fail`: what holds an
alarm through a short dip is the incident. Of the last n windows known, one without enough traffic counts as not above.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator

import numpy as np

from pipeline.config.rules import Gate
from pipeline.measures.chance import bound_chance, chance_p_value, chance_ratio, required_units_of_share, significant
from pipeline.model.verdict import BrokerLoad, BrokerLoads, Verdict, VerdictKind
from pipeline.rules import BROKER_SHARE

MEAN_LEVEL = 0.1
"""Chance that a broker at its limit has a mean ratio as large as the one that fails it, at most.

Chosen on 1,500 clusters of the law of `tests/lab/bench/false_alarm_bench.py` (seed 7): a third of the false alarms that k of n
alone makes, and every planted broker found that it finds; 0.05 finds fewer.
"""


def judge_broker_share(
    loads: Iterable[BrokerLoad], gate: Gate, *, window_ms: int, judged_from_ms: int | None = None
) -> tuple[Verdict, ...]:
    """Verdicts by window and broker, from one load each; what starts before `judged_from_ms` is history."""
    floor_bytes = gate.floor_bytes_per_s * window_ms / 1000
    windows: dict[int, list[BrokerLoad]] = defaultdict(list)
    for load in loads:
        windows[load.window_start_ms].append(load)
    recent: dict[int, deque[tuple[bool, BrokerLoad | None]]] = defaultdict(lambda: deque(maxlen=gate.n))
    verdicts = []
    for start_ms, window_loads in sorted(windows.items()):
        brokers = sorted(window_loads, key=lambda load: load.broker_id)
        for broker_id in recent.keys() - {load.broker_id for load in brokers}:
            recent[broker_id].append((False, None))
        for load, limit, too_little, is_above in _look_at(brokers, gate, floor_bytes):
            recent[load.broker_id].append((is_above, load))
            if judged_from_ms is not None and start_ms < judged_from_ms:
                continue
            kind: VerdictKind
            above_count = sum(was_above for was_above, _ in recent[load.broker_id])
            if too_little is not None:
                kind, reason = "not_enough_traffic", too_little
            elif is_above:
                known = [
                    each for _, each in recent[load.broker_id] if each is not None and each.share_ratio is not None
                ]
                kind, reason = _explain_above(load, limit, gate, above_count, known)
            else:
                kind, reason = _explain_not_above(load, limit, gate, floor_bytes)
            units = load.effective_unit_count
            verdicts.append(
                Verdict(
                    window_start_ms=start_ms,
                    rule=BROKER_SHARE,
                    subject=f"broker {load.broker_id}",
                    value=load.share_ratio,
                    limit_value=limit,
                    chance_value=chance_ratio(load.expected_share, units) if units and load.expected_share else None,
                    is_above=is_above,
                    above_count=above_count,
                    verdict=kind,
                    reason=reason,
                    k=gate.k,
                )
            )
    return tuple(verdicts)


def _look_at(
    brokers: BrokerLoads, gate: Gate, floor_bytes: float
) -> Iterator[tuple[BrokerLoad, float, str | None, bool]]:
    """Brokers of one window, each with its limit, why it cannot be judged (None if it can), and whether it is above."""
    total_bytes = sum(load.size_bytes for load in brokers)
    chances = [
        chance_p_value(load.share_ratio, load.expected_share, load.effective_unit_count)
        if load.share_ratio is not None and load.effective_unit_count
        else 1.0
        for load in brokers
    ]
    real = significant(chances, gate.chance_level)
    for load, is_real in zip(brokers, real.tolist(), strict=True):
        limit = gate.of_broker(load).limit_ratio
        too_little = _too_little(
            load, limit, gate, floor_bytes=floor_bytes, total_bytes=total_bytes, broker_count=len(brokers)
        )
        is_beyond = (load.share_ratio or 0.0) >= limit and load.size_bytes > floor_bytes
        is_above = too_little is None and is_real and is_beyond and not _is_excused(load, limit, gate)
        yield load, limit, too_little, is_above


def _too_little(
    load: BrokerLoad, limit: float, gate: Gate, *, floor_bytes: float, total_bytes: int, broker_count: int
) -> str | None:
    if not load.expected_share:
        return "out of the cluster throughout this window"
    if load.share_ratio is None or not load.effective_unit_count:
        return "no traffic in this window"
    if total_bytes <= floor_bytes:
        return f"the cluster's {total_bytes:,} bytes are not above the floor of {floor_bytes:,.0f}"
    required = required_units_of_share(load.expected_share, limit - 1, gate.chance_level, broker_count)
    # Above is judged against the fair share, not above against the limit: at most a false verdict per `chance_level`.
    is_beyond = load.share_ratio >= limit
    distance = load.expected_share * (load.share_ratio - 1 if is_beyond else limit - load.share_ratio)
    is_decided = bound_chance(distance, load.effective_unit_count) <= gate.chance_level / broker_count
    if load.effective_unit_count < required and not is_decided:
        return (
            f"{load.share_ratio:.2f} times its share, and {load.effective_unit_count:,.0f} independent batches are too few "
            f"to decide whether that is {limit - 1:.0%} above it or chance; {required:,.0f} always suffice"
        )
    return None


def _is_excused(load: BrokerLoad, limit: float, gate: Gate) -> bool:
    return gate.hash_luck == "warn" and load.is_hash_luck(limit)


def _explain_above(
    load: BrokerLoad, limit: float, gate: Gate, above_count: int, known: BrokerLoads
) -> tuple[VerdictKind, str]:
    """Verdict and reason of a broker that is above; `known` are its loads in the last n windows, this one included."""
    text = _describe_share(load)
    if load.is_hash_luck(limit):
        text += f", by hash luck (without it {load.ratio_without_luck:.2f})"
    text += f"; limit {_name_limit(load, limit, gate)}, above in {above_count} of the last {gate.n} windows"
    if above_count < gate.k:
        return "warn", f"{text}, {gate.k} make a failure"
    units = [each.effective_unit_count or 0.0 for each in known]
    mean = float(np.average([each.share_ratio or 0.0 for each in known], weights=units))
    if chance_p_value(mean, load.expected_share, sum(units), true_ratio=limit) > MEAN_LEVEL:
        return "warn", f"{text}, but their mean, {mean:.2f}, is not above it beyond chance"
    return "fail", text


def _explain_not_above(load: BrokerLoad, limit: float, gate: Gate, floor_bytes: float) -> tuple[VerdictKind, str]:
    ratio, text, shown = load.share_ratio or 0.0, _describe_share(load), _name_limit(load, limit, gate)
    if ratio < limit:
        return "ok", f"{text}; below the limit of {shown}"
    if load.size_bytes <= floor_bytes:
        return "ok", f"{text}, but its {load.size_bytes:,} bytes are not above the floor of {floor_bytes:,.0f}"
    if _is_excused(load, limit, gate):
        return "warn", (
            f"{text}, which hashing so many keys gives by chance (without it {load.ratio_without_luck:.2f}): real and "
            "lasting, but no defect; other keys or more partitions even it out"
        )
    return "ok", f"{text}, within what chance does to shares"


def _describe_share(load: BrokerLoad) -> str:
    ratio = load.share_ratio or 0.0
    return f"{load.share:.1%} of the bytes where {load.expected_share:.1%} is fair: {ratio:.2f} times its share"


def _name_limit(load: BrokerLoad, limit: float, gate: Gate) -> str:
    return f"{limit:.2f}" if limit == gate.limit_ratio else f"{limit:.2f} of topic {load.excess_topic}"
