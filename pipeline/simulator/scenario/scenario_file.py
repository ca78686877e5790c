"""A scenario file in YAML: the values to simulate, variant by variant.

`partition-health simulate --schema` prints its keys. Every error names file, line, column and key, what was found and
what was expected; one reading reports all errors that do not follow from each other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator, Field

from pipeline.config.section import Location, Problems, WrongValuesError
from pipeline.config.yaml_file import parse_yaml, read_yaml
from pipeline.errors import ConfigError
from pipeline.simulator.clients.client import SECOND
from pipeline.simulator.comparison import Comparison
from pipeline.simulator.scenario.cluster_section import BrokerSection, ClusterSection, TopicSection, build_topics
from pipeline.simulator.scenario.measured import MEASURED_COSTS
from pipeline.simulator.scenario.producer_section import ClientSection, ProducerSection
from pipeline.simulator.scenario.quantities import ScenarioPart, Seconds, named_once
from pipeline.simulator.scenario.scenario import Producer, Scenario

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pipeline.config.yaml_file import YamlFile
    from pipeline.simulator.scenario.scenario import Topic
    from pipeline.simulator.scenario.traffic import Traffic

AS_CONFIGURED = "as configured"
"""Name of the only variant of a file without variants."""


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
class ScenarioVariant:
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
    variants: tuple[ScenarioVariant, ...]
    recovery: Recovery | None

    def select(self, names: Sequence[str]) -> tuple[ScenarioVariant, ...]:
        """The variants of those names, in the file's order; all for none.

        Raises:
            ConfigError: There is no such variant.
        """
        known = [variant.name for variant in self.variants]
        for name in names:
            if name not in known:
                raise ConfigError(f"{self.name} has no variant {name}; expected {', '.join(known)}")
        return tuple(variant for variant in self.variants if not names or variant.name in names)


Sentence = Annotated[str, AfterValidator(lambda text: " ".join(text.split()))]


class VariantSection(ClientSection):
    """A variant: it changes what it names. `config` is added to the producer's, unless the client is another one."""

    name: str
    summary: Sentence = ""
    producers: tuple[str, ...] | None = None
    """which of them change; all where not given"""
    brokers: Annotated[tuple[BrokerSection, ...], AfterValidator(named_once("id"))] = ()
    """keys of single brokers"""
    compare: tuple[Comparison, ...] = ()
    """figures from elsewhere to show beside"""


class RecoverySection(ScenarioPart):
    """Report how long after an instant a broker has its fair share again."""

    broker: int = Field(ge=0)
    """its id"""
    from_s: Seconds


class ScenarioSection(ScenarioPart):
    """A scenario file."""

    name: str | None = None
    """that of the file where not given"""
    summary: Sentence = ""
    cluster: ClusterSection
    topics: Annotated[tuple[TopicSection, ...], AfterValidator(named_once("name"))] = Field(min_length=1)
    producers: Annotated[tuple[ProducerSection, ...], AfterValidator(named_once("name"))] = Field(min_length=1)
    variants: Annotated[tuple[VariantSection, ...], AfterValidator(named_once("name"))] | None = Field(
        None, min_length=1
    )
    """what is compared; one, "as configured", where not given"""
    compare: tuple[Comparison, ...] = ()
    """without variants: figures from elsewhere to show beside"""
    recovery: RecoverySection | None = None


def list_built_ins() -> tuple[str, ...]:
    """Names of the scenarios that come with the package."""
    found = (files("pipeline.simulator.scenario") / "scenarios").iterdir()
    return tuple(sorted(path.name.removesuffix(".yaml") for path in found if path.name.endswith(".yaml")))


def load_scenario(name: str) -> ScenarioFile:
    """Reads a scenario.

    Args:
        name: One of `list_built_ins()`, else the path of a file.

    Raises:
        ConfigError: There is none, or what is wrong with it.
    """
    if name in list_built_ins():
        text = (files("pipeline.simulator.scenario") / "scenarios" / f"{name}.yaml").read_text(encoding="utf-8")
        return parse_scenario(text, f"{name}.yaml")
    if not Path(name).exists():
        expected = ", ".join(list_built_ins())
        raise ConfigError(f"no scenario and no file {name}; expected a file or one of {expected}")
    return _read_scenario(read_yaml(Path(name)))


def parse_scenario(text: str, file: str) -> ScenarioFile:
    """Parses a scenario.

    Args:
        text: The document.
        file: Named in errors; files it names lie beside it.

    Raises:
        ConfigError: What is wrong with it, a line for each problem.
    """
    return _read_scenario(parse_yaml(text, file))


def _read_scenario(file: YamlFile) -> ScenarioFile:
    path = Path(file.name)
    section = file.validate(ScenarioSection, context=path.parent)
    try:
        return _build(section, section.name or path.stem)
    except WrongValuesError as error:
        raise file.error(error.problems) from error


