"""Partitioner and settings of a producer session for a topic: configured, or inferred from its batches."""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from pipeline.calibration.caveats import Caveat, Origin, Statement
from pipeline.calibration.limits import HALF, LEAST_SAMPLE, MOST_STRAY
from pipeline.calibration.partitioner import clients
from pipeline.calibration.partitioner.keyless_bins import LENGTH_BYTES, collect_bins, follows_keys
from pipeline.calibration.partitioner.settings import (
    DEFAULT_BATCH_BYTES,
    Setting,
    bound_batch_bytes,
    bound_linger_ms,
    estimate_ratio,
    infer_settings,
    measure_next,
)
from pipeline.calibration.partitioner.switch_rules import RuleEvidence, SwitchRule, weigh_rules
from pipeline.calibration.session_traffic import CREATE_TIME, NO_KEY, SessionBatches, SessionTraffic
from pipeline.measures.chance import CHANCE_LEVEL
from pipeline.partitioners.clients.java import IGNORES_KEYS, RACK_AWARE
from pipeline.partitioners.registry import find_strategy
from pipeline.partitioners.strategy import choose_partition
from pipeline.simulator.clients.client import ANY_RACK
from pipeline.simulator.clients.producer_configs import JAVA


@dataclass(frozen=True)
class Baseline:
    """Partitioner and settings of a session for a topic."""

    strategy: str | None  # name in `pipeline.partitioners`; None where it is not known
    # as `resolve_producer` takes it, like `version`, which stands for the range; "" where none is simulated
    client: str
    version: str
    version_range: str
    settings: Mapping[str, Setting]  # by the client's own names
    confidence: float  # that the strategy is the one, 0 to 1
    runner_up: str  # the next best strategy, or ""
    source: Origin  # `CONFIGURED`, `INFERRED` or `NONE`
    reason: str
    assumptions: tuple[Statement, ...] = ()  # what the data leave open or contradict
    is_told: bool = False  # its client tells the version

    @property
    def config(self) -> dict[str, str]:
        """Settings that differ from the client's defaults, as `resolve_producer` takes them."""
        return {name: setting.value for name, setting in self.settings.items() if setting.source != Origin.DEFAULT}


@dataclass(frozen=True, kw_only=True)
class _Evidence:
    linger: clients.Bounds
    batch_bytes: clients.Bounds
    order: RuleEvidence | None
    notes: tuple[Statement, ...]
    reason: str = ""
    choice: clients.ClientChoice | None = None
    rule: SwitchRule | None = None
    confidence: float = 0.0
    runner_up: str = ""
    client_rack: str = ""  # of a rack-aware producer


def identify_baseline(
    traffic: SessionTraffic,
    batches: SessionBatches,
    partition_count: int,
    *,
    key_family: str | None = None,
    configured: str | None = None,
    racks: Mapping[int, str] | None = None,
) -> Baseline:
    """Identifies the partitioner and the settings in use, from a session's records and batches in a topic and window.

    `partition_count` is of partitions with a leader; `key_family` the verdict about the topic's keys, of which anything but
    a family's name is no family. A simulated strategy that is `configured` wins; what the data have against it is noted.
    `racks` are those of the leaders, by partition that has one: see `find_client_rack`.
    """
    evidence = _read_racks(traffic, batches, partition_count, key_family, racks or {})
    if configured is not None:
        # the version is the data's or the usual one
        choice, rule = evidence.choice, clients.rule_of(configured)
        if choice is None or choice.strategy != configured:
            choice = clients.find_choice(configured) or clients.assume_client(configured)
        notes = evidence.notes
        ranked = evidence.order.rank() if evidence.order and evidence.rule else {}
        if rule and rule is not evidence.rule and ranked and ranked.get(rule, 0.0) < CHANCE_LEVEL:
            notes = (*notes, Caveat.OTHER_STRATEGY.say(strategy=configured, reason=evidence.reason))
        evidence = replace(evidence, choice=choice, confidence=1.0, runner_up="", notes=notes)
    choice = evidence.choice
    if choice is None:
        return Baseline(None, "", "", "", {}, 0.0, "", Origin.NONE, evidence.reason, evidence.notes)
    bounds = {"linger": evidence.linger, "batch_bytes": evidence.batch_bytes}
    return Baseline(
        strategy=choice.strategy,
        client=choice.client,
        version=choice.version,
        version_range=choice.version_range,
        settings=infer_settings(choice, traffic, batches, **bounds, rule=evidence.rule, evidence=evidence.order)
        | _infer_rack(choice, evidence.client_rack),
        confidence=evidence.confidence,
        runner_up=evidence.runner_up,
        source=Origin.INFERRED if configured is None else Origin.CONFIGURED,
        reason=evidence.reason,
        assumptions=evidence.notes,
    )


