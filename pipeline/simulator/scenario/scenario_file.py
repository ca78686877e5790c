"""A scenario file in YAML: the values to simulate, variant by variant.

`partition-health simulate --schema` prints its keys. Every error names file, line, column and key, what was found and
what was expected; one reading reports all errors that do not follow from each other.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from pipeline.config.section import Location, Problems, WrongValuesError
from pipeline.config.yaml_file import YamlFile, parse_yaml, read_yaml
from pipeline.errors import ConfigError
from pipeline.simulator.clients.client import describe_racks
from pipeline.simulator.clients.producer_settings import ResolvedProducer
from pipeline.simulator.scenario.cluster_section import build_topics
from pipeline.simulator.scenario.measured import MEASURED_COSTS
from pipeline.simulator.scenario.scenario import Producer, Scenario, Topic, Traffic
from pipeline.simulator.scenario.scenario_section import Evidence, ProducerSection, ScenarioSection, VariantSection

AS_CONFIGURED = "as configured"  # name of the only variant of a file without variants


@dataclass(frozen=True)
class ScenarioVariant:
    name: str
    summary: str  # a sentence, or ""
    clients: tuple[str, ...]  # of each kind of producer: client, version and strategy
    scenario: Scenario  # what is simulated
    fair_shares: tuple[float, ...]  # of each broker, by capacity
    notes: tuple[str, ...]  # what of the configuration has no effect here, in sentences


@dataclass(frozen=True)
class ScenarioFile:
    name: str
    summary: str  # a sentence, or ""
    variants: tuple[ScenarioVariant, ...]  # at least one
    evidence: Evidence  # how far it is what its source ran

    def select(self, names: Sequence[str]) -> tuple[ScenarioVariant, ...]:
        known = [variant.name for variant in self.variants]
        for name in names:
            if name not in known:
                raise ConfigError(f"{self.name} has no variant {name}; expected {', '.join(known)}")
        return tuple(variant for variant in self.variants if not names or variant.name in names)


def list_built_ins() -> tuple[str, ...]:
    entries = (files("pipeline.simulator.scenario") / "scenarios").iterdir()
    return tuple(sorted(path.name.removesuffix(".yaml") for path in entries if path.name.endswith(".yaml")))


def load_scenario(name: str) -> ScenarioFile:
    """Reads a scenario: one of `list_built_ins()`, else the file at that path; `ConfigError` says what is wrong."""
    if name in list_built_ins():
        text = (files("pipeline.simulator.scenario") / "scenarios" / f"{name}.yaml").read_text(encoding="utf-8")
        return parse_scenario(text, f"{name}.yaml")
    if not Path(name).exists():
        expected = ", ".join(list_built_ins())
        raise ConfigError(f"no scenario and no file {name}; expected a file or one of {expected}")
    return _read_scenario(read_yaml(Path(name)))


def parse_scenario(text: str, file: str) -> ScenarioFile:
    """Parses a scenario; its path is for `ConfigError`, a line for each problem, and for the files it names."""
    return _read_scenario(parse_yaml(text, file))


def _read_scenario(file: YamlFile) -> ScenarioFile:
    path = Path(file.name)
    section = file.validate(ScenarioSection, context={"folder": path.parent})
    try:
        name = section.name or path.stem
        broker_ids = [broker.id for broker in section.cluster.brokers]
        topics = build_topics(section.topics, broker_ids)
        variants, problems = [], Problems()
        if section.variants is None:
            variants.append(_build_variant(section, VariantSection(name=AS_CONFIGURED), (), topics, name))
        for number, variant in enumerate(section.variants or ()):
            with problems.at():
                variants.append(_build_variant(section, variant, ("variants", number), topics, name))
        problems.check()
        return ScenarioFile(name, section.summary, tuple(variants), section.evidence)
    except WrongValuesError as error:
        raise file.error(error.problems) from error


def _build_variant(
    section: ScenarioSection, variant: VariantSection, at: Location, topics: tuple[Topic, ...], name: str
) -> ScenarioVariant:
    by_id = {broker.id: broker for broker in section.cluster.brokers}
    for change in variant.brokers:
        given = {key: getattr(change, key) for key in change.model_fields_set}
        by_id[change.id] = by_id[change.id].model_copy(update=given)
    brokers = list(by_id.values())
    problems = Problems()
    clients: dict[str, None] = {}
    notes: dict[str, None] = {}
    producers: list[Producer] = []
    for number, own in enumerate(section.producers):
        is_changed = variant.producers is None or own.name in variant.producers
        producer = own.changed_by(variant) if is_changed else own
        try:
            resolved = producer.resolve()
        except WrongValuesError as error:
            for below, problem in error.problems:
                place = at if is_changed and _gives(variant, below) else ("producers", number)
                problems.found.append(((*place, *below), problem))
            continue
        clients[f"{producer.client} {producer.version}, {resolved.strategy}"] = None
        notes |= dict.fromkeys(resolved.notes)
        if resolved.settings.is_transactional:
            notes["transactional.id: a scenario has no commits"] = None
        if resolved.settings.client_rack:
            about_racks = describe_racks(resolved.settings.client_rack, {broker.id: broker.rack for broker in brokers})
            notes |= dict.fromkeys([about_racks] if about_racks else [])
        with problems.at("producers", number):
            producers += _build_producers(producer, resolved, topics)
    problems.check()
    with problems.at():
        scenario = Scenario(f"{name}/{variant.name}", tuple(b.build() for b in brokers), topics, tuple(producers))
    problems.check()
    total = sum(broker.capacity for broker in brokers)
    return ScenarioVariant(
        name=variant.name,
        summary=variant.summary,
        clients=tuple(clients),
        scenario=scenario,
        fair_shares=tuple(broker.capacity / total for broker in brokers),
        notes=tuple(notes),
    )


def _gives(variant: VariantSection, location: Location) -> bool:
    if location[:1] == ("config",):
        return location[1] in variant.config
    return location[:1] != () and location[0] in variant.model_fields_set


def _build_producers(
    section: ProducerSection, resolved: ResolvedProducer, topics: tuple[Topic, ...]
) -> Iterator[Producer]:
    problems = Problems()
    threads: list[Traffic] = []
    for number, traffic in enumerate(section.traffic):
        with problems.at("traffic", number):
            threads += traffic.build(topics, resolved.strategy)
    problems.check()
    for copy in range(1, section.count + 1):
        yield Producer(
            name=section.name if section.count == 1 else f"{section.name}-{copy}",
            traffic=tuple(threads),
            family=resolved.family,
            version=section.version or "",
            settings=resolved.settings,
            costs=MEASURED_COSTS,
        )
