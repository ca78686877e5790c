"""From a client, its version and its configuration to a producer's settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipeline.errors import ConfigError
from pipeline.partitioners.strategy import parse_version
from pipeline.simulator.clients import java_settings, librdkafka_settings
from pipeline.simulator.clients.client import HASHED_ALWAYS, PLACEMENTS, Compression, Family, Settings
from pipeline.simulator.clients.producer_configs import (
    JAVA,
    NEWEST,
    ConfigKey,
    Value,
    check_client,
    find_config,
    list_configs,
)

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class ResolvedProducer:
    """A producer as the simulator takes it, and what of its configuration it does not.

    Attributes:
        family: Whose client.
        settings: Resolved.
        strategy: What it follows, by name.
        notes: What of the configuration has no effect here, in sentences.
    """

    family: Family
    settings: Settings
    strategy: str
    notes: tuple[str, ...]


@dataclass(frozen=True)
class _Configuration:
    """Parsed: values with defaults, the keys given, by the names that others are aliases of."""

    values: dict[str, Value]
    given: frozenset[str]
    notes: tuple[str, ...]


def resolve_producer(
    client: str,
    version: str,
    config: Mapping[str, str | None],
    *,
    strategy: str | None = None,
    compression: Compression | None = None,
) -> ResolvedProducer:
    """Resolves a producer's configuration as its client does.

    Args:
        client: One of `producer_configs.CLIENTS`.
        version: Its version.
        config: Texts by the client's own names; None where a value is null.
        strategy: Followed in place of what the configuration says, by name.
        compression: What the codec does to this traffic; needed where one is configured.

    Returns:
        The producer.

    Raises:
        ConfigError: A key no version has, a value the client refuses, or a strategy the simulator does not follow.
    """
    check_client(client, version)
    module = java_settings if client == JAVA else librdkafka_settings
    configuration = _read_configuration(client, version, config)
    values, given = configuration.values, configuration.given
    if client == JAVA:
        codec = java_settings.check_codec(values, version)
        chosen = strategy or java_settings.choose_java_strategy(version, values)
        resolve = java_settings.resolve_java_settings
    else:
        codec = str(values["compression.codec"])
        chosen = strategy or librdkafka_settings.choose_librdkafka_strategy(version, values, given)
        resolve = librdkafka_settings.resolve_librdkafka_settings
    _check_strategy(client, chosen)
    if codec == "none":
        compression = None
    elif compression is None:
        raise ConfigError(
            f"compression {codec} needs compression_ratio: compressed bytes per uncompressed byte of these records"
        )
    notes = (*configuration.notes, *_list_notes(client, version, configuration))
    return ResolvedProducer(module.FAMILY, resolve(version, values, given, chosen, compression), chosen, notes)


def _check_strategy(client: str, strategy: str) -> None:
    known = [name for name in (*PLACEMENTS, *HASHED_ALWAYS) if name.startswith("java") == (client == JAVA)]
    if strategy not in known:
        raise ConfigError(f"strategy {strategy}: the simulator follows it not for {client}; expected {_join(known)}")


def _read_configuration(client: str, version: str, config: Mapping[str, str | None]) -> _Configuration:
    known = list_configs(client, version)
    values: dict[str, Value] = {key.name: key.parse(key.default) if key.default else None for key in known.values()}
    given: dict[str, str] = {}
    notes = []
    for name, text in config.items():
        key = find_config(client, version, name)
        value = key.parse(text)
        if not key.covers(version):
            notes.append(f"{name} is not in {client} {version}{_describe_span(key)}: that client ignores it")
            continue
        kept_as = key.alias_of or name
        if kept_as in given:
            raise ConfigError(f"{name} and {given[kept_as]} are one configuration; expected one of them")
        given[kept_as] = name
        values[kept_as] = value
    return _Configuration(values, frozenset(given), tuple(notes))


def _describe_span(key: ConfigKey) -> str:
    since = f" (since {key.since})" if key.since else ""
    return f" (gone since {key.before})" if key.before else since


def _list_notes(client: str, version: str, configuration: _Configuration) -> list[str]:
    module = java_settings if client == JAVA else librdkafka_settings
    notes = []
    without = sorted(configuration.given - module.INFLUENTIAL - module.NOT_SIMULATED.keys())
    if without:
        notes.append(f"without influence on the simulation: {', '.join(without)}")
    notes += [
        f"{name} is not simulated: {module.NOT_SIMULATED[name]}"
        for name in sorted(configuration.given & module.NOT_SIMULATED.keys())
        if configuration.values[name] not in (None, False)
    ]
    replaced = {name for name in configuration.given if name.startswith("partitioner.") and name != "partitioner.class"}
    if client == JAVA and replaced and configuration.values.get("partitioner.class") is not None:
        notes.append(f"{', '.join(sorted(replaced))}: without effect, as partitioner.class is set")
    if parse_version(version) >= _after(NEWEST[client]):
        notes.append(f"{client} {version} is newer than {NEWEST[client]}: taken to have the same configurations")
    return notes


def _after(version: str) -> tuple[int, ...]:
    """The next minor version."""
    *head, last = parse_version(version)
    return (*head, last + 1)


def _join(names: list[str]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}"