def _infer_rack(choice: clients.ClientChoice, client_rack: str) -> dict[str, Setting]:
    if client_rack:
        rack = Setting(client_rack, Origin.INFERRED)
    elif choice.strategy == RACK_AWARE:  # configured
        rack = Setting(ANY_RACK, Origin.UNKNOWN)
    else:
        return {}
    return {"partitioner.rack.aware": Setting("true", rack.source), "client.rack": rack}


def _read_racks(
    traffic: SessionTraffic,
    batches: SessionBatches,
    partition_count: int,
    key_family: str | None,
    racks: Mapping[int, str],
) -> _Evidence:
    """What the data say of a producer that knows racks, where it keeps to one; else of one that knows none."""
    client_rack = find_client_rack(traffic, batches, racks)
    aware = clients.find_choice(RACK_AWARE)
    if client_rack and aware:
        count = sum(rack == client_rack for rack in racks.values())
        evidence = _read_data(traffic, batches, count, key_family)
        where = f"all its partitions are led in rack {client_rack}, {count} of {len(racks)}"
        is_like = evidence.rule is SwitchRule.BYTES and evidence.choice is not None and evidence.choice.client == JAVA
        if is_like and evidence.choice:
            strategy = evidence.choice.strategy if evidence.choice.strategy == IGNORES_KEYS else RACK_AWARE
            choice = replace(aware, strategy=strategy)
            return replace(evidence, choice=choice, reason=f"{evidence.reason}; {where}", client_rack=client_rack)
        if count == 1 and _is_free_of_keys(traffic, racks, client_rack, key_family):
            return replace(evidence, choice=aware, confidence=HALF, reason=where, client_rack=client_rack)
    return _read_data(traffic, batches, partition_count, key_family)


def _read_data(
    traffic: SessionTraffic, batches: SessionBatches, partition_count: int, key_family: str | None
) -> _Evidence:
    is_keyed, is_idempotent = traffic.is_keyed, not traffic.is_pooled
    ignores_keys = bool(is_keyed.any()) and not clients.list_strategies(key_family)
    record_bytes = float(np.quantile(traffic.body_bytes, 1 - MOST_STRAY)) + LENGTH_BYTES if len(traffic) else 0.0
    batch_bytes = bound_batch_bytes(batches, measure_next(traffic, batches, record_bytes))
    full_bytes = (batch_bytes.value or batch_bytes.low + record_bytes + 1) - record_bytes
    keyless = replace(traffic, key_index=np.full(len(traffic), NO_KEY, np.int32)) if ignores_keys else traffic
    order = _weigh(keyless, batches, partition_count, batch_bytes)
    ranked = order.rank() if order else {}
    rule = next(iter(ranked)) if order and order.event_count >= LEAST_SAMPLE else None
    refuted = order.refuted.get(rule, "") if order and rule else ""
    rule = None if refuted else rule
    sticks = rule in {SwitchRule.BATCH, SwitchRule.BYTES} and not is_keyed.any()
    linger = bound_linger_ms(batches, traffic, sticks=sticks, full_bytes=full_bytes)
    notes = []
    if traffic.is_pooled:
        notes.append(Caveat.SESSIONS_POOLED.say())
    if traffic.timestamp_type != CREATE_TIME:
        notes.append(Caveat.TIMES_OF_APPEND.say())
    evidence = _Evidence(linger=linger, batch_bytes=batch_bytes, order=order, notes=tuple(notes), reason=refuted)
    if ignores_keys and follows_keys(traffic):
        return replace(evidence, reason="each key has its partition, by no hash that is known")
    if rule is None or order is None:
        return _judge_keys(evidence, key_family, partition_count, is_idempotent=is_idempotent)
    facts = {"is_idempotent": is_idempotent, "ignores_keys": ignores_keys}
    choice = clients.choose_client(rule, key_family, linger, **facts)
    # believed wholly while hardly anything breaks it, and not at all where half does
    fit = (HALF - order.broken_ratio[rule]) / (HALF - MOST_STRAY)
    confidence = ranked[rule] * min(1.0, max(0.0, fit))
    if alike := clients.list_alike(rule):
        notes.append(Caveat.CLIENTS_ALIKE.say(clients=", ".join(alike)))
    second = list(ranked)[1]
    runner_up = clients.choose_client(second, key_family, linger, **facts).strategy
    if (
        rule is SwitchRule.BATCH and not is_idempotent
    ):  # of Java's clients those of 2.4 to 3.1: it may be what no rule describes
        confidence *= HALF
    if choice.strategy == "java-builtin":
        confidence *= HALF
        runner_up = "java-builtin-uniform" if ranked[second] < confidence else runner_up
    return replace(
        evidence,
        choice=choice,
        rule=rule,
        confidence=confidence,
        runner_up=runner_up,
        reason=_explain(order, rule),
        notes=tuple(notes),
    )


