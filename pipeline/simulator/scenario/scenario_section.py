"""The whole of a scenario file: producers, variants, and that the names in it exist."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, field_validator, model_validator

from pipeline.config.section import Location, Problems, WrongValuesError
from pipeline.simulator.clients.client import Compression
from pipeline.simulator.clients.producer_configs import WrongSettingError, check_client, find_config
from pipeline.simulator.clients.producer_settings import ResolvedProducer, resolve_producer
from pipeline.simulator.distributions import PPM
from pipeline.simulator.scenario.cluster_section import BrokerSection, ClusterSection, TopicSection
from pipeline.simulator.scenario.quantities import ScenarioPart, named_once
from pipeline.simulator.scenario.traffic_section import TrafficSection


class ClientSection(ScenarioPart):
    client: Literal["kafka-clients", "librdkafka", "franz-go", "sarama", "kafka-python", "aiokafka"] = "kafka-clients"
    version: str | None = None
    """of the client, such as 3.9.1: it decides the defaults"""
    config: dict[str, str | None] = Field(default_factory=dict)
    """any producer config of that client, by its own name"""
    strategy: str | None = None
    """of `partition-health partition --strategies`; as version and config say where not given"""
    compression_ratio: float | None = Field(None, ge=0.001, le=2)
    """with a compression.type: compressed bytes per uncompressed byte of these records"""

    def resolve(self) -> ResolvedProducer:
        if self.version is None:
            raise WrongValuesError(((), "key version is missing: the client's, such as 3.9.1"))
        ratio = self.compression_ratio
        compression = None if ratio is None else Compression(round(ratio * PPM))
        try:
            given = self.client, self.version, self.config
            return resolve_producer(*given, strategy=self.strategy, compression=compression)
        except WrongSettingError as error:
            if error.name in self.config:
                raise WrongValuesError((("config", error.name), error.problem)) from error
            is_key = error.name in ClientSection.model_fields
            raise WrongValuesError(((error.name,), error.problem) if is_key else ((), str(error))) from error


class ProducerSection(ClientSection):
    name: str
    """its client.id; of several, with a number after it"""
    count: int = Field(1, ge=1, le=10_000)
    """how many alike"""
    traffic: Annotated[
        tuple[TrafficSection, ...], BeforeValidator(lambda value: value if isinstance(value, list) else [value])
    ] = Field(min_length=1)
    """one section, or a list of them; each is a sending thread"""

    @field_validator("version")
    @classmethod
    def _known_version(cls, version: str | None, info: ValidationInfo) -> str | None:
        problems = Problems()
        if version is not None and "client" in info.data:
            with problems.at():
                check_client(info.data["client"], version)
        problems.check()
        return version

    @field_validator("config")
    @classmethod
    def _known_config(cls, config: dict[str, str | None], info: ValidationInfo) -> dict[str, str | None]:
        problems = Problems()
        if info.data.get("client") and info.data.get("version"):
            for name, text in config.items():
                try:
                    find_config(info.data["client"], info.data["version"], name).parse(text)
                except WrongSettingError as error:
                    problems.found.append(((name,), error.problem))
        problems.check()
        return config

    def changed_by(self, change: ClientSection) -> "ProducerSection":
        """The producer with the keys that a variant gives; its configuration stays unless the client is another one."""
        given = {name: getattr(change, name) for name in change.model_fields_set & ClientSection.model_fields.keys()}
        if change.client != self.client and "client" in given:
            return ProducerSection.model_construct(name=self.name, count=self.count, traffic=self.traffic, **given)
        return self.model_copy(update={**given, "config": {**self.config, **change.config}})


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
    def _names_exist(self) -> "ScenarioSection":
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
