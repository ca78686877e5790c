"""What partitioner and settings a producer session used for a topic: configured, or read from its batches."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from pipeline.calibration.batching import (
    Bounds,
    bound_batch_bytes,
    bound_linger_ms,
)
from pipeline.calibration.cells import collect_cells, follows_keys, without_keys
from pipeline.calibration.in_use import (
    Choice,
    choose_for_keys,
    choose_in_use,
    client_of,
    find_choice,
    list_strategies,
    rule_of,
)
from pipeline.calibration.rules import Rule, RuleEvidence, weigh_rules
from pipeline.calibration.session_traffic import CREATE_TIME
from pipeline.calibration.settings import CONFIGURED, DEFAULT, INFERRED, Setting, infer_settings, measure_compression
from pipeline.simulator.clients.client import MS, Compression
from pipeline.simulator.clients.producer_configs import JAVA, LIBRDKAFKA
from pipeline.simulator.clients.producer_settings import resolve_producer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pipeline.calibration.batches import SessionBatches
    from pipeline.calibration.session_traffic import SessionTraffic

UNKNOWN = "none"
"""In place of a source: nothing tells."""
LEAST_EVENTS = 12
_SURE = 0.99
_UNSEEN_VARIANT = 0.9
"""How likely a setting that leaves no trace is at its default."""
_FITS, _FITS_NOT = 0.05, 0.3
_LENGTH_BYTES = 2


@dataclass(frozen=True)
class Configured:
    """What the configuration or a metrics source says of a producer.

    Attributes:
        strategy: Name in `pipeline.partitioners`, or None.
        client: `kafka-clients`, `librdkafka`, or None.
        version: Or None.
        config: By the client's own names.
    """

    strategy: str | None = None
    client: str | None = None
    version: str | None = None
    config: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Baseline:
    """What a session used for a topic.

    Attributes:
        strategy: Name in `pipeline.partitioners`; None where nothing tells.
        client: As `resolve_producer` takes it; "" where the simulator has no such client.
        version: The same; it stands for the range.
        version_range: In words.
        settings: By the client's own names.
        confidence: That the strategy is the one, 0 to 1.
        runner_up: The next best strategy, or "".
        source: `configured`, `inferred` or `none`.
        reason: In words.
        assumptions: What the data cannot tell or contradicts, in sentences.
    """

    strategy: str | None
    client: str
    version: str
    version_range: str
    settings: Mapping[str, Setting]
    confidence: float
    runner_up: str
    source: str
    reason: str
    assumptions: tuple[str, ...] = ()

    @property
    def config(self) -> dict[str, str]:
        """What differs from the client's defaults, as `resolve_producer` takes it."""
        return {name: setting.value for name, setting in self.settings.items() if setting.source != DEFAULT}


@dataclass(frozen=True)
class _Findings:
    """What the data says."""

    choice: Choice | None
    rule: Rule | None
    confidence: float
    runner_up: str
    reason: str
    evidence: RuleEvidence | None
    linger: Bounds
    batch_bytes: Bounds
    notes: tuple[str, ...]
    chances: Mapping[Rule, float] = field(default_factory=dict)


def identify_baseline(
    traffic: SessionTraffic,
    batches: SessionBatches,
    partition_count: int,
    *,
    key_family: str | None = None,
    configured: Configured | None = None,
) -> Baseline:
    """Tells the partitioner and the settings in use.

    Args:
        traffic: The session's records in a topic and window.
        batches: And its batches.
        partition_count: Partitions of the topic with a leader.
        key_family: The verdict about the topic's keys: a family's name; anything else is no family.
        configured: What is known otherwise; it wins, and what the data has against it is said.
    """
    found = _read_data(traffic, batches, partition_count, key_family)
    configured = configured or Configured()
    is_known = configured.strategy is not None or configured.version is not None
    choice = _choose_configured(found, configured) if is_known else found.choice
    notes = [*found.notes, *(_list_contradictions(found, configured, choice) if is_known else ())]
    if choice is None:
        return Baseline(None, "", "", "", {}, 0.0, "", UNKNOWN, found.reason, tuple(notes))
    settings = infer_settings(
        choice,
        traffic,
        batches,
        linger=found.linger,
        batch_bytes=found.batch_bytes,
        rule=found.rule,
        evidence=found.evidence,
    )
    settings |= {name: Setting(value, CONFIGURED) for name, value in configured.config.items()}
    return Baseline(
        strategy=choice.strategy,
        client=choice.client,
        version=choice.version,
        version_range=choice.version_range,
        settings=settings,
        confidence=1.0 if is_known else found.confidence,
        runner_up="" if is_known else found.runner_up,
        source=CONFIGURED if is_known else INFERRED,
        reason=found.reason,
        assumptions=tuple(notes),
    )


