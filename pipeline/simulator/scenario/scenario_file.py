"""A scenario file in YAML: the values to simulate, variant by variant.

The schema is told by `schema.SCHEMA` (`partition-health simulate --schema`). Every error names file, line and key, what
was found and what was expected; one reading tells all errors that do not follow from each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.errors import ConfigError
from pipeline.simulator.comparison import Comparison, parse_comparisons
from pipeline.simulator.scenario.cluster_section import (
    BROKER_KEYS,
    BrokerSection,
    check_every_broker_leads,
    parse_brokers,
    parse_topics,
)
from pipeline.simulator.scenario.producer_section import (
    CLIENT_KEYS,
    ProducerSection,
    parse_client_keys,
    parse_producers,
)
from pipeline.simulator.scenario.quantities import parse_seconds
from pipeline.simulator.scenario.scenario import Scenario
from pipeline.simulator.scenario.yaml_entries import gather, gather_each, parse_yaml

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pipeline.simulator.scenario.scenario import Topic
    from pipeline.simulator.scenario.yaml_entries import Entry

AS_CONFIGURED = "as configured"
"""Name of the only variant of a file without variants."""
_KEYS = ("name", "summary", "variants", "compare", "recovery")
_VARIANT_KEYS = (*CLIENT_KEYS, "summary", "producers", "brokers", "compare")


@dataclass(frozen=True)
class Recovery:
    """What to watch after a disturbance.

    Attributes:
        broker: Index of the broker that was disturbed.
        from_ns: When the disturbance ended.
    """

    broker: int
    from_ns: int


@dataclass(frozen=True)
class Variant:
    """One of the runs that a scenario file compares.

    Attributes:
        name: Its name.
        summary: A sentence, or "".
        clients: Of each kind of producer: client, version and strategy.
        scenario: What is simulated.
        fair_shares: Of each broker, by capacity.
        notes: What of the configuration has no effect here, in sentences.
        comparisons: Figures from elsewhere, to show beside.
    """

    name: str
    summary: str
    clients: tuple[str, ...]
    scenario: Scenario
    fair_shares: tuple[float, ...]
    notes: tuple[str, ...]
    comparisons: tuple[Comparison, ...]


@dataclass(frozen=True)
class ScenarioFile:
    """What a scenario file says.

    Attributes:
        name: Its name.
        summary: A sentence, or "".
        variants: At least one.
        recovery: What to watch, or None.
    """

    name: str
    summary: str
    variants: tuple[Variant, ...]
    recovery: Recovery | None

    def select(self, names: Sequence[str]) -> tuple[Variant, ...]:
        """The variants of those names, in the file's order; all for none.

        Raises:
            ConfigError: There is no such variant.
        """
        known = [variant.name for variant in self.variants]
        for name in names:
            if name not in known:
                raise ConfigError(f"{self.name} has no variant {name}; expected {', '.join(known)}")
        return tuple(variant for variant in self.variants if not names or variant.name in names)


@dataclass(frozen=True)
class _Base:
    """Sections that variants change, and where the file begins."""

    place: Entry
    name: str
    brokers: tuple[BrokerSection, ...]
    topics: tuple[Topic, ...]
    producers: tuple[ProducerSection, ...]


def list_built_ins() -> tuple[str, ...]:
    """Names of the built-in scenarios."""
    folder = files("pipeline.simulator.scenario") / "scenarios"
    return tuple(sorted(entry.name.removesuffix(".yaml") for entry in folder.iterdir() if entry.name.endswith(".yaml")))


def load_scenario(name: str) -> ScenarioFile:
    """A built-in scenario by its name, or one from a file.

    Args:
        name: One of `list_built_ins()`, else the path of a file.

    Raises:
        ConfigError: There is neither, or what is wrong with the file: a line for each place, with file, line and key.
    """
    if name in list_built_ins():
        text = (files("pipeline.simulator.scenario") / "scenarios" / f"{name}.yaml").read_text(encoding="utf-8")
        return parse_scenario(text, f"{name}.yaml")
    try:
        text = Path(name).read_text(encoding="utf-8")
    except FileNotFoundError as error:
        built_in = ", ".join(list_built_ins())
        raise ConfigError(f"no scenario and no file {name}; expected a file or one of {built_in}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{name} cannot be read: {error}") from error
    return parse_scenario(text, name)


def parse_scenario(text: str, file: str) -> ScenarioFile:
    """Parses a scenario.

    Args:
        text: YAML.
        file: Its path: named in errors, and what files beside it are found from.

    Raises:
        ConfigError: What is wrong with it, a line for each place.
    """
    root = parse_yaml(text, file)
    keys = root.mapping(known=_KEYS, needed=("cluster", "topics", "producers"))
    name = keys["name"].text() if "name" in keys else Path(file).stem
    base = _parse_base(root, keys, name)
    variants = _parse_variants(keys, base)
    recovery = _parse_recovery(keys["recovery"], base.brokers) if "recovery" in keys else None
    return ScenarioFile(name, _parse_text(keys, "summary"), variants, recovery)


def _parse_base(root: Entry, keys: Mapping[str, Entry], name: str) -> _Base:
    brokers: list[BrokerSection] = []
    topics: list[Topic] = []
    producers: list[ProducerSection] = []

    def parse_cluster() -> None:
        brokers.extend(parse_brokers(keys["cluster"].mapping(needed=("brokers",))["brokers"]))
        topics.extend(parse_topics(keys["topics"], [broker.broker_id for broker in brokers]))
        check_every_broker_leads(brokers, topics)

    gather(parse_cluster, lambda: producers.extend(parse_producers(keys["producers"])))
    return _Base(root, name, tuple(brokers), tuple(topics), tuple(producers))


def _parse_variants(keys: Mapping[str, Entry], base: _Base) -> tuple[Variant, ...]:
    if "variants" not in keys:
        return (_build_variant(base, AS_CONFIGURED, keys, base.producers, base.brokers),)
    variants = gather_each(keys["variants"].items(), lambda entry: _parse_variant(entry, base))
    if not variants:
        raise keys["variants"].error("no variant; expected at least one, or no such key")
    for place, variant in enumerate(variants):
        if variant.name in (other.name for other in variants[:place]):
            raise keys["variants"].items()[place].error(f"variant {variant.name} twice")
    return tuple(variants)


def _parse_variant(entry: Entry, base: _Base) -> Variant:
    keys = entry.mapping(known=_VARIANT_KEYS, needed=("name",))
    given, config = parse_client_keys(keys)
    names = [producer.name for producer in base.producers]
    chosen = keys["producers"].items() if "producers" in keys else None
    changed = names if chosen is None else [item.choice(names) for item in chosen]
    producers = tuple(
        producer.with_keys(given, config) if producer.name in changed else producer for producer in base.producers
    )
    brokers = _change_brokers(keys["brokers"], base.brokers) if "brokers" in keys else base.brokers
    return _build_variant(base, keys["name"].text(), keys, producers, brokers)


def _change_brokers(entry: Entry, brokers: tuple[BrokerSection, ...]) -> tuple[BrokerSection, ...]:
    by_id = {broker.broker_id: broker for broker in brokers}
    for item in entry.items():
        keys = item.mapping(known=BROKER_KEYS, needed=("id",))
        broker_id = keys.pop("id").whole()
        if broker_id not in by_id:
            raise item.error(f"no broker {broker_id}; expected one of {', '.join(map(str, by_id))}")
        by_id[broker_id] = by_id[broker_id].with_keys(keys)
    return tuple(by_id.values())


def _build_variant(
    base: _Base,
    name: str,
    keys: Mapping[str, Entry],
    producers: Sequence[ProducerSection],
    brokers: Sequence[BrokerSection],
) -> Variant:
    resolved = gather_each(producers, ProducerSection.resolve)
    pairs = list(zip(producers, resolved, strict=True))
    built = gather_each(pairs, lambda pair: pair[0].build(base.topics, pair[1]))
    parts = (tuple(gather_each(brokers, BrokerSection.build)), base.topics, tuple(chain.from_iterable(built)))
    try:
        scenario = Scenario(f"{base.name}/{name}", *parts)
    except ConfigError as error:
        raise base.place.error(str(error)) from error
    capacities = [broker.capacity for broker in brokers]
    notes = [note for one in resolved for note in one.notes]
    return Variant(
        name=name,
        summary=_parse_text(keys, "summary") if name != AS_CONFIGURED else "",
        clients=tuple(dict.fromkeys(f"{part.client} {part.version}, {one.strategy}" for part, one in pairs)),
        scenario=scenario,
        fair_shares=tuple(capacity / sum(capacities) for capacity in capacities),
        notes=tuple(dict.fromkeys(notes)),
        comparisons=parse_comparisons(keys["compare"], brokers) if "compare" in keys else (),
    )


def _parse_recovery(entry: Entry, brokers: Sequence[BrokerSection]) -> Recovery:
    keys = entry.mapping(needed=("broker", "from_s"))
    broker_ids = [broker.broker_id for broker in brokers]
    if keys["broker"].whole() not in broker_ids:
        raise keys["broker"].expect(f"a broker of the cluster ({', '.join(map(str, broker_ids))})")
    return Recovery(broker_ids.index(keys["broker"].whole()), parse_seconds(keys["from_s"]))


def _parse_text(keys: Mapping[str, Entry], name: str) -> str:
    return " ".join(keys[name].text().split()) if name in keys else ""
