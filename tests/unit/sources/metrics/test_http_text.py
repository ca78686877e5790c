"""Answers nobody wants: each gives an error that says what came and what to do, and no secret.

The servers are real ones on loopback. Oracle: the table of answers below.
"""

from __future__ import annotations

import gzip
import socket

import pytest

from pipeline.config.http_access import BasicAuth, HttpAccess, TlsConfig
from pipeline.errors import ConfigError, InputError
from pipeline.sources.metrics.http_text import HttpReader, shown
from tests.lab.process import free_ports
from tests.unit.sources.http_servers import Answer, make_certificate, serving

SECRET = "hunter2-not-to-be-seen"
PAGE = "kafka_brokers 3\n"


def read(url, pauses=None, **access):
    with HttpReader(HttpAccess(**access), (pauses if pauses is not None else []).append) as http:
        return http.read(url).text


def refusal(url, pauses=None, **access):
    with pytest.raises(InputError) as error:
        read(url, pauses, **access)
    return str(error.value)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Answer("who?", 401), ["HTTP 401", "access.basic_auth", "who?"]),
        (Answer("no", 403), ["HTTP 403", "allow this user to read"]),
        (Answer("", 404), ["HTTP 404", "correct the URL"]),
        (Answer("<html>oops</html>", 400, {"Content-Type": "text/html"}), ["HTTP 400"]),
        (Answer(b"\xff\xfe"), ["not UTF-8"]),
        (Answer(PAGE, cut=5), ["broke off"]),
        (Answer(b"0" * 5000), ["more than 4,096 bytes"]),
        (Answer(gzip.compress(b"0" * 50_000_000), headers={"Content-Encoding": "gzip"}), ["more than 4,096 bytes"]),
        (Answer(status=302, headers={"Location": "file:///etc/passwd"}), ["file://", "not a web address"]),
        (Answer(status=302, headers={"Location": "http://169.254.169.254/latest"}), ["169.254.169.254", "refused"]),
        (Answer(status=302, headers={"Location": "/metrics"}), ["more than 3 redirects"]),
    ],
    ids=lambda value: None if isinstance(value, Answer) else value[0],
)
def test_refused_with_what_to_do(answer, words):
    with serving({"/metrics": answer}) as site:
        said = refusal(f"{site.url}/metrics", max_bytes=4096, attempts=1)
    assert said.startswith(f"{site.url}/metrics: ")
    for word in words:
        assert word in said
    assert "<html>" not in said


def test_busy_servers_are_asked_again_after_the_pause_they_want():
    answers = [Answer("", 503), Answer("", 429, {"Retry-After": "7"}), Answer("", 500), Answer(PAGE)]
    pauses = []
    with serving({"/metrics": answers}) as site:
        assert read(f"{site.url}/metrics", pauses) == PAGE
        assert len(site.asked) == 4
    assert pauses == [0.5, 7, 14]


@pytest.mark.parametrize("status", [429, 500, 503])
def test_they_are_not_asked_for_ever(status):
    pauses = []
    with serving({"/metrics": Answer("overloaded", status)}) as site:
        said = refusal(f"{site.url}/metrics", pauses, attempts=3)
    assert f"HTTP {status}" in said
    assert "after 3 attempts" in said
    assert len(pauses) == 2


def test_no_pause_is_longer_than_half_a_minute():
    pauses = []
    with serving({"/metrics": [Answer("", 429, {"Retry-After": "86400"}), Answer(PAGE)]}) as site:
        assert read(f"{site.url}/metrics", pauses) == PAGE
    assert pauses == [30]


def test_a_refused_identity_is_tried_once(monkeypatch):
    monkeypatch.setenv("METRICS_PASSWORD", SECRET)
    auth = BasicAuth(username="pipeline", password_variable="METRICS_PASSWORD")
    pauses = []
    with serving({"/metrics": Answer("no", 401)}) as site:
        said = refusal(f"{site.url}/metrics", pauses, basic_auth=auth)
        assert len(site.asked) == 1
    assert pauses == []
    assert SECRET not in said


