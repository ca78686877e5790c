"""`producers` of a scenario file, and what a variant changes about them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pipeline.errors import ConfigError
from pipeline.simulator.clients.client import Compression
from pipeline.simulator.clients.producer_configs import CLIENTS, JAVA, check_client, find_config
from pipeline.simulator.clients.producer_settings import resolve_producer
from pipeline.simulator.scenario.distribution import PPM
from pipeline.simulator.scenario.measured import MEASURED_COSTS
from pipeline.simulator.scenario.scenario import Producer
from pipeline.simulator.scenario.traffic_section import parse_traffic
from pipeline.simulator.scenario.yaml_entries import gather_each

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pipeline.simulator.clients.producer_settings import ResolvedProducer
    from pipeline.simulator.scenario.scenario import Topic
    from pipeline.simulator.scenario.yaml_entries import Entry

CLIENT_KEYS = ("client", "version", "config", "strategy", "compression_ratio")
"""What a variant may change too."""
_MOST_PRODUCERS = 10_000


@dataclass(frozen=True)
class ProducerSection:
    """A producer, or several alike, as written.

    Attributes:
        place: Where it stands.
        name: Its `client.id`; of several, with a number after it.
        count: How many.
        keys: Those of `CLIENT_KEYS` that are given, but config.
        config: Configuration, by the client's names.
        traffic: Its sections of traffic.
    """

    place: Entry
    name: str
    count: int
    keys: Mapping[str, Entry]
    config: Mapping[str, Entry]
    traffic: tuple[Entry, ...]

    def with_keys(self, keys: Mapping[str, Entry], config: Mapping[str, Entry]) -> ProducerSection:
        """The producer with some keys replaced and some configuration added; another client keeps neither."""
        if "client" in keys and keys["client"].choice(CLIENTS) != self.client:
            return replace(self, keys=keys, config=config)
        return replace(self, keys={**self.keys, **keys}, config={**self.config, **config})

    @property
    def client(self) -> str:
        """Whose client."""
        return self.keys["client"].choice(CLIENTS) if "client" in self.keys else JAVA

    @property
    def version(self) -> str:
        """Its version."""
        if "version" not in self.keys:
            raise self.place.error("key version is missing: the client's, such as 3.9.1")
        return self.keys["version"].text()

    def check_config(self) -> None:
        """Checks client, version and each configuration by itself.

        Raises:
            ConfigError: What is wrong, at its line.
        """
        client, version = self.client, self.version
        try:
            check_client(client, version)
        except ConfigError as error:
            raise self.keys["version"].error(str(error)) from error
        gather_each(list(self.config.items()), lambda item: _check_value(client, version, item))

    def resolve(self) -> ResolvedProducer:
        """Its settings.

        Raises:
            ConfigError: What the client would refuse, at the line of its key.
        """
        self.check_config()
        strategy, ratio = self.keys.get("strategy"), self.keys.get("compression_ratio")
        compression = Compression(round(ratio.number(least=0.001, most=2) * PPM)) if ratio else None
        try:
            return resolve_producer(
                self.client,
                self.version,
                {name: entry.text_or_null() for name, entry in self.config.items()},
                strategy=strategy.text() if strategy else None,
                compression=compression,
            )
        except ConfigError as error:
            raise self._find_place(str(error)).error(str(error)) from error

    def build(self, topics: Sequence[Topic], resolved: ResolvedProducer) -> list[Producer]:
        """The producers.

        Args:
            topics: Of the scenario.
            resolved: See `resolve`.

        Raises:
            ConfigError: Traffic that cannot be.
        """
        parts = gather_each(self.traffic, lambda entry: parse_traffic(entry, topics, resolved.strategy))
        traffic = tuple(thread for part in parts for thread in part)
        producer = Producer(self.name, traffic, resolved.family, self.version, resolved.settings, MEASURED_COSTS)
        if self.count == 1:
            return [producer]
        return [replace(producer, name=f"{self.name}-{number}") for number in range(1, self.count + 1)]

    def _find_place(self, message: str) -> Entry:
        """The key that a message of the client's begins with, else the producer."""
        for name, entry in self.config.items():
            if message.startswith((f"{name}:", f"{name} ")):
                return replace(entry, key=entry.key.removesuffix(f".{name}"))
        if message.startswith("strategy") and "strategy" in self.keys:
            return replace(self.keys["strategy"], key="")
        codec = self.config.get("compression.type", self.config.get("compression.codec"))
        return replace(codec, key="") if codec and message.startswith("compression") else self.place


def parse_producers(entry: Entry) -> tuple[ProducerSection, ...]:
    """The producers.

    Raises:
        ConfigError: A key or a value that cannot be.
    """
    producers = gather_each(entry.items(), _parse_producer)
    if not producers:
        raise entry.error("no producer; expected at least one")
    for place, producer in enumerate(producers):
        if producer.name in (other.name for other in producers[:place]):
            raise producer.place.error(f"producer {producer.name} twice")
    return tuple(producers)


def parse_client_keys(keys: Mapping[str, Entry]) -> tuple[dict[str, Entry], dict[str, Entry]]:
    """Those of `CLIENT_KEYS` that are there, but config; and the configuration.

    Raises:
        ConfigError: The configuration is no mapping.
    """
    given = {name: keys[name] for name in CLIENT_KEYS if name in keys and name != "config"}
    return given, keys["config"].mapping() if "config" in keys else {}


def _parse_producer(entry: Entry) -> ProducerSection:
    keys = entry.mapping(known=("count", *CLIENT_KEYS), needed=("name", "traffic"))
    given, config = parse_client_keys(keys)
    traffic = tuple(keys["traffic"].items()) if keys["traffic"].is_list else (keys["traffic"],)
    if not traffic:
        raise keys["traffic"].expect("at least one section of traffic")
    count = keys["count"].whole(least=1, most=_MOST_PRODUCERS) if "count" in keys else 1
    producer = ProducerSection(entry, keys["name"].text(), count, given, config, traffic)
    if "version" in given:
        producer.check_config()
    return producer


def _check_value(client: str, version: str, item: tuple[str, Entry]) -> None:
    name, entry = item
    place = replace(entry, key=entry.key.removesuffix(f".{name}"))
    try:
        find_config(client, version, name).parse(entry.text_or_null())
    except ConfigError as error:
        raise place.error(str(error)) from error
