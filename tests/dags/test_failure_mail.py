"""A mail about a failed task while the mail server is away. Oracle: what a real server gets once it is back."""

import json
import os
import subprocess
import sys
from email import message_from_bytes
from email.policy import default
from pathlib import Path

from pipeline.alerting.incident_mail import describe_broker_share
from pipeline.alerting.message import render_message
from pipeline.alerting.webhook import render_webhook
from pipeline.config_file import load_config
from pipeline.jobs import deliver_alerts
from pipeline.storage.outbox import pending, queue
from tests.unit.alerting.examples import new_evidence
from tests.unit.alerting.smtp_servers import Mailbox, free_port, serving
from tests.unit.alerting.test_webhook import receiving

ROOT = Path(__file__).parents[2]
SCRIPT = """
from dags.mail import deliver_text
print(deliver_text("task failed", "half a character: \\udcff"))
print(deliver_text("task failed", "half a character: \\udcff"))
"""


def test_it_is_queued_once_and_leaves_when_the_server_is_back(tmp_path):
    path, port = tmp_path / "own.yaml", free_port()
    clusters = {"one": {"sources": [{"kind": "log_directories", "paths": ["logs"]}]}}
    mail = {"to": ["platform@example.org"]}
    path.write_text(json.dumps({"warehouse": "w", "outbox": "o", "mail": mail, "clusters": clusters}))
    away = json.dumps(
        {"conn_type": "smtp", "host": "127.0.0.1", "port": port, "extra": {"disable_ssl": True, "disable_tls": True}}
    )
    own = {"AIRFLOW_HOME": str(tmp_path), "PARTITION_HEALTH_CONFIG": str(path), "AIRFLOW_CONN_SMTP_DEFAULT": away}
    command = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, **own}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told = [line for line in done.stdout.splitlines() if line.startswith("queued, as smtp://127.0.0.1:")]
    assert len(told) == 2, done.stdout
    config = load_config(path)
    with serving(mailbox := Mailbox()) as smtp:
        deliver_alerts.run(config, smtp, now_ms=pending(config.warehouse)[0].queued_at_ms)
    (got,) = (message_from_bytes(one, policy=default) for one in mailbox.kept)
    assert (got["Subject"], got["To"]) == ("task failed", "platform@example.org")
    assert got.get_content().strip() == r"half a character: \udcff"
    assert pending(config.warehouse) == []


def test_with_a_mail_about_a_failure_leaves_what_waits(tmp_path):
    """While ingest fails nothing else delivers; secrets of webhooks are passwords of connections, as those of sources."""
    path = tmp_path / "own.yaml"
    mail = {"to": ["platform@example.org"], "webhooks": [{"name": "chat", "url_variable": "CHAT_WEBHOOK"}]}
    clusters = {"one": {"sources": [{"kind": "log_directories", "paths": ["logs"]}]}}
    path.write_text(json.dumps({"warehouse": "w", "outbox": "o", "mail": mail, "clusters": clusters}))
    config = load_config(path)
    content = describe_broker_share(new_evidence())
    posted = render_webhook(content, config.mail.webhooks[0], now_ms=0)
    mailed = render_message(content, sender="health@x.org", recipients=["ops@x.org"], now_ms=0)
    for message in (posted, mailed):
        queue(config.warehouse, message, run_id="r")
    with serving(mailbox := Mailbox()) as smtp, receiving() as (url, got):
        server = {"conn_type": "smtp", "host": "127.0.0.1", "port": smtp.port}
        plain = {"extra": {"disable_ssl": True, "disable_tls": True}}
        own = {
            "AIRFLOW_HOME": str(tmp_path),
            "PARTITION_HEALTH_CONFIG": str(path),
            "AIRFLOW_CONN_SMTP_DEFAULT": json.dumps(server | plain),
            "AIRFLOW_CONN_CHAT_WEBHOOK": json.dumps({"conn_type": "partition_health_secret", "password": url}),
        }
        command = [sys.executable, "-c", "from dags.mail import deliver_text\ndeliver_text('task failed', 'x')"]
        done = subprocess.run(command, cwd=ROOT, env={**os.environ, **own}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told = [message_from_bytes(one, policy=default)["Subject"].partition(" ")[0] for one in mailbox.kept]
    assert (told, len(got), pending(config.warehouse)) == (["task", "[FAIL]"], 1, [])
