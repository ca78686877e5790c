"""The whole of a scenario file: its sections, and that the names in them exist."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from pipeline.config.section import Location, WrongValuesError
from pipeline.simulator.scenario.cluster_section import BrokerSection, ClusterSection, TopicSection
from pipeline.simulator.scenario.producer_section import ClientSection, ProducerSection
from pipeline.simulator.scenario.quantities import ScenarioPart, named_once

Sentence = Annotated[str, AfterValidator(lambda text: " ".join(text.split()))]


class VariantSection(ClientSection):
    """A variant: it changes what it names. `config` is added to the producer's, unless the client is another one."""

    name: str
    summary: Sentence = ""
    producers: tuple[str, ...] | None = None
    """which producers change; all where not given"""
    brokers: Annotated[tuple[BrokerSection, ...], AfterValidator(named_once("id"))] = ()
    """keys of single brokers"""


class Evidence(ScenarioPart):
    """How far the scenario is what its source ran: sentences that are printed with its figures."""

    reproduced: tuple[Sentence, ...] = ()
    """published figures that come out, without being fitted"""
    not_reproduced: tuple[Sentence, ...] = ()
    """published figures that do not, and why"""
    fitted: tuple[Sentence, ...] = ()
    """parameters that were chosen so that published figures come out, and which"""
    assumed: tuple[Sentence, ...] = ()
    """what the source does not say"""


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
    evidence: Evidence = Evidence()

    @model_validator(mode="after")
    def _names_exist(self) -> ScenarioSection:
        known: dict[str, list[int | str]] = {
            "broker": [broker.id for broker in self.cluster.brokers],
            "topic": [topic.name for topic in self.topics],
            "producer": [producer.name for producer in self.producers],
        }
        problems = [
            (location, f"no {kind} {name}; expected {' or '.join(map(str, known[kind]))}")
            for kind, name, location in self._list_references()
            if name not in known[kind]
        ]
        if problems:
            raise WrongValuesError(*problems)
        return self

    def _list_references(self) -> Iterator[tuple[str, int | str, Location]]:
        """Every broker, topic and producer that is named, and where."""
        for t, topic in enumerate(self.topics):
            leaders = enumerate(topic.leaders or ())
            yield from (("broker", id_, ("topics", t, "leaders", p)) for p, id_ in leaders if id_ is not None)
        for p, producer in enumerate(self.producers):
            for t, traffic in enumerate(producer.traffic):
                at = ("producers", p, "traffic", t)
                yield from (("topic", name, (*at, "topics", name)) for name in traffic.topics or ())
                if traffic.topic is not None:
                    yield "topic", traffic.topic, (*at, "topic")
        for v, variant in enumerate(self.variants or ()):
            named = enumerate(variant.producers or ())
            yield from (("producer", name, ("variants", v, "producers", n)) for n, name in named)
            yield from (("broker", b.id, ("variants", v, "brokers", n, "id")) for n, b in enumerate(variant.brokers))