def test_identities_are_sent_from_the_environment(monkeypatch):
    monkeypatch.setenv("METRICS_SECRET", SECRET)
    auth = BasicAuth(username="pipeline", password_variable="METRICS_SECRET")
    with serving({"/metrics": Answer(PAGE)}) as site:
        read(f"{site.url}/metrics", basic_auth=auth)
        read(f"{site.url}/metrics", bearer_token_variable="METRICS_SECRET")
        sent = [headers["Authorization"] for _, headers in site.asked]
    assert sent == ["Basic cGlwZWxpbmU6aHVudGVyMi1ub3QtdG8tYmUtc2Vlbg==", f"Bearer {SECRET}"]
    monkeypatch.delenv("METRICS_SECRET")
    with pytest.raises(ConfigError, match=r"METRICS_SECRET.*not set"):
        read("http://127.0.0.1:1/metrics", basic_auth=auth)


def test_redirects_go_where_they_are_allowed_and_carry_no_identity(monkeypatch):
    monkeypatch.setenv("METRICS_SECRET", SECRET)
    with serving({"/metrics": Answer(PAGE)}) as other:
        away = Answer(status=307, headers={"Location": f"{other.url}/metrics"})
        with serving(
            {"/here": away, "/near": Answer(status=301, headers={"Location": "/page"}), "/page": Answer(PAGE)}
        ) as site:
            assert read(f"{site.url}/near") == PAGE
            host = other.url.removeprefix("http://")
            assert host in refusal(f"{site.url}/here")
            assert read(f"{site.url}/here", redirects_to=(host,)) == PAGE
            said = refusal(f"{site.url}/here", redirects_to=(host,), bearer_token_variable="METRICS_SECRET")
        assert "credentials are not sent there" in said
        assert all("Authorization" not in headers for _, headers in other.asked)


def test_nobody_there():
    (port,) = free_ports(1)
    pauses = []
    assert "connection refused: nothing listens there" in refusal(f"http://127.0.0.1:{port}/metrics", pauses)
    assert len(pauses) == 3
    assert "not reached" in refusal("http://no-such-host.invalid/metrics", attempts=1)


def test_no_answer_in_time():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        said = refusal(f"http://127.0.0.1:{silent.getsockname()[1]}/metrics", attempts=1, timeout_s=0.2)
    assert "no whole answer within 0.2 s" in said


def test_tls_that_does_not_fit(tmp_path):
    pem, authority = make_certificate(tmp_path)
    pauses = []
    with serving({"/metrics": Answer(PAGE)}, certificate=pem) as site:
        assert "certificate is not trusted" in refusal(f"{site.url}/metrics", pauses)
        assert read(f"{site.url}/metrics", tls_config=TlsConfig(ca_file=authority)) == PAGE
        assert read(f"{site.url}/metrics", tls_config=TlsConfig(insecure_skip_verify=True)) == PAGE
        wrong_host = site.url.replace("127.0.0.1", "localhost")
        assert "not trusted" in refusal(f"{wrong_host}/metrics", tls_config=TlsConfig(ca_file=authority))
        plain = site.url.replace("https", "http")
        assert "https rather than http" in refusal(f"{plain}/metrics", attempts=1)
    with serving({"/metrics": Answer(PAGE)}) as site:
        said = refusal(f"{site.url.replace('http', 'https')}/metrics", pauses)
        assert "is it http rather than https" in said
    assert pauses == []  # another attempt would fare alike
    with pytest.raises(ConfigError, match="tls_config"):
        read("https://127.0.0.1:1/", tls_config=TlsConfig(ca_file=tmp_path / "none.pem"))


def test_what_is_shown_of_an_address():
    assert shown("https://u:p@h:1/x?token=t") == "https://h:1/x"
