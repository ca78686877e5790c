"""What a producer can be configured with, by client and version: names, types, valid values, defaults.

The tables are package data, a row for each span of versions in which nothing about a configuration changes. The Java
one was read from the `ConfigDef` of released clients, 0.11 to 4.3, the other from librdkafka 2.16's own list.

References:
    Kafka `clients/producer/ProducerConfig.java`; librdkafka `CONFIGURATION.md`, `CHANGELOG.md`; KIP-679, KIP-580,
    KIP-1030, KIP-1123.
"""

from __future__ import annotations

import csv
import difflib
import functools
from dataclasses import dataclass
from importlib.resources import files

from pipeline.errors import ConfigError
from pipeline.partitioners.strategy import is_between, parse_version

JAVA = "kafka-clients"
LIBRDKAFKA = "librdkafka"
CLIENTS = (JAVA, LIBRDKAFKA)
OLDEST = {JAVA: "0.11", LIBRDKAFKA: "1.0"}
"""Before, clients write other record batches."""
NEWEST = {JAVA: "4.3", LIBRDKAFKA: "2.16"}
"""The newest version a table was read from; later ones are taken to be alike."""
_TABLES = {JAVA: "java_producer.tsv", LIBRDKAFKA: "librdkafka_producer.tsv"}
_WHOLE_LIMITS = {
    "short": (-(2**15), 2**15 - 1),
    "int": (-(2**31), 2**31 - 1),
    "long": (-(2**63), 2**63 - 1),
}

Value = bool | int | float | str | None


@dataclass(frozen=True)
class ConfigKey:
    """A configuration in a span of versions.

    Attributes:
        name: Kafka's, or librdkafka's.
        type: `boolean`, `short`, `int`, `long`, `double`, `float`, or another one that is taken as text.
        valid: `least..most`, `least..`, names between `|`, or "" where the client checks nothing.
        default: As text, or "".
        since: First version, or "".
        before: First version that has it no more or otherwise, or "".
        alias_of: The name that librdkafka keeps the value under, or "".
    """

    name: str
    type: str
    valid: str
    default: str
    since: str
    before: str
    alias_of: str

    def covers(self, version: str) -> bool:
        """Tells whether a version of the client has it so."""
        return is_between(version, self.since, self.before)

    def parse(self, text: str | None) -> Value:
        """The value of a text, as the client takes it.

        Raises:
            ConfigError: It is none of this type, or not a valid one.

        >>> find_config(JAVA, "3.9.1", "linger.ms").parse("20")
        20
        """
        if text is None or text == "null":
            return None
        value = self._parse_type(text.strip())
        self._check(value, text)
        return value

    def _parse_type(self, text: str) -> Value:
        if self.type == "boolean":
            if text.lower() not in ("true", "false"):
                raise ConfigError(f"{self.name}: {text!r}; expected true or false")
            return text.lower() == "true"
        if self.type in ("double", "float"):
            try:
                return float(text)
            except ValueError:
                raise ConfigError(f"{self.name}: {text!r}; expected a number") from None
        if self.type not in _WHOLE_LIMITS or text in self.valid.split("|"):
            return text
        try:
            number = int(text) if "_" not in text else None
        except ValueError:
            number = None
        least, most = _WHOLE_LIMITS[self.type]
        if number is None or not least <= number <= most:
            raise ConfigError(f"{self.name}: {text!r}; expected {self.describe_valid()}")
        return number

    def _check(self, value: Value, text: str) -> None:
        if not self.valid or isinstance(value, bool):
            return
        for part in self.valid.split("|"):
            least, dots, most = part.partition("..")
            if not dots:
                if str(value).lower() == part.lower():
                    return
            elif isinstance(value, int | float) and float(least) <= value and (not most or value <= float(most)):
                return
        raise ConfigError(f"{self.name}: {text!r}; expected {self.describe_valid()}")

    def describe_valid(self) -> str:
        """What may be given, in words.

        >>> find_config(JAVA, "3.9.1", "acks").describe_valid()
        'all, -1, 0 or 1'
        """
        if self.type == "boolean":
            return "true or false"
        kind = "a whole number" if self.type in _WHOLE_LIMITS else "a number"
        parts = []
        for part in self.valid.split("|") if self.valid else ():
            least, dots, most = part.partition("..")
            if not dots:
                parts.append(part)
            else:
                parts.append(f"{kind} from {least} to {most}" if most else f"{kind}, {least} or more")
        if not parts:
            return kind if self.type in (*_WHOLE_LIMITS, "double", "float") else "a text"
        return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} or {parts[-1]}"


def check_client(client: str, version: str) -> None:
    """Checks that the simulator knows a client in that version.

    Raises:
        ConfigError: It does not.
    """
    if client not in CLIENTS:
        raise ConfigError(f"client {client!r}; expected {' or '.join(CLIENTS)}")
    if parse_version(version) < parse_version(OLDEST[client]):
        raise ConfigError(f"{client} {version}; expected {OLDEST[client]} or later: older ones batch otherwise")


def list_configs(client: str, version: str) -> dict[str, ConfigKey]:
    """Every configuration a version of a client knows, by name."""
    return {name: key for name, spans in _load_table(client).items() for key in spans if key.covers(version)}


def find_config(client: str, version: str, name: str) -> ConfigKey:
    """A configuration by name.

    Args:
        client: One of `CLIENTS`.
        version: Its version.
        name: The client's name for it.

    Returns:
        The configuration in that version; where only other versions have it, as they have it: see `ConfigKey.covers`.

    Raises:
        ConfigError: No version has it; names the nearest ones.
    """
    table = _load_table(client)
    if name not in table:
        raise ConfigError(f"unknown config key {name}{_describe_near(client, name)}")
    covering = [key for key in table[name] if key.covers(version)]
    return covering[0] if covering else table[name][-1]


def _describe_near(client: str, name: str) -> str:
    for other in CLIENTS:
        if other != client and name in _load_table(other):
            return f"; {other} has it, {client} does not"
    spelled = name.lower().replace("_", ".").replace("-", ".")
    known = _load_table(client)
    near = [spelled] if spelled in known else difflib.get_close_matches(spelled, known, n=3, cutoff=0.6)
    return f"; nearest: {', '.join(near)}" if near else f"; expected a producer config of {client}"


@functools.cache
def _load_table(client: str) -> dict[str, list[ConfigKey]]:
    text = (files("pipeline.simulator.clients") / "configs" / _TABLES[client]).read_text(encoding="utf-8")
    table: dict[str, list[ConfigKey]] = {}
    for row in csv.DictReader(text.splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE):
        table.setdefault(row["name"], []).append(ConfigKey(**row))
    return table
