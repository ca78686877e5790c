"""Producer configs by client and version: names, types, valid values, defaults.

The tables are package data, a row for each span of versions in which nothing about a configuration changes. The Java
one was read from the `ConfigDef` of released clients, 0.11 to 4.4, librdkafka's from its own list of 2.16. Those of
other clients hold what batching depends on, read from their sources.

References: Kafka `ProducerConfig.java`; librdkafka `CONFIGURATION.md`, `CHANGELOG.md`; KIP-679, 580, 1030, 1123.
"""

import csv
import difflib
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Any

from pipeline.errors import ConfigError
from pipeline.partitioners.strategy import is_between, parse_version
from pipeline.simulator.clients.client import MS

JAVA = "kafka-clients"
LIBRDKAFKA = "librdkafka"
_SPANS = {
    JAVA: ("0.11", "4.4"),
    LIBRDKAFKA: ("1.0", "2.16"),
    "franz-go": ("1.5.3", "1.22"),
    "sarama": ("1.50", "1.61"),
    "kafka-python": ("3.0", "3.0"),
    "aiokafka": ("0.12", "0.14"),
}
CLIENTS = tuple(_SPANS)
OLDEST = {client: oldest for client, (oldest, _) in _SPANS.items()}  # before, clients batch otherwise
NEWEST = {client: newest for client, (_, newest) in _SPANS.items()}  # a table was read from; later ones are alike
SIMULATED = "simulated"
_INTEGER_BITS = {"short": 16, "int": 32, "long": 64}
_FLOATS = ("double", "float")
_JITTER_PPM = 200_000  # KIP-580: 20 % either way
Value = bool | int | float | str | None


class WrongSettingError(ConfigError):
    """A setting that the client or the simulator refuses; the key as given, what was found and what is expected."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"{name}: {problem}")
        self.name = name
        self.problem = problem


@dataclass(frozen=True)
class ConfigKey:
    name: str  # Kafka's, or librdkafka's
    type: str  # `boolean`, `short`, `int`, `long`, `double`, `float`, or another one that is taken as text
    valid: str  # `least..most`, `least..`, names between `|`, or "" where the client checks nothing
    default: str  # as text, or ""
    since: str  # first version, or ""
    before: str  # first version that has it no more or otherwise, or ""
    alias_of: str  # the name that librdkafka keeps the value under, or ""
    effect: str  # `simulated`; or what it changes in a real run but not in a simulated one; or "" where neither
    settings: str = ""  # fields of `Settings` that are its value, milliseconds as nanoseconds

    def covers(self, version: str) -> bool:
        return is_between(version, self.since, self.before)

    def parse(self, text: str | None) -> Value:
        """The value of a text, as the client takes it; `WrongSettingError` if it is not of this type, or not valid."""
        is_null = text is None or text == "null"
        value = None if text is None or is_null else self._parse_type(text.strip())
        may_be_null = is_null and (not self.valid or self.default == "null")
        if not may_be_null and (value is None or not self._is_valid(value)):
            shown = "null" if is_null else repr(text)
            raise WrongSettingError(self.name, f"{shown}; expected {self.describe_valid()}")
        return value

    def _parse_type(self, text: str) -> Value:
        if self.type == "boolean":
            return {"true": True, "false": False}.get(text.lower())
        bits = _INTEGER_BITS.get(self.type)
        if (bits is None and self.type not in _FLOATS) or (self.valid and text in self.valid.split("|")):
            return text
        if "_" in text:  # Python reads 1_000, the clients do not
            return None
        try:
            number = float(text) if bits is None else int(text)
        except ValueError:
            return None
        return number if bits is None or -(2 ** (bits - 1)) <= number < 2 ** (bits - 1) else None

    def _is_valid(self, value: Value) -> bool:
        if not self.valid or isinstance(value, bool):
            return True
        for part in self.valid.split("|"):
            least, dots, most = part.partition("..")
            if not dots and str(value).lower() == part.lower():
                return True
            if dots and isinstance(value, int | float) and float(least) <= value <= float(most or "inf"):
                return True
        return False

    def describe_valid(self) -> str:
        if self.type == "boolean":
            return "true or false"
        kind = "a whole number" if self.type in _INTEGER_BITS else "a number" if self.type in _FLOATS else "a text"
        parts = []
        for part in self.valid.split("|") if self.valid else ():
            least, dots, most = part.partition("..")
            parts.append(f"{kind} from {least} to {most}" if most else f"{kind}, {least} or more" if dots else part)
        return join_options(parts or [kind])


@dataclass(frozen=True)
class ProducerConfiguration:
    client: str
    version: str
    values: Mapping[str, Any]  # by the name that others are aliases of, defaults filled in
    given: Mapping[str, str]  # as they were written, the names that were configured, by the same
    notes: tuple[str, ...]  # what of it has no effect in a simulation, in sentences

    @property
    def number(self) -> tuple[int, ...]:  # the version, to compare
        return parse_version(self.version)

    def whole(self, name: str) -> int:
        return int(self.values.get(name) or 0)

    def fields(self) -> dict[str, Any]:
        """Fields of `Settings` that are a configuration's value, as the client's table says."""
        named = {
            field: name for name, spans in _load_table(self.client).items() for field in spans[-1].settings.split()
        }
        values = {field: self.values.get(name) or 0 for field, name in named.items()}
        return {field: round(value * MS) if field.endswith("_ns") else value for field, value in values.items()}

    def backoff(self, max_since: tuple[int, ...]) -> dict[str, Any]:
        backoff_ms = self.whole("retry.backoff.ms")
        max_ms = self.whole("retry.backoff.max.ms") if self.number >= max_since else backoff_ms
        return {
            "backoff_ns": min(backoff_ms, max_ms) * MS,
            "backoff_max_ns": max_ms * MS,
            "backoff_jitter_ppm": _JITTER_PPM if max_ms > backoff_ms else 0,
        }

    def refuse(self, name: str, expected: str) -> WrongSettingError:
        return WrongSettingError(self.given.get(name, name), f"{self.values.get(name)}; expected {expected}")


def check_client(client: str, version: str) -> None:
    if client not in CLIENTS:
        raise ConfigError(f"client {client!r}; expected {join_options(CLIENTS)}")
    if parse_version(version) < parse_version(OLDEST[client]):
        raise ConfigError(f"{client} {version}; expected {OLDEST[client]} or later: older ones batch otherwise")


def list_configs(client: str, version: str) -> dict[str, ConfigKey]:
    return {name: key for name, spans in _load_table(client).items() for key in spans if key.covers(version)}


def find_config(client: str, version: str, name: str) -> ConfigKey:
    """A configuration by name, as this version has it, or else another; `WrongSettingError` names the nearest ones."""
    table = _load_table(client)
    if name not in table:
        raise WrongSettingError(name, f"unknown config key; {_describe_near(client, name)}")
    return next((key for key in table[name] if key.covers(version)), table[name][-1])


def read_configuration(client: str, version: str, config: Mapping[str, str | None]) -> ProducerConfiguration:
    """Parses a configuration and fills in the version's defaults; `ConfigError` for what is not known or not valid."""
    check_client(client, version)
    values = dict(_list_defaults(client, version))
    given: dict[str, str] = {}
    notes = []
    for name, text in config.items():
        key = find_config(client, version, name)
        value = key.parse(text)
        if not key.covers(version):
            since = f" (since {key.since})" if key.since else ""
            span = f" (gone since {key.before})" if key.before else since
            notes.append(f"{name} is not in {client} {version}{span}: that client ignores it")
            continue
        kept_as = key.alias_of or name
        if kept_as in given:
            raise WrongSettingError(name, f"the same configuration as {given[kept_as]}; expected one of them")
        given[kept_as] = name
        values[kept_as] = value
    read = ProducerConfiguration(client, version, values, given, tuple(notes))
    return replace(read, notes=(*notes, *_list_notes(read)))


