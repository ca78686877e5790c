"""Metrics sources in the configuration: what is refused, with the key's name and never with a secret."""

import pytest

from pipeline.config_file import load_config
from pipeline.errors import ConfigError
from tests.config_files import write_configuration

SERVER, LOGIN = {"kind": "prometheus", "url": "http://p"}, {"username": "u", "password_variable": "V"}
URLS, PAGES = {"kind": "exporter_urls", "path": "p"}, {"kind": "producer_metrics", "path": "p"}
SECRET = "hunter2-not-to-be-seen"


def load(tmp_path, *sources, **cluster):
    return load_config(write_configuration(tmp_path, {"c": {"sources": list(sources), **cluster}})).clusters["c"]


def test_paths_are_taken_from_the_file_s_folder(tmp_path):
    access = {"tls_config": {"ca_file": "ca.pem", "cert_file": "/etc/c.pem"}}
    cluster = load(
        tmp_path,
        {"kind": "prometheus", "url": "https://p:9090/prefix", "access": access},
        {"kind": "exporter_urls", "producers": {"a": "http://a/metrics"}, "path": "pages"},
        {"kind": "librdkafka_statistics", "paths": ["stats", "runs/*.json"]},
        {"kind": "reassign_verify", "path": "verify.txt"},
        producers={"a": {"linger.ms": 5, "acks": "all"}},
    )
    server, urls, statistics, verified = cluster.sources
    assert str(server.access.tls_config.ca_file) == str(tmp_path / "ca.pem")
    assert str(server.access.tls_config.cert_file) == "/etc/c.pem"
    assert urls.path == tmp_path / "pages"
    assert statistics.paths == (tmp_path / "stats", tmp_path / "runs/*.json")
    assert verified.path == tmp_path / "verify.txt"
    assert cluster.producers == {"a": {"linger.ms": "5", "acks": "all"}}


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (SERVER | {"url": f"http://me:{SECRET}@p:9090"}, "access.basic_auth"),
        (SERVER | {"url": "file:///etc/passwd"}, "is not an http or https URL"),
        (SERVER | {"step": "30s"}, "is not a duration"),
        (PAGES | {"interval": "5s"}, "clusters.c.sources[0].interval: '5s' is not a duration"),
        (
            SERVER | {"access": {"password": "x"}},
            "access.password: unknown key; expected basic_auth, bearer_token_variable, ",
        ),
        (SERVER | {"access": {"bearer_token_variable": "T", "basic_auth": LOGIN}}, "one of them"),
        (SERVER | {"access": {"basic_auth": SECRET}}, "found a text; expected a mapping"),
        (URLS, "give producers or brokers"),
        (URLS | {"producers": {"../a": "http://a"}}, "names a folder"),
        (URLS | {"brokers": {1: f"http://u:{SECRET}@b"}}, "access.basic_auth"),
        (URLS | {"producers": {"1": "http://a"}, "brokers": {1: "http://b"}}, "twice"),
        ({"kind": "librdkafka_statistics", "paths": []}, "found nothing; expected at least 1"),
    ],
)
def test_refused(tmp_path, source, words):
    with pytest.raises(ConfigError) as error:
        load(tmp_path, source)
    assert words in str(error.value)
    assert SECRET not in str(error.value)