def _read_data(
    traffic: SessionTraffic, batches: SessionBatches, partition_count: int, key_family: str | None
) -> _Findings:
    has_hash = bool(list_strategies(key_family))
    keyed = traffic.is_keyed
    ignores_keys = bool(keyed.any()) and not has_hash
    followed = traffic if not ignores_keys else without_keys(traffic)
    record_bytes = float(np.quantile(traffic.body_bytes, 0.95)) + _LENGTH_BYTES if len(traffic) else 0.0
    batch_bytes = bound_batch_bytes(batches, record_bytes)
    full_bytes = (batch_bytes.value or batch_bytes.low + record_bytes + 1) - record_bytes
    evidence = _weigh(followed, batches, partition_count, batch_bytes)
    ranked = evidence.rank(is_idempotent=not traffic.is_pooled) if evidence else {}
    rule = next(iter(ranked)) if evidence and evidence.event_count >= LEAST_EVENTS else None
    sticks = rule in {Rule.BATCH, Rule.BYTES} and not keyed.any()
    linger = bound_linger_ms(batches, traffic, sticks=sticks, full_bytes=full_bytes)
    notes = _list_notes(traffic)
    facts = {"is_idempotent": not traffic.is_pooled, "is_pooled": traffic.is_pooled}
    if ignores_keys and follows_keys(traffic):
        reason = "each key has its partition, by no hash that is known"
        return _Findings(None, None, 0.0, "", reason, evidence, linger, batch_bytes, tuple(notes))
    if rule is None or evidence is None:
        choice = choose_for_keys(key_family, linger, **facts) if has_hash else None
        reason = f"keys placed by {key_family}" if choice else _explain_silence(partition_count, evidence)
        runner_up = "java-sticky-2.4" if choice and choice.strategy == "java-builtin" else ""
        if choice and choice.client == JAVA:
            notes.append(
                "records with keys alone do not tell one Java partitioner from another; their places are known"
            )
        return _Findings(
            choice, None, 0.5 if choice else 0.0, runner_up, reason, evidence, linger, batch_bytes, tuple(notes)
        )
    choice = choose_in_use(rule, key_family if has_hash else None, linger, ignores_keys=ignores_keys, **facts)
    confidence = ranked[rule] * _fit(evidence.broken_ratio[rule])
    second = list(ranked)[1]
    runner_up = choose_in_use(
        second, key_family if has_hash else None, linger, ignores_keys=ignores_keys, **facts
    ).strategy
    if choice.strategy == "java-builtin":
        confidence *= _UNSEEN_VARIANT
        runner_up = "java-builtin-uniform" if ranked[second] < 1 - _UNSEEN_VARIANT else runner_up
    return _Findings(
        choice,
        rule,
        confidence,
        runner_up,
        _explain(evidence, rule),
        evidence,
        linger,
        batch_bytes,
        tuple(notes),
        ranked,
    )


def _weigh(
    traffic: SessionTraffic, batches: SessionBatches, partition_count: int, batch_bytes: Bounds
) -> RuleEvidence | None:
    if partition_count < 2 or not len(batches) or traffic.is_keyed.all():
        return None
    compression = measure_compression(traffic, batches)
    cells = collect_cells(traffic, batches, byte_ratio=compression.ratio_ppm / 1e6 if compression else 1.0)
    tried = [int(batch_bytes.value)] if batch_bytes.value else []
    return weigh_rules(cells, partition_count, batch_bytes=tried, least_bytes=int(batch_bytes.low))


def _fit(broken_ratio: float) -> float:
    """How far the best rule is believed: wholly while hardly anything breaks it."""
    return min(1.0, max(0.2, 1 - (broken_ratio - _FITS) / (_FITS_NOT - _FITS)))


def _explain(evidence: RuleEvidence, rule: Rule) -> str:
    limit = {
        Rule.BYTES: f", from {evidence.limit_bytes} bytes on",
        Rule.TIME: f", after {evidence.limit_ms} ms",
    }.get(rule, "")
    return (
        f"partitions change {rule.value}{limit}: {evidence.broken_ratio[rule]:.1%} of {evidence.event_count} batches"
        f" say otherwise; {evidence.stay_ratio:.1%} were opened on the partition of the one before"
    )


def _explain_silence(partition_count: int, evidence: RuleEvidence | None) -> str:
    if partition_count < 2:
        return "one partition: every partitioner does the same"
    if evidence is None:
        return "no record without a key, and no known hash explains the keys"
    return f"{evidence.event_count} batches after another; expected {LEAST_EVENTS} or more"


def _list_notes(traffic: SessionTraffic) -> list[str]:
    notes = []
    if traffic.is_pooled:
        notes.append("batches without producer ids: all such producers are taken for one")
    if traffic.timestamp_type != CREATE_TIME:
        notes.append("LogAppendTime: when records were sent within a batch is not known")
    return notes


def _choose_configured(found: _Findings, configured: Configured) -> Choice | None:
    """What the configuration says; where it names a strategy only, the version is the data's or the usual one."""
    client = configured.client or (client_of(configured.strategy) if configured.strategy else JAVA)
    if client not in {JAVA, LIBRDKAFKA}:
        return Choice(configured.strategy or "", "", "", "", 0.0, is_idempotent=False) if configured.strategy else None
    same = found.choice if found.choice and found.choice.strategy == configured.strategy else None
    usual = same or (find_choice(configured.strategy) if configured.strategy else None)
    version = configured.version or (usual.version if usual else "4.1.1" if client == JAVA else "2.10.0")
    config = dict(configured.config)
    resolved = resolve_producer(
        client, version, config, strategy=configured.strategy, compression=Compression(1_000_000)
    )
    linger_ms = resolve_producer(client, version, {}).settings.linger_ns / MS
    shown = configured.version or (usual.version_range if usual else version)
    return Choice(resolved.strategy, client, version, shown, linger_ms, resolved.settings.is_idempotent)


def _list_contradictions(found: _Findings, configured: Configured, choice: Choice | None) -> list[str]:
    """What the data has against the configuration."""
    against = []
    rule = rule_of(choice.strategy) if choice else None
    if rule and rule is not found.rule and found.chances and found.chances.get(rule, 0.0) < 1 - _SURE:
        against.append(f"configured is {choice.strategy if choice else ''}, but the data say: {found.reason}")
    for name, bounds in (("linger.ms", found.linger), ("batch.size", found.batch_bytes)):
        given = configured.config.get(name)
        if given is None or bounds.value is None:
            continue
        if float(given) < bounds.low or (bounds.high is not None and float(given) > bounds.high):
            against.append(f"configured is {name}={given}, but the data say {bounds.low:g} to {bounds.high:g}")
    return against
