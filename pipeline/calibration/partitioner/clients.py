"""Which client, version and strategy go with a switching rule: chosen among what the strategies declare of themselves."""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pipeline.calibration.partitioner.switch_rules import SwitchRule
from pipeline.model.window import NS_PER_MS
from pipeline.partitioners.clients.java import RACK_AWARE
from pipeline.partitioners.registry import STRATEGIES, list_families
from pipeline.partitioners.strategy import ClientSpan
from pipeline.simulator.clients.client import ANY_RACK, PLACEMENTS
from pipeline.simulator.clients.producer_configs import JAVA, LIBRDKAFKA
from pipeline.simulator.clients.producer_settings import resolve_producer


@dataclass(frozen=True)
class Bounds:
    """A setting read from the data: the likeliest value, or None; hardly less than `low`; None as `high` is no bound."""

    value: float | None
    low: float
    high: float | None
    reason: str

    @property
    def most(self) -> float:
        """`high`, or infinity."""
        return math.inf if self.high is None else self.high


RULES = {
    "BUILT_IN": SwitchRule.BYTES,
    "BUILT_IN_DRAFT": SwitchRule.BYTES,
    "STICKY": SwitchRule.BATCH,
    "ROUND_ROBIN": SwitchRule.ROUND_ROBIN,
    "ROUND_ROBIN_OLD": SwitchRule.ROUND_ROBIN,
    "ROUND_ROBIN_TWO_TURN": SwitchRule.ROUND_ROBIN_HALF,
    "TIMED_STICKY": SwitchRule.TIME,
    "RANDOM": SwitchRule.RANDOM,
    "RANDOM_TWO_DRAWS": SwitchRule.RANDOM,
}
"""What the order of batches shows of each placement; one that is not listed is never inferred."""
_USUAL_VERSIONS = {JAVA: "4.1.1", LIBRDKAFKA: "2.10.0"}


@dataclass(frozen=True)
class ClientChoice:
    """A client that follows a strategy by default or when configured so, and two of its defaults; "" is not simulated."""

    strategy: str
    client: str
    version: str
    version_range: str
    linger_ms: float
    is_idempotent: bool

    def misfits(self, linger: Bounds, *, is_idempotent: bool) -> tuple[bool, bool]:
        """Whether idempotence, and `linger.ms`, contradict its defaults."""
        return self.is_idempotent != is_idempotent, not linger.low <= self.linger_ms < linger.most


@functools.cache
def list_choices(rule: SwitchRule) -> tuple[ClientChoice, ...]:
    """Every client that switches so; of equals the first is taken."""
    return tuple(
        _make_choice(name, span)
        for name, (placement, _, _) in PLACEMENTS.items()
        if RULES.get(placement) is rule
        for span in STRATEGIES[name].spans
    )


def _make_choice(strategy: str, span: ClientSpan) -> ClientChoice:
    client = STRATEGIES[strategy].client
    config = {"client.rack": ANY_RACK} if strategy == RACK_AWARE else {}
    defaults = resolve_producer(client, span.version, config, strategy=strategy).settings
    linger_ms = defaults.linger_ns / NS_PER_MS
    return ClientChoice(strategy, client, span.version, span.words, linger_ms, defaults.is_idempotent)


def assume_client(strategy: str) -> ClientChoice:
    """The client of a strategy that no span of versions shows, such as a variant that has to be configured."""
    version = _USUAL_VERSIONS[STRATEGIES[strategy].client]
    return _make_choice(strategy, ClientSpan(version, version))


def choose_client(
    rule: SwitchRule, key_family: str | None, linger: Bounds, *, is_idempotent: bool, ignores_keys: bool
) -> ClientChoice:
    """The client that fits best: how it places keyless records and keys, its `linger.ms`, whether it is idempotent."""
    strategies = list_strategies(key_family)

    def rank(choice: ClientChoice) -> tuple[bool, ...]:
        return (
            _ignores_keys(choice.strategy) != ignores_keys,
            bool(strategies) and choice.strategy not in strategies,
            *choice.misfits(linger, is_idempotent=is_idempotent),
        )

    chosen = min(list_choices(rule), key=rank)
    return replace(chosen, version_range=_describe_range(chosen, rule, linger, is_idempotent=is_idempotent))


def _describe_range(chosen: ClientChoice, rule: SwitchRule, linger: Bounds, *, is_idempotent: bool) -> str:
    """Every version that is not excluded: those whose defaults fit as well, and others with a setting changed.

    Two spans of which the second is open are one: they follow each other.
    """
    names = ("enable.idempotence", "linger.ms")
    alike: list[str] = []
    changed: dict[str, None] = {}
    fit = chosen.misfits(linger, is_idempotent=is_idempotent)
    for other in list_choices(rule):
        if other.strategy == chosen.strategy:
            misfits = other.misfits(linger, is_idempotent=is_idempotent)
            alike += [other.version_range] if misfits == fit else []
            changed |= {name: None for name, own, best in zip(names, misfits, fit, strict=True) if own != best}
    if len(alike) == 2 and alike[1].endswith(" or later"):
        alike = [f"{alike[0].split()[0]} or later"]
    return ", or ".join([*alike, *(f"{name} set" for name in changed)])


def _ignores_keys(strategy: str) -> bool:
    """A strategy that ignores keys where another one switches alike and does not; round robin never looks at keys."""
    placement, _, ignores = PLACEMENTS[strategy]
    return ignores and any(other == placement and not looks_away for other, _, looks_away in PLACEMENTS.values())


def choose_for_keys(key_family: str | None, linger: Bounds, *, is_idempotent: bool) -> ClientChoice | None:
    """The client where all records have keys, or None where no simulated client uses their hash."""
    strategies = list_strategies(key_family)
    fitting = [
        choice
        for rule in (SwitchRule.BYTES, SwitchRule.BATCH, SwitchRule.TIME)
        for choice in list_choices(rule)
        if choice.strategy in strategies
    ]
    return min(fitting, key=lambda choice: choice.misfits(linger, is_idempotent=is_idempotent), default=None)


def list_strategies(key_family: str | None) -> Sequence[str]:
    """The strategies of a family that the simulator follows; none for what is no family's name."""
    return [
        name
        for family in list_families()
        if family.name == key_family
        for name in family.strategies
        if name in PLACEMENTS
    ]


def list_alike(rule: SwitchRule) -> list[str]:
    """The other clients that place records without a key by a rule which says nothing about batches."""
    if rule not in {SwitchRule.RANDOM, SwitchRule.ROUND_ROBIN}:
        return []
    placing = {one.client for one in STRATEGIES.values() if one.keyless and RULES.get(one.keyless.placement) is rule}
    return sorted(placing - {JAVA, LIBRDKAFKA})


def find_choice(strategy: str) -> ClientChoice | None:
    rule = rule_of(strategy)
    choices = list_choices(rule) if rule else ()
    return next((choice for choice in choices if choice.strategy == strategy), None)


def rule_of(strategy: str) -> SwitchRule | None:
    """By which rule a strategy gives keyless records their partitions; None where the order of batches does not show it."""
    return RULES.get(PLACEMENTS[strategy][0]) if strategy in PLACEMENTS else None
