"""`outbox`: what waits is sent, and an outbox that is damaged or lost is never called delivered. Oracle: files as people get them."""

import shutil
import socket

import pytest

from pipeline.cli import main
from pipeline.errors import DeliveryError, StorageError
from pipeline.jobs import raise_incidents
from pipeline.storage.outbox import undelivered
from pipeline.storage.tables_on_disk import ensure_tables, table_path
from pipeline.tables.incidents import ALERT_OUTBOX
from tests.config_files import write_configuration
from tests.unit.alerting.examples import LOGS
from tests.unit.alerting.queued_mails import stored
from tests.unit.alerting.test_queue_messages import a_run, judged, lose_outbox


def test_the_command_sends_what_is_due_and_fails_where_it_cannot(config, tmp_path, capsys):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        smtp = {"host": "127.0.0.1", "port": closed.getsockname()[1], "tls": "none"}
        file = write_configuration(tmp_path, {"demo": LOGS}, mail={"smtp": smtp})
        assert main(["outbox", "--send", "--config", str(file)]) == DeliveryError.exit_code
    assert "0 of 2 messages delivered" in capsys.readouterr().err
    file = write_configuration(tmp_path, {"demo": LOGS})  # no server: files
    assert main(["outbox", "--retry", "all", "--send", "--config", str(file)]) == 0
    assert len(list(config.outbox.iterdir())) == len(stored(config)) == 2
    assert capsys.readouterr().out == "everything is delivered\n"
    assert undelivered(config.warehouse) == []


@pytest.mark.parametrize("damage", ["no log", "a file", "a file above"])
def test_an_outbox_without_its_log_is_damage_and_nothing_is_sent(config, tmp_path, capsys, damage):
    """It said that all is delivered, made the table anew and sent both messages again."""
    folder = table_path(config.warehouse, ALERT_OUTBOX)
    if damage == "no log":
        shutil.rmtree(folder / "_delta_log")
    else:
        target = folder if damage == "a file" else config.warehouse
        shutil.rmtree(target)
        target.write_text("x")
    file = write_configuration(tmp_path, {"demo": LOGS})
    assert main(["outbox", "--send", "--config", str(file)]) == StorageError.exit_code
    printed = capsys.readouterr()
    (line,) = printed.err.splitlines()
    assert ("data without a log" if damage == "no log" else "not a folder") in line
    assert printed.out == ""
    with pytest.raises(StorageError):
        ensure_tables(config.warehouse, (ALERT_OUTBOX,))
    assert list(config.outbox.glob("*.eml")) == []


def test_an_outbox_without_its_data_is_damage_though_all_is_delivered(config, tmp_path, capsys):
    """By the statistics of its log no message waits, so that no file would be opened to see."""
    file = write_configuration(tmp_path, {"demo": LOGS})
    assert main(["outbox", "--send", "--config", str(file)]) == 0
    capsys.readouterr()
    for data in table_path(config.warehouse, ALERT_OUTBOX).rglob("*.parquet"):
        data.unlink()
    for words in ([], ["--send"]):
        assert main(["outbox", *words, "--config", str(file)]) == StorageError.exit_code
        printed = capsys.readouterr()
        (line,) = printed.err.splitlines()
        assert "restore this folder" in line
        assert printed.out == ""
    assert len(list(config.outbox.glob("*.eml"))) == 2


@pytest.mark.parametrize("words", [[], ["--send"], ["--retry", "all", "--send"]], ids=str)
def test_a_lost_outbox_is_not_called_delivered(words, tmp_path, capsys):
    run = a_run(tmp_path)
    raise_incidents.run(run, [judged(0, is_blind=True)])
    lose_outbox(run, made_anew=False)
    file = write_configuration(tmp_path, {"demo": LOGS})
    assert main(["outbox", *words, "--config", str(file)]) == StorageError.exit_code
    printed = capsys.readouterr()
    assert "the outbox is lost" in printed.err
    assert printed.out == ""
