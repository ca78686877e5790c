"""Addresses of servers. Oracle: what httpx, which asks them, takes."""

import os
import subprocess
import sys

import httpx
import pytest

from pipeline.config.http_access import check_url

SOUND = [
    "http://prometheus:9090", "http://kube_prometheus.monitoring_ns.svc:9090/", "http://[::1]:9090/x", "https://[fe80::1]",
    "https://a.example.org/prom?tenant=a", "http://127.0.0.1:1", "http://bücher.example:80", "http://xn--bcher-kva.example",
    "http://server:", "http://HOST/a%20b",
]  # fmt: skip
ODD = [
    "http://alertmanager:9O93", "http://prometheus:99999", "http://prometheus:-1", "http://xn--a/", "http://xn--/", "http://1.2.3.999:80",
    "http://[::1", "http://a\nb/", "http://prometheus:0", "ftp://a", "http://", "http://user:pa/word@h",
]  # fmt: skip


@pytest.mark.parametrize("url", SOUND)
def test_an_address_that_can_be_asked_is_taken(url):
    assert check_url(url) == url
    assert httpx.URL(url).host


@pytest.mark.parametrize("url", ODD)
def test_an_address_that_nothing_can_ask_is_refused_where_it_stands(url):
    with pytest.raises(ValueError, match=r"URL|address") as refused:
        check_url(url)
    assert "pa/word" not in str(refused.value)


WAIT = """
from pipeline.alerting.delivery import probe
from pipeline.config.http_access import TlsConfig
from pipeline.config.mail import Smtp
from pipeline.errors import PipelineError
from pipeline.sources.live.settings import ClientSettings, Secrets
calls = [
    lambda: TlsConfig(ca_file="fifo").context(),
    lambda: TlsConfig(cert_file="fifo").context(),
    lambda: probe(Smtp(host="127.0.0.1", ca_file="fifo")),
    lambda: ClientSettings(ssl_truststore_location="fifo").tls_context(Secrets(None, None)),
]
for call in calls:
    try:
        call()
    except PipelineError as error:
        assert "not a regular file" in str(error), error
    else:
        raise AssertionError
"""


def test_a_fifo_in_place_of_a_certificate_is_an_error_and_no_wait(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    subprocess.run([sys.executable, "-c", WAIT], cwd=tmp_path, check=True, timeout=600)
