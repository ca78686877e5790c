"""Metrics sources in the configuration: what is refused, with the key's name and never with a secret."""

import pytest

from pipeline.config_file import load_config
from pipeline.errors import ConfigError
from tests.config_files import write_configuration

SECRET = "hunter2-not-to-be-seen"


def load(tmp_path, *sources, **cluster):
    return load_config(write_configuration(tmp_path, {"c": {"sources": list(sources), **cluster}})).clusters["c"]


def test_paths_are_taken_from_the_file_s_folder(tmp_path):
    cluster = load(
        tmp_path,
        {
            "kind": "prometheus",
            "url": "https://p:9090/prefix",
            "access": {"tls_config": {"ca_file": "ca.pem", "cert_file": "/etc/c.pem"}},
        },
        {"kind": "exporter_urls", "producers": {"a": "http://a/metrics"}, "path": "pages"},
        {"kind": "librdkafka_statistics", "paths": ["stats", "runs/*.json"]},
        {"kind": "dump_log", "paths": ["dumps"], "broker": 3},
        {"kind": "reassign_verify", "path": "verify.txt"},
        producers={"a": {"linger.ms": 5, "acks": "all"}},
    )
    server, urls, statistics, dumps, verified = cluster.sources
    assert str(server.access.tls_config.ca_file) == str(tmp_path / "ca.pem")
    assert str(server.access.tls_config.cert_file) == "/etc/c.pem"
    assert urls.path == tmp_path / "pages"
    assert statistics.paths == (tmp_path / "stats", tmp_path / "runs/*.json")
    assert (dumps.paths, dumps.broker) == ((tmp_path / "dumps",), 3)
    assert verified.path == tmp_path / "verify.txt"
    assert cluster.producers == {"a": {"linger.ms": "5", "acks": "all"}}


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ({"kind": "prometheus", "url": f"http://me:{SECRET}@p:9090"}, "access.basic_auth"),
        ({"kind": "prometheus", "url": "file:///etc/passwd"}, "is not an http or https URL"),
        ({"kind": "prometheus", "url": "http://p", "step": "30s"}, "is not a duration"),
        (
            {"kind": "producer_metrics", "path": "p", "interval": "5s"},
            "clusters.c.sources[0].interval: '5s' is not a duration",
        ),
        (
            {"kind": "prometheus", "url": "http://p", "access": {"password": "x"}},
            "access.password: unknown key; expected basic_auth, bearer_token_variable, ",
        ),
        (
            {
                "kind": "prometheus",
                "url": "http://p",
                "access": {"bearer_token_variable": "T", "basic_auth": {"username": "u", "password_variable": "V"}},
            },
            "one of them",
        ),
        (
            {"kind": "prometheus", "url": "http://p", "access": {"basic_auth": SECRET}},
            "found a text; expected a mapping",
        ),
        ({"kind": "exporter_urls", "path": "p"}, "give producers or brokers"),
        ({"kind": "exporter_urls", "path": "p", "producers": {"../a": "http://a"}}, "names a folder"),
        ({"kind": "exporter_urls", "path": "p", "brokers": {1: f"http://u:{SECRET}@b"}}, "access.basic_auth"),
        ({"kind": "exporter_urls", "path": "p", "producers": {"1": "http://a"}, "brokers": {1: "http://b"}}, "twice"),
        ({"kind": "librdkafka_statistics", "paths": []}, "found nothing; expected at least 1"),
    ],
)
def test_refused(tmp_path, source, words):
    with pytest.raises(ConfigError) as error:
        load(tmp_path, source)
    assert words in str(error.value)
    assert SECRET not in str(error.value)