def _build(section: ScenarioSection, name: str) -> ScenarioFile:
    """The scenario of each variant.

    Raises:
        WrongValuesError: What is wrong, by location in the file.
    """
    broker_ids = [broker.id for broker in section.cluster.brokers]
    topics = build_topics(section.topics, broker_ids)
    alone = section.variants is None
    variants, problems = [], Problems()
    for number, variant in enumerate(section.variants or [VariantSection(name=AS_CONFIGURED, compare=section.compare)]):
        location = () if alone else ("variants", number)
        with problems.at():
            variants.append(_build_variant(section, variant, location, topics, name))
    recovery = section.recovery
    if recovery is not None and recovery.broker not in broker_ids:
        expected = f"a broker of the cluster ({', '.join(map(str, broker_ids))})"
        problems.found.append((("recovery", "broker"), f"found {recovery.broker}; expected {expected}"))
    problems.check()
    watched = None
    if recovery is not None:
        watched = Recovery(broker_ids.index(recovery.broker), round(recovery.from_s * SECOND))
    return ScenarioFile(name, section.summary, tuple(variants), watched)


def _build_variant(
    section: ScenarioSection, variant: VariantSection, location: Location, topics: tuple[Topic, ...], name: str
) -> ScenarioVariant:
    problems = Problems()
    with problems.at(*location):
        brokers = _change_brokers(section.cluster.brokers, variant)
        _check_names(section, variant)
    problems.check()
    clients: list[str] = []
    notes: list[str] = []
    producers: list[Producer] = []
    for number, own in enumerate(section.producers):
        is_changed = variant.producers is None or own.name in variant.producers
        producer = own.changed_by(variant) if is_changed else own
        try:
            resolved = producer.resolve()
        except WrongValuesError as error:
            given = variant if is_changed else None
            problems.found += [
                ((*(location if _gives(given, below) else ("producers", number)), *below), problem)
                for below, problem in error.problems
            ]
            continue
        clients.append(f"{producer.client} {producer.version}, {resolved.strategy}")
        notes += resolved.notes
        threads: list[Traffic] = []
        for place, traffic in enumerate(producer.traffic):
            with problems.at("producers", number, "traffic", place):
                threads += traffic.build(topics, resolved.strategy)
        one = Producer(
            own.name, tuple(threads), resolved.family, producer.version or "", resolved.settings, MEASURED_COSTS
        )
        names = [own.name] if own.count == 1 else [f"{own.name}-{copy}" for copy in range(1, own.count + 1)]
        producers += [replace(one, name=each) for each in names]
    problems.check()
    with problems.at():
        scenario = Scenario(
            f"{name}/{variant.name}", tuple(broker.build() for broker in brokers), topics, tuple(producers)
        )
    problems.check()
    total = sum(broker.capacity for broker in brokers)
    return ScenarioVariant(
        name=variant.name,
        summary=variant.summary,
        clients=tuple(dict.fromkeys(clients)),
        scenario=scenario,
        fair_shares=tuple(broker.capacity / total for broker in brokers),
        notes=tuple(dict.fromkeys(notes)),
        comparisons=variant.compare,
    )


def _gives(variant: VariantSection | None, location: Location) -> bool:
    """Tells whether a variant gives the key at a location of a producer."""
    if variant is None or not location:
        return False
    return location[1] in variant.config if location[0] == "config" else location[0] in variant.model_fields_set


def _change_brokers(brokers: Sequence[BrokerSection], variant: VariantSection) -> list[BrokerSection]:
    by_id = {broker.id: broker for broker in brokers}
    problems = Problems()
    for number, change in enumerate(variant.brokers):
        given = {key: getattr(change, key) for key in change.model_fields_set}
        if change.id in by_id:
            by_id[change.id] = by_id[change.id].model_copy(update=given)
        else:
            problem = f"no broker {change.id}; expected one of {', '.join(map(str, by_id))}"
            problems.found.append((("brokers", number), problem))
    problems.check()
    return list(by_id.values())


def _check_names(section: ScenarioSection, variant: VariantSection) -> None:
    """Checks the producers and the brokers that a variant names."""
    known = [producer.name for producer in section.producers]
    problems = Problems()
    for number, name in enumerate(variant.producers or ()):
        if name not in known:
            problems.found.append((("producers", number), f"found {name}; expected {' or '.join(known)}"))
    broker_ids = [broker.id for broker in section.cluster.brokers]
    expected = ", ".join(map(str, broker_ids))
    for number, comparison in enumerate(variant.compare):
        for figure, values in comparison.loads.items():
            problems.found += [
                (("compare", number, figure, broker_id), f"no broker {broker_id}; expected one of {expected}")
                for broker_id in values
                if broker_id not in broker_ids
            ]
    problems.check()
