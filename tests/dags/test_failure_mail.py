"""A mail about a failed task while the mail server is away. Oracle: what a real server gets once it is back."""

import json
import os
import subprocess
import sys
from email import message_from_bytes
from email.policy import default
from pathlib import Path

from pipeline.config_file import load_config
from pipeline.jobs import deliver_alerts
from pipeline.storage.outbox import pending
from tests.unit.alerting.smtp_servers import Mailbox, free_port, serving

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