def _judge_keys(evidence: _Evidence, key_family: str | None, partition_count: int, *, is_idempotent: bool) -> _Evidence:
    """What keys alone say, where the order of batches says nothing."""
    choice = clients.choose_for_keys(key_family, evidence.linger, is_idempotent=is_idempotent)
    if choice is None:
        silence = "no record without a key, and no known hash explains the keys"
        if partition_count < 2:
            silence = "one partition: every partitioner does the same"
        elif evidence.order is not None:
            silence = f"{evidence.order.event_count} batches after another; expected {LEAST_SAMPLE} or more"
        return replace(evidence, reason=evidence.reason or silence)
    notes = (*evidence.notes, Caveat.JAVA_ALIKE.say()) if choice.client == JAVA else evidence.notes
    runner_up = "java-sticky-2.4" if choice.strategy == "java-builtin" else ""
    reason = f"keys placed by {key_family}"
    return replace(evidence, choice=choice, confidence=HALF, runner_up=runner_up, reason=reason, notes=notes)


def _weigh(
    traffic: SessionTraffic, batches: SessionBatches, partition_count: int, batch_bytes: clients.Bounds
) -> RuleEvidence | None:
    if partition_count < 2 or not len(batches) or traffic.is_keyed.all():
        return None
    bins = collect_bins(traffic, batches, byte_ratio=estimate_ratio(traffic, batches))
    tried = [int(batch_bytes.value)] if batch_bytes.value else []
    return weigh_rules(bins, partition_count, batch_bytes=tried, least_bytes=int(batch_bytes.low))


def _explain(order: RuleEvidence, rule: SwitchRule) -> str:
    limit = {
        SwitchRule.BYTES: f", from {order.limit_bytes} bytes on",
        SwitchRule.TIME: f", after {order.limit_ms} ms",
    }.get(rule, "")
    return (
        f"partitions change {rule.value}{limit}: {order.broken_ratio[rule]:.1%} of {order.event_count} batches"
        f" say otherwise; {order.stay_ratio:.1%} were opened on the partition of the one before"
    )


def find_client_rack(traffic: SessionTraffic, batches: SessionBatches, racks: Mapping[int, str]) -> str:
    """The rack that leads all partitions the keyless records lie in, where chance would hardly do that; else "".

    `racks` are those of the leaders by partition, "" of a broker without one; partitions without a leader are left out.
    A change of partition is a draw; where a rack leads one partition, so are twice the bytes of a full batch.
    """
    keyless = ~traffic.is_keyed
    used = np.unique(traffic.partition[keyless]).tolist()
    racks_used = {racks.get(partition, "") for partition in used}
    led = Counter(racks.values())
    if len(racks_used) != 1 or "" in racks_used or len(led) < 2:
        return ""
    [rack] = racks_used
    in_order = batches.partition[np.argsort(batches.base_ms, kind="stable")]
    draws = int((np.diff(in_order[np.isin(in_order, used)]) != 0).sum())
    if led[rack] == 1:
        run_bytes = 2 * max(DEFAULT_BATCH_BYTES, int(batches.size_bytes.max(initial=0)))
        draws = int(traffic.body_bytes[keyless].sum(dtype="int64")) // run_bytes
    return rack if draws * math.log(len(racks) / led[rack]) > -math.log(CHANCE_LEVEL) else ""


def _is_free_of_keys(
    traffic: SessionTraffic, racks: Mapping[int, str], client_rack: str, key_family: str | None
) -> bool:
    """Whether keys allow a rack that leads one partition: there are none, or Java's hash puts no missing key there."""
    if not traffic.is_keyed.any():
        return True
    [own] = (partition for partition, rack in racks.items() if rack == client_rack)
    hashed = find_strategy(RACK_AWARE)
    return hashed.name in clients.list_strategies(key_family) and choose_partition(hashed, b"", len(racks)) != own
