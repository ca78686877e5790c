"""Producer configurations by version. Oracle: Kafka's own classes of released clients, read once into the tables here."""

import csv
from pathlib import Path

import pytest

from pipeline.errors import ConfigError
from pipeline.simulator.clients.client import MS
from pipeline.simulator.clients.producer_configs import JAVA, list_configs
from pipeline.simulator.clients.producer_settings import resolve_producer

HERE = Path(__file__).parent


def read_rows(name):
    lines = (HERE / name).read_text(encoding="utf-8").splitlines()
    return list(
        csv.DictReader((line for line in lines if not line.startswith("#")), delimiter="\t", quoting=csv.QUOTE_NONE)
    )


@pytest.mark.parametrize("version", ["0.11.0.3", "2.3.1", "3.2.3", "3.9.1", "4.1.1", "4.3.0", "4.4.0"])
def test_every_config_is_known_with_its_type_and_default(version):
    real = {row["name"]: row for row in read_rows("oracle_producer_configs.tsv") if row["version"] == version}
    known = list_configs(JAVA, version)

    assert sorted(known) == sorted(real)
    assert {name: key.type for name, key in known.items()} == {name: row["type"] for name, row in real.items()}
    has_default = [name for name, row in real.items() if row["default"] not in ("", "(none)")]
    assert {name: known[name].default for name in has_default} == {
        name: real[name]["default"].replace("-", "null") if real[name]["default"] == "-" else real[name]["default"]
        for name in has_default
    }
    assert len(has_default) > 40


def test_a_producer_resolves_as_the_real_one():
    rows = read_rows("oracle_producer_settings.tsv")
    wrong = [row for row in rows if resolve(row["version"], row["config"], row) != expect(row)]

    assert wrong == []
    assert len({row["version"] for row in rows}) == 11
    assert {row["idempotent"] for row in rows} == {"yes", "no", "refused"}


def expect(row):
    return "refused" if row["idempotent"] == "refused" else tuple(list(row.values())[2:])


def resolve(version, config, row):
    try:
        settings = resolve_producer(JAVA, version, dict(part.split("=") for part in config.split())).settings
    except ConfigError:
        return "refused"
    has_delivery_timeout = row["delivery_timeout_ms"] != ""
    return (
        "yes" if settings.is_idempotent else "no",
        str(settings.acks),
        str(settings.retry_count),
        str(settings.delivery_timeout_ns // MS) if has_delivery_timeout else "",
        str(settings.linger_ns // MS),
        str(settings.max_in_flight_count),
    )
