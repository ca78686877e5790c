"""Addresses of servers. Oracle: what httpx, which asks them, takes."""

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
