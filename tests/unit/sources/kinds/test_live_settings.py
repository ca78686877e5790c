"""A live cluster in the configuration: Kafka's names, no secret in the file."""

import pytest

from pipeline.config_file import load_config
from pipeline.errors import ConfigError
from pipeline.sources.kinds.live_cluster import LiveCluster
from tests.config_files import write_configuration


def load(tmp_path, *sources):
    return load_config(write_configuration(tmp_path, {"c": {"sources": list(sources)}})).clusters["c"].sources


LIVE = {"kind": "live_cluster", "bootstrap_servers": "b1:9092, b2:9092"}
SASL = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.username": "reader",
    "sasl.password_variable": "READER_PASSWORD",
    "ssl.truststore.location": "ca.pem",
}


def test_an_address_is_all_it_takes(tmp_path):
    (source,) = load(tmp_path, LIVE)
    assert source.bootstrap_servers == ("b1:9092", "b2:9092")
    assert source.client.security_protocol == "PLAINTEXT"
    assert source.sampling.is_whole


def test_settings_by_kafkas_names_and_files_beside_the_configuration(tmp_path):
    (source,) = load(tmp_path, {**LIVE, "client": SASL})
    assert source.client.ssl_truststore_location == tmp_path / "ca.pem"
    assert (source.client.uses_sasl, source.client.uses_tls) == (True, True)
    assert LiveCluster.model_validate_json(source.model_dump_json(by_alias=True)) == source  # as workers get it


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"bootstrap_servers": "b1"}, "is not host:port"),
        ({"bootstrap_servers": ""}, "bootstrap_servers"),
        ({"client": {"security.protocol": "SASL_SSL"}}, "sasl.mechanism"),
        ({"client": {"sasl.mechanism": "PLAIN"}}, "security.protocol is PLAINTEXT"),
        ({"client": {"sasl.password": "hunter2"}}, "sasl.password"),
        ({"sampling": {"time": 0}}, "sampling"),
        ({"read_timeout": "soon"}, "not a duration"),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path, change, word):
    with pytest.raises(ConfigError, match=word) as raised:
        load(tmp_path, {**LIVE, **change})
    assert "hunter2" not in str(raised.value)


DISKS, PARTS = {"kind": "log_directories", "paths": ["/logs"]}, {"kind": "collected", "path": "/d"}


@pytest.mark.parametrize("sources", [(LIVE, PARTS), (LIVE, LIVE), (DISKS, PARTS), (DISKS, LIVE, LIVE)])
def test_records_come_from_one_place(tmp_path, sources):
    with pytest.raises(ConfigError, match="more than one kind of source gives records"):
        load(tmp_path, *sources)


def test_brokers_may_complete_disks(tmp_path):
    disks, live = load(tmp_path, DISKS, LIVE)
    kinds = {disks.kind, live.kind}
    assert live.column_with(kinds) == "live_cluster, with log_directories"
    assert disks.column_with(kinds) == "log_directories"