def _list_notes(read: ProducerConfiguration) -> list[str]:
    effects = {name: find_config(read.client, read.version, name).effect for name in sorted(read.given)}
    notes = []
    without = [name for name, effect in effects.items() if not effect]
    if without:
        notes.append(f"without influence on the simulation: {', '.join(without)}")
    notes += [
        f"{name} is not simulated: {effect}"
        for name, effect in effects.items()
        if effect not in ("", SIMULATED) and read.values[name] not in (None, False)
    ]
    replaced = [name for name in effects if name.startswith("partitioner.") and name != "partitioner.class"]
    if replaced and read.values.get("partitioner.class") is not None:
        notes.append(f"{', '.join(replaced)}: without effect, as partitioner.class is set")
    *head, last = parse_version(NEWEST[read.client])
    if read.number >= (*head, last + 1):
        newest = NEWEST[read.client]
        notes.append(f"{read.client} {read.version} is newer than {newest}: taken to have the same configurations")
    return notes


def join_options(options: Sequence[str]) -> str:
    """Names with commas, and "or" before the last."""
    return " or ".join([", ".join(options[:-1]), options[-1]] if len(options) > 1 else options)


def _describe_near(client: str, name: str) -> str:
    spelled = name.lower().replace("_", ".").replace("-", ".")
    known = _load_table(client)
    for other in CLIENTS:
        if spelled not in known and name in _load_table(other):
            return f"{other} has it, {client} does not"
    near = [spelled] if spelled in known else difflib.get_close_matches(spelled, known, n=3, cutoff=0.6)
    return f"nearest: {', '.join(near)}" if near else f"expected a producer config of {client}"


@functools.lru_cache(maxsize=64)
def _list_defaults(client: str, version: str) -> Mapping[str, Value]:
    known = list_configs(client, version).values()
    return {key.name: key.parse(key.default) if key.default else None for key in known}


@functools.cache
def _load_table(client: str) -> dict[str, list[ConfigKey]]:
    table_name = "java" if client == JAVA else client.replace("-", "_")
    text = (files("pipeline.simulator.clients") / "configs" / f"{table_name}_producer.tsv").read_text(encoding="utf-8")
    table: dict[str, list[ConfigKey]] = {}
    for row in csv.DictReader(text.splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE, restval=""):
        table.setdefault(row["name"], []).append(ConfigKey(**row))
    return table
