"""Webhooks. Oracle: what a real HTTP server got, and Slack's documented limits."""

import json
import logging
import traceback
from dataclasses import replace

import pytest

from pipeline.alerting.alertmanager import read_silences
from pipeline.alerting.incident_mail import describe_broker_share
from pipeline.alerting.webhook import post, render_webhook
from pipeline.config.mail import Alertmanager, Webhook
from pipeline.errors import ConfigError, DeliveryError, UnusableServerError
from tests.memory import tracing_memory
from tests.unit.alerting.examples import T0_MS, new_evidence, new_recommendation
from tests.unit.alerting.smtp_servers import free_port
from tests.unit.sources.http_servers import answering, receiving

GENERIC = Webhook(name="pager", url_variable="PAGER_URL")
SLACK = Webhook(name="chat", url_variable="PAGER_URL", form="slack")


@pytest.mark.parametrize("first", [b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 500 No\r\n\r\n"], ids=["header", "body"])
def test_an_answer_has_one_deadline_however_it_drips(first, monkeypatch):
    with answering(first, forever=(b"x",)) as url:
        monkeypatch.setenv("PAGER_URL", url)
        with pytest.raises(UnusableServerError, match="ReadTimeout"):
            post(b"{}", Webhook(name="pager", url_variable="PAGER_URL", timeout_s=1), message_id="1")


def test_what_was_accepted_is_delivered_however_long_the_server_goes_on(monkeypatch):
    with answering(b"HTTP/1.1 200 OK\r\n\r\n", forever=(b"x",)) as url:
        monkeypatch.setenv("PAGER_URL", url)
        assert post(b"{}", GENERIC, message_id="1") == "webhook pager"


@pytest.mark.parametrize("webhook", [GENERIC, SLACK], ids=["generic", "slack"])
def test_a_server_gets_the_bytes_that_were_queued_and_a_key_that_tells_a_repeat(webhook, monkeypatch):
    message = render_webhook(describe_broker_share(new_evidence()), webhook, now_ms=T0_MS)
    with receiving() as (url, got):
        monkeypatch.setenv("PAGER_URL", url)
        where = [post(message.payload, webhook, message_id=message.message_id) for _ in range(2)]
    assert [body for _, _, body in got] == [message.payload] * 2
    assert {headers["Idempotency-Key"] for _, headers, _ in got} == {message.message_id}
    assert where == [f"webhook {webhook.name}"] * 2
    assert got[0][0] == "/hook/s3cr3t"


def test_the_generic_document_says_all_of_it():
    content = describe_broker_share(new_evidence())
    document = json.loads(render_webhook(content, GENERIC, now_ms=T0_MS).payload)
    assert document["incident_id"] == "K-JKT62CWA"
    assert document["message_id"] == "K-JKT62CWA-new.demo.pager@partition-health.local"
    assert (document["state"], document["is_alarm"], document["changes"]) == ("new", True, ["K-JKT62CWA-new"])
    assert document["window_start"] == "2026-11-21T09:06:00Z"
    assert document["subject"].startswith("[FAIL] demo broker 1 carries 55 % of bytes in")
    assert "WHY IT IS HOT" in document["text"]


@pytest.mark.parametrize("status", [302, 400, 404, 429, 500])
def test_any_answer_but_2xx_is_an_error_with_the_servers_words_and_without_the_address(status, monkeypatch):
    with receiving(status, b"no\nsuch hook") as (url, _):
        monkeypatch.setenv("PAGER_URL", url)
        with pytest.raises(DeliveryError, match=rf"webhook pager answered {status}: no\\nsuch hook") as raised:
            post(b"{}", GENERIC, message_id="x")
    assert "s3cr3t" not in str(raised.value)


def test_an_endless_answer_is_read_only_as_far_as_it_is_shown(monkeypatch):
    with receiving(500, b"no" * 10_000_000) as (url, _):
        monkeypatch.setenv("PAGER_URL", url)
        with tracing_memory() as peak_bytes:
            with pytest.raises(DeliveryError, match="webhook pager answered 500: nono"):
                post(b"{}", GENERIC, message_id="x")
            assert peak_bytes() < 5_000_000


def test_the_address_is_in_no_log(monkeypatch, caplog):
    caplog.set_level(logging.INFO)
    with receiving() as (url, got):
        monkeypatch.setenv("PAGER_URL", url)
        post(b"{}", GENERIC, message_id="x")
    assert len(got) == 1
    assert "s3cr3t" not in caplog.text


def test_no_server_and_no_address(monkeypatch):
    with pytest.raises(ConfigError, match="PAGER_URL"):
        post(b"{}", GENERIC, message_id="x")
    monkeypatch.setenv("PAGER_URL", f"http://127.0.0.1:{free_port()}/s3cr3t")
    with pytest.raises(UnusableServerError, match="webhook pager: ConnectError; check PAGER_URL") as raised:
        post(b"{}", GENERIC, message_id="x")
    assert "s3cr3t" not in str(raised.value)


@pytest.mark.parametrize(
    "name", ["<!channel>", "<http://x|y>", "&" * 249, "`" * 249, "*a*", "😀" * 100, "\N{RIGHT-TO-LEFT OVERRIDE}evil"]
)
def test_slack_gets_names_that_cannot_act_within_its_limits(name):
    evidence = new_evidence(cluster=name, owner=name)
    hostile = replace(evidence, topics=(name,), recommendations=(new_recommendation(title=name, text=name),))
    document = json.loads(render_webhook(describe_broker_share(hostile), SLACK, now_ms=T0_MS).payload)
    texts = list(texts_of(document["blocks"]))
    assert len(document["blocks"]) <= 50
    assert max(map(len, texts)) <= 3000
    assert all(one["verbatim"] for one in marked_of(document["blocks"]))  # no address in a name becomes a link
    assert len(document["blocks"][0]["text"]["text"]) <= 150
    assert not any("<" in text or ">" in text for text in texts if text != document["blocks"][0]["text"]["text"])


def marked_of(value):
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    marked = [value] if isinstance(value, dict) and value.get("type") == "mrkdwn" else []
    return [*marked, *(one for part in inner for one in marked_of(part))]


def texts_of(value):
    if isinstance(value, dict):
        for name, inner in value.items():
            if name == "text" and isinstance(inner, str):
                yield inner
            else:
                yield from texts_of(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from texts_of(inner)


@pytest.mark.parametrize(
    "proxy", ["socks5://u:s3cr3t@proxy:1", "nonsense://u:s3cr3t@proxy", "http://u:s3cr3t@proxy:9O"]
)
def test_a_proxy_that_cannot_be_used_is_an_error_of_the_environment_without_its_password(proxy, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", proxy)
    monkeypatch.setenv("PAGER_URL", "http://hooks.example.org/x")
    with pytest.raises(UnusableServerError, match="the proxy that HTTPS_PROXY, HTTP_PROXY") as raised:
        post(b"{}", GENERIC, message_id="x")
    assert "s3cr3t" not in "".join(traceback.format_exception(raised.value))


def test_webhooks_go_by_the_proxy_of_the_environment_and_other_servers_do_not(monkeypatch):
    with receiving() as (url, got):
        monkeypatch.setenv("HTTP_PROXY", url)
        monkeypatch.setenv("PAGER_URL", "http://hooks.example.org/x")
        assert post(b"{}", GENERIC, message_id="x") == "webhook pager"
        assert [path for path, _, _ in got] == ["http://hooks.example.org/x"]
        with pytest.raises(UnusableServerError, match="Alertmanager"):
            read_silences(Alertmanager(url=f"http://127.0.0.1:{free_port()}"))
    assert len(got) == 1
