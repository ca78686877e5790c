"""Which client, version and strategy go with a rule: a table, and the choice from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipeline.calibration.rules import Rule
from pipeline.partitioners.recorded import list_families
from pipeline.partitioners.registry import STRATEGIES
from pipeline.simulator.clients.client import PLACEMENTS
from pipeline.simulator.clients.producer_configs import JAVA, LIBRDKAFKA

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pipeline.calibration.batching import Bounds


@dataclass(frozen=True)
class Choice:
    """A client that does something by default or when told so.

    Attributes:
        strategy: Name in `pipeline.partitioners`.
        client: `kafka-clients` or `librdkafka`.
        version: The one that stands for the range.
        version_range: In words.
        linger_ms: Its default; None where any will do.
        is_idempotent: Its default.
    """

    strategy: str
    client: str
    version: str
    version_range: str
    linger_ms: float
    is_idempotent: bool


_JAVA_4 = ("4.1.1", "4.0 or later", 5.0, True)
_JAVA_33 = ("3.9.1", "3.3 to 3.9", 0.0, True)
_JAVA_30 = ("3.2.3", "3.0.1 to 3.2", 0.0, True)
_JAVA_24 = ("2.8.2", "2.4 to 3.1", 0.0, False)
_JAVA_OLD = ("2.3.1", "0.10.2 to 2.3", 0.0, False)
_RDKAFKA = ("2.10.0", "1.6 or later", 5.0, False)
_RDKAFKA_OLD = ("1.5.3", "before 1.6, or sticky.partitioning.linger.ms=0", 5.0, False)


def _java(strategy: str, *spans: tuple[str, str, float, bool]) -> tuple[Choice, ...]:
    return tuple(Choice(strategy, JAVA, *span) for span in spans)


def _rdkafka(span: tuple[str, str, float, bool], *strategies: str) -> tuple[Choice, ...]:
    return tuple(Choice(strategy, LIBRDKAFKA, *span) for strategy in strategies)


_STICKY = (_JAVA_30, _JAVA_24, ("3.9.1", "3.3 to 3.9 with partitioner.class set", 0.0, True))
CHOICES: dict[Rule, tuple[Choice, ...]] = {
    Rule.BATCH: _java("java-sticky-2.4", *_STICKY) + _java("java-uniform-sticky", *_STICKY),
    Rule.BYTES: _java("java-builtin", _JAVA_33, _JAVA_4) + _java("java-builtin-ignore-keys", _JAVA_33, _JAVA_4),
    Rule.TIME: _rdkafka(
        _RDKAFKA, "librdkafka-consistent_random", "librdkafka-murmur2_random", "librdkafka-fnv1a_random"
    ),
    Rule.RANDOM: _rdkafka(
        _RDKAFKA_OLD,
        "librdkafka-consistent_random-1.5",
        "librdkafka-murmur2_random-1.5",
        "librdkafka-fnv1a_random-1.5",
    ),
    Rule.TURN: _java("java-round-robin-3.9.2", ("4.1.1", "3.9.2 or later with RoundRobinPartitioner", 5.0, True))
    + _java("java-murmur2", _JAVA_OLD),
    Rule.TURN_OF_HALF: _java(
        "java-round-robin-2.4",
        ("3.9.1", "3.0.1 to 3.9.1 with RoundRobinPartitioner", 0.0, True),
        ("2.8.2", "2.4 to 3.1 with RoundRobinPartitioner", 0.0, False),
    ),
}
"""By rule; of equals the first is taken."""
_IGNORES_KEYS = frozenset({"java-uniform-sticky", "java-builtin-ignore-keys"})


def choose_in_use(
    rule: Rule, key_family: str | None, linger: Bounds, *, is_idempotent: bool, is_pooled: bool, ignores_keys: bool
) -> Choice:
    """The client that fits best.

    Args:
        rule: How keyless records got their partitions.
        key_family: A family's name, where a hash placed the keys.
        linger: What is known of `linger.ms`.
        is_idempotent: The batches have a producer id.
        is_pooled: They have none, and may be of many producers.
        ignores_keys: Records with keys follow the rule too.
    """
    strategies = list_strategies(key_family)

    def misfit(choice: Choice) -> tuple[bool, ...]:
        high = float("inf") if linger.high is None else linger.high
        return (
            (choice.strategy in _IGNORES_KEYS) != ignores_keys,
            bool(strategies) and choice.strategy not in strategies,
            choice.is_idempotent != is_idempotent and not (is_pooled and choice.client == LIBRDKAFKA),
            not linger.low <= choice.linger_ms < high,
        )

    return min(CHOICES[rule], key=misfit)


def choose_for_keys(key_family: str | None, linger: Bounds, *, is_idempotent: bool, is_pooled: bool) -> Choice | None:
    """The client where all records have keys, or None where their hash is nobody's that the simulator follows."""
    strategies = list_strategies(key_family)
    fitting = [
        each for rule in (Rule.BYTES, Rule.BATCH, Rule.TIME) for each in CHOICES[rule] if each.strategy in strategies
    ]
    if not fitting:
        return None
    high = float("inf") if linger.high is None else linger.high
    return min(
        fitting,
        key=lambda each: (
            each.is_idempotent != is_idempotent and not (is_pooled and each.client == LIBRDKAFKA),
            not linger.low <= each.linger_ms < high,
        ),
    )


def list_strategies(key_family: str | None) -> Sequence[str]:
    """The strategies of a family that the simulator follows; none for what is no family's name."""
    return [
        name
        for family in list_families()
        if family.name == key_family
        for name in family.strategies
        if name in PLACEMENTS
    ]


def find_choice(strategy: str) -> Choice | None:
    """The usual client of a strategy."""
    return next((each for choices in CHOICES.values() for each in choices if each.strategy == strategy), None)


def rule_of(strategy: str) -> Rule | None:
    """By which rule a strategy gives keyless records their partitions; None where the simulator does not follow it."""
    for rule, choices in CHOICES.items():
        if any(choice.strategy == strategy for choice in choices):
            return rule
    if strategy.startswith("java-builtin"):
        return Rule.BYTES
    return None


def client_of(strategy: str) -> str:
    """Whose strategy it is; "" for a user's own."""
    return STRATEGIES[strategy].client if strategy in STRATEGIES else ""
