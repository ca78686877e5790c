"""`config`: every setting has a type, a default and a meaning. Oracle: the models themselves, and configurations by hand."""

import json

import jsonschema
import pytest
import yaml

from pipeline.cli import main


@pytest.fixture
def settings(capsys):
    assert main(["config", "--json"]) == 0
    return {row["key"]: row for row in json.loads(capsys.readouterr().out)["settings"]}


def test_every_setting_has_a_meaning(settings):
    assert [key for key, row in settings.items() if not row["meaning"] or not row["type"]] == []


@pytest.mark.parametrize(
    ("key", "kind", "default", "meaning"),
    [
        ("window", "duration", '"PT1H"', "Length of a window"),
        ("warehouse", "path", "required", "Delta tables"),
        ("clusters.NAME.gate.k", "integer", "3", "in this many windows"),
        ("clusters.NAME.gate.topics.NAME.limit_ratio", "number | null", "null", "Share ratio from which"),
        ("clusters.NAME.sources[]{live_cluster}.client.sasl.mechanism", "", "null", "How to log in"),
        ("mail.smtp.ca_file", "path | null", "null", "PEM file of the authority"),
    ],
)
def test_settings_are_listed_by_path(settings, key, kind, default, meaning):
    row = settings[key]
    assert kind in row["type"]
    assert row["default"] == default
    assert meaning in row["meaning"]


CONFIG = """
warehouse: tables
outbox: mails
window: PT1M
clusters:
  prod:
    sources:
      - {kind: live_cluster, bootstrap_servers: ["broker-1:9092"], client: {security.protocol: SASL_SSL}}
    rules: {topic_peak: {limit: 3}}
    producers: {shop: {linger.ms: 5}}
candidates: [{name: a, config: {linger.ms: 5, enable.idempotence: true}}]
"""


def test_the_schema_takes_what_the_product_takes_and_refuses_what_it_refuses(capsys):
    assert main(["config", "--schema"]) == 0
    schema = json.loads(capsys.readouterr().out)
    document = yaml.safe_load(CONFIG)
    jsonschema.validate(document, schema)
    document["clusters"]["prod"]["gate"] = {"limit": 2}
    with pytest.raises(jsonschema.ValidationError, match="'limit' was unexpected"):
        jsonschema.validate(document, schema)
    assert schema["properties"]["window"]["description"].startswith("Length of a window")


def test_the_text_names_key_type_default_and_meaning(capsys):
    assert main(["config"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) < 160
    assert "candidates: list of mapping, default: a set of its own, see --json" in lines
    at = lines.index('grace: duration, default "PT5M"')
    assert lines[at + 1].startswith("    How long after its end a window is ingested;")
