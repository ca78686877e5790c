"""`producers` of a scenario file, and what a variant changes about them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator

from pipeline.config.section import Problems, WrongValuesError
from pipeline.simulator.clients.client import Compression
from pipeline.simulator.clients.producer_configs import WrongSettingError, check_client, find_config
from pipeline.simulator.clients.producer_settings import ResolvedProducer, resolve_producer
from pipeline.simulator.scenario.distribution import PPM
from pipeline.simulator.scenario.quantities import ScenarioPart
from pipeline.simulator.scenario.traffic_section import TrafficSection


class ClientSection(ScenarioPart):
    """Which client, and how it is configured."""

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
        """Its settings; raises WrongValuesError where the client would refuse them."""
        if self.version is None:
            raise WrongValuesError(((), "key version is missing: the client's, such as 3.9.1"))
        ratio = self.compression_ratio
        compression = None if ratio is None else Compression(round(ratio * PPM))
        try:
            return resolve_producer(
                self.client, self.version, self.config, strategy=self.strategy, compression=compression
            )
        except WrongSettingError as error:
            if error.name in self.config:
                raise WrongValuesError((("config", error.name), error.problem)) from error
            is_key = error.name in ClientSection.model_fields
            raise WrongValuesError(((error.name,), error.problem) if is_key else ((), str(error))) from error


def _list_traffic(value: Any) -> Any:  # noqa: ANN401  (whatever YAML holds)
    return value if isinstance(value, list) else [value]


class ProducerSection(ClientSection):
    """A producer, or several alike."""

    name: str
    """its client.id; of several, with a number after it"""
    count: int = Field(1, ge=1, le=10_000)
    """how many alike"""
    traffic: Annotated[tuple[TrafficSection, ...], BeforeValidator(_list_traffic)] = Field(min_length=1)
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

    def changed_by(self, change: ClientSection) -> ProducerSection:
        """The producer with the keys that a variant gives; its configuration stays unless the client is another one."""
        given = {name: getattr(change, name) for name in change.model_fields_set & ClientSection.model_fields.keys()}
        if change.client != self.client and "client" in given:
            return ProducerSection.model_construct(name=self.name, count=self.count, traffic=self.traffic, **given)
        return self.model_copy(update={**given, "config": {**self.config, **change.config}})
