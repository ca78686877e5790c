"""What happens when a task fails: no second try for bad configuration, and a mail over Airflow's own connection.

Oracle: what Airflow recorded of the task, and the mail as a real SMTP server got it.
"""


def test_a_run_without_windows_fails_at_once_and_is_told_over_the_connection(ran, inbox):
    _, (failed, *_) = ran
    tasks = {"ingest": ["failed", 1], "hand_over": ["skipped", 1], "take_up": ["skipped", 1]}
    assert (failed["state"], failed["tasks"]) == ("failed", tasks)
    assert failed["phases"] == {"sources": "failed", "bronze_and_silver": "upstream_failed", "gate": "upstream_failed"}
    (mail,) = inbox.messages
    assert mail["Subject"].strip() == "[partition health] task partition_health_ingest.ingest failed: no window"
    assert mail["To"] == "platform@example.org"
    text = mail.get_content()
    assert "ConfigError: this run has neither a partition key nor the parameter `window`" in text
    assert "in requested_span" in text  # the end of the traceback
    assert not (ran[0] / "empty/outbox").exists()
