"""What happens when a task fails: no second try for bad configuration, and a mail over Airflow's own connection.

Oracle: what Airflow recorded of the task, and the mail as a real SMTP server got it.
"""

from __future__ import annotations

import json
from email import message_from_bytes
from email.policy import default

import pytest
import yaml
from aiosmtpd.controller import Controller

from tests.dags.conftest import EMPTY
from tests.lab.process import free_ports


class Inbox:
    """Keeps what it is sent."""

    def __init__(self) -> None:
        (self.port,) = free_ports(1)
        self.messages = []

    async def handle_DATA(self, server, session, envelope):  # noqa: N802  # aiosmtpd's name
        self.messages.append(message_from_bytes(envelope.content, policy=default))
        return "250 kept"


@pytest.fixture
def inbox():
    handler = Inbox()
    controller = Controller(handler, hostname="127.0.0.1", port=handler.port, ready_timeout=60)
    controller.start()
    yield handler
    controller.stop()


def test_a_run_without_windows_fails_at_once_and_is_told_over_the_connection(described, tmp_path, inbox):
    extra = {"disable_ssl": True, "disable_tls": True}
    connection = {"conn_type": "smtp", "host": "127.0.0.1", "port": inbox.port, "extra": extra}
    config = tmp_path / "partition-health.yaml"
    config.write_text(yaml.safe_dump(EMPTY))
    home = described["home"].copy_to(tmp_path / "airflow", config, AIRFLOW_CONN_SMTP_DEFAULT=json.dumps(connection))

    (ran,) = home.run_script("run_dags", "ingest")

    assert (ran["state"], ran["tasks"]) == ("failed", {"ingest": ["failed", 1]})
    (mail,) = inbox.messages
    assert mail["Subject"] == "[partition health] task ingest.ingest failed: no window"
    assert mail["To"] == "platform@example.org"
    text = mail.get_content()
    assert "ConfigError: this run has neither a partition key nor the parameter `window`" in text
    assert "in requested_span" in text  # the end of the traceback
    assert not (tmp_path / "outbox").exists()
