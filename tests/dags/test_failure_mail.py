"""A mail about a failed task while the mail server is away. Oracle: what a real server gets once it is back."""

import json

import pytest

from pipeline.alerting.incident_mail import describe_broker_share
from pipeline.alerting.webhook import render_webhook
from pipeline.config_file import load_config
from pipeline.jobs import deliver_alerts
from pipeline.storage.outbox import pending, queue
from tests.config_files import write_configuration
from tests.dags.scripts import SOURCES, run_script, run_under
from tests.mail_parts import read_mail
from tests.unit.alerting.examples import new_evidence
from tests.unit.alerting.queued_mails import message_for
from tests.unit.alerting.smtp_servers import Mailbox, authenticate, free_port, serving
from tests.unit.sources.http_servers import receiving

SCRIPT = """
import sys
from dags.mail import deliver_text
for _ in range(int(sys.argv[1])):
    print(deliver_text("task failed", "half a character: \\udcff"))
"""
MAIL = {"to": ["platform@example.org"]}


def connection(port, **login):
    """Airflow's, to a mail server on this machine."""
    plain = {"disable_ssl": True, "disable_tls": True}
    return json.dumps({"conn_type": "smtp", "host": "127.0.0.1", "port": port, "extra": plain, **login})


def test_it_is_queued_once_and_leaves_when_the_server_is_back(tmp_path):
    away = {"AIRFLOW_CONN_SMTP_DEFAULT": connection(free_port())}
    done = run_script(tmp_path, SCRIPT, "2", mail=MAIL, variables=away)
    told = [line for line in done.stdout.splitlines() if line.startswith("queued, as smtp://127.0.0.1:")]
    assert len(told) == 2, done.stdout
    config = load_config(tmp_path / "partition-health.yaml")
    with serving(mailbox := Mailbox()) as smtp:
        deliver_alerts.run(config, smtp, now_ms=pending(config.warehouse)[0].queued_at_ms)
    (got,) = (read_mail(one) for one in mailbox.kept)
    assert (got["Subject"], got["To"]) == ("task failed", "platform@example.org")
    assert got.get_content().strip() == r"half a character: \udcff"
    assert pending(config.warehouse) == []


def test_with_a_mail_about_a_failure_leaves_what_waits(tmp_path):
    """While ingest fails nothing else delivers; secrets of webhooks and the mail server are passwords of connections."""
    hook = {"name": "chat", "url_variable": "CHAT_WEBHOOK"}
    path = write_configuration(tmp_path, {"one": {"sources": SOURCES}}, mail=MAIL | {"webhooks": [hook]})
    config = load_config(path)
    content = describe_broker_share(new_evidence())
    for message in (render_webhook(content, config.mail.webhooks[0], now_ms=0), message_for(new_evidence())):
        queue(config.warehouse, message, run_id="r")
    wanted = {"auth_require_tls": False, "authenticator": authenticate}
    with serving(mailbox := Mailbox(), **wanted) as smtp, receiving() as (url, got):
        secret = json.dumps({"conn_type": "partition_health_secret", "password": url})
        own = {
            "AIRFLOW_CONN_SMTP_DEFAULT": connection(smtp.port, login="alerts", password="s3cr3t"),
            "AIRFLOW_CONN_CHAT_WEBHOOK": secret,
        }
        run_under(path, SCRIPT, "1", variables=own)
    told = [read_mail(one)["Subject"].partition(" ")[0] for one in mailbox.kept]
    assert (told, len(got), pending(config.warehouse)) == (["task", "[FAIL]"], 1, [])


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"host": "mail.example.org", "login": "alerts", "password": "s3cr3t"}, "the password would be sent in clear"),
        ({"host": None}, "host: found nothing; expected a text"),
        ({"extra": {"disable_ssl": True, "timeout": "soon"}}, "extra or timeout"),
        ({"extra": [1]}, "extra or timeout"),
    ],
    ids=["password in clear", "no host", "no number", "a list"],
)
def test_a_connection_that_names_no_usable_server_loses_no_mail_and_holds_up_no_webhook(tmp_path, wrong, said):
    hook = {"name": "chat", "url_variable": "CHAT_WEBHOOK"}
    path = write_configuration(tmp_path, {"one": {"sources": SOURCES}}, mail=MAIL | {"webhooks": [hook]})
    config = load_config(path)
    queue(
        config.warehouse,
        render_webhook(describe_broker_share(new_evidence()), config.mail.webhooks[0], now_ms=0),
        run_id="r",
    )
    with receiving() as (url, got):
        own = {"AIRFLOW_CONN_SMTP_DEFAULT": connection(25, **wrong), "CHAT_WEBHOOK": url}
        done = run_under(path, SCRIPT + DELIVER, "1", variables=own)
    assert said in done.stdout
    assert "s3cr3t" not in done.stdout + done.stderr
    (waits,) = pending(config.warehouse)
    assert (len(got), waits.subject_line) == (1, "task failed")


DELIVER = """
from dags.mail import deliver_queued
from pipeline.errors import DeliveryError
import time
try:
    deliver_queued(time.time_ns() // 1_000_000)
except DeliveryError as error:
    print(error)
"""
