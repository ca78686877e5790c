"""`partition-health run` killed at three random moments, then left alone. Oracle: a run on Sail that nobody disturbed.

A moment is a number of Delta commits since the process started, drawn with a seed: the kills land between tables, not
in the start of the JVM, which takes half of the time. The process goes with its JVM, as a container does.
"""

import email
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from pipeline.storage.locks import FOLDER, open_staging_folder
from tests.engines import on_sail
from tests.lab.process import PATIENCE_S
from tests.spark.capture_runs import differences, plan, run_all, stored
from tests.unit.alerting.smtp_servers import Mailbox, serving

ROOT = Path(__file__).parents[2]
TOPICS = ("orders", "ledger")
SOURCES = ("log_directories", "consumer_groups", "producer_metrics")
ONE_OF_ONE = {"k": 1, "n": 1}
"""So that an incident opens and ends within two windows."""
SEED = 20261121
LEFT_OUT = 5
"""Commits a repeated run may save: merges that change nothing."""
UNHEALTHY = 4


def count_commits(warehouse):
    return len(list(warehouse.glob("*/*/_delta_log/*.json")))


def run_process(config, span, is_time=lambda: False):
    """Runs the command, and kills it once it is time; returns its exit code, negative for a signal."""
    command = [sys.executable, "-m", "pipeline", "run", "--config", str(config), "--window", str(span)]
    with (config.parent / "output.txt").open("ab") as output:
        of = {"cwd": ROOT, "env": {**os.environ, "PYTHONPATH": str(ROOT)}, "start_new_session": True}
        process = subprocess.Popen(command, stdout=output, stderr=output, **of)
        deadline = time.monotonic() + PATIENCE_S
        while process.poll() is None and time.monotonic() < deadline:
            if is_time():
                break
            time.sleep(0.01)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        return process.wait()


def after_commits(warehouse, count):
    """Whether so many commits were made since."""
    begun = count_commits(warehouse)
    return lambda: count_commits(warehouse) - begun >= count


@pytest.fixture(scope="module")
def span(capture, manifest):
    """The last minute in which broker 1 is slow and the one after."""
    well_again = capture.minute_of(manifest["slow"]["to_ms"])
    return capture.span(well_again - 1, well_again + 1)


@pytest.fixture(scope="module")
def part(capture, tmp_path_factory):
    return capture.part(tmp_path_factory.mktemp("part") / "capture", topics=TOPICS, scrapes=("producers/orders",))


@pytest.fixture(scope="module")
def undisturbed(part, span, tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed")
    config = part.write_config(folder, topics=TOPICS, sources=SOURCES, gate=ONE_OF_ONE, keys=keys_of(part))
    with on_sail() as spark:
        return run_all(spark, plan(config, span), with_replay=True)


def keys_of(part):
    """One deployment secret for all runs, so that their key ids are comparable."""
    return {"secret": str(part.folder.parent / "shared.secret")}


@pytest.fixture(scope="module")
def killed(part, span, undisturbed, tmp_path_factory):
    """Exit codes, the moments, the warehouse and the mails that reached the server."""
    folder = tmp_path_factory.mktemp("killed")
    total = count_commits(undisturbed.warehouse)
    tables = len(list(undisturbed.warehouse.glob("*/*/_delta_log")))
    rng = random.Random(SEED)
    moments = [rng.randrange(1, total), *(rng.randrange(1, total - tables - LEFT_OUT) for _ in range(2))]
    mailbox = Mailbox()
    with serving(mailbox) as smtp:
        mail = {"to": ["kafka-platform@example.org"], "smtp": {"host": smtp.host, "port": smtp.port, "tls": "none"}}
        of = {"topics": TOPICS, "sources": SOURCES, "gate": ONE_OF_ONE, "keys": keys_of(part)}
        config = part.write_config(folder, mail=mail, spark={"engine": "spark"}, **of)
        path = folder / "partition-health.yaml"
        codes = [run_process(path, span, after_commits(config.warehouse, moment)) for moment in moments]
        codes.append(run_process(path, span))
    return codes, moments, config.warehouse, mailbox, (folder / "output.txt").read_text()


def test_three_runs_died_and_the_last_one_told_its_verdict(killed):
    codes, moments, _, _, output = killed
    assert codes == [-signal.SIGKILL] * 3 + [UNHEALTHY], (moments, output)


def test_every_table_is_equal_to_that_of_a_run_left_alone(killed, undisturbed):
    _, moments, warehouse, _, _ = killed
    told_when = ("gold.alert_outbox.payload",)  # its Date
    assert differences(undisturbed.warehouse, warehouse, leave_out=told_when) == {}, moments


def test_every_mail_arrived_once_or_twice_under_one_id(killed, undisturbed):
    _, _, warehouse, mailbox, _ = killed
    arrived = Counter(email.message_from_bytes(message)["Message-ID"].strip("<>") for message in mailbox.kept)
    queued = [row["message_id"] for row in stored(warehouse, "gold.alert_outbox", "message_id")]
    assert sorted(arrived) == sorted(queued) == sorted(message.message_id for message, _ in undisturbed.deliveries)
    assert len(queued) == 2
    assert max(arrived.values()) <= 2


def list_parts(staging):
    return list(staging.glob("*/*.parquet"))


def test_parts_of_a_killed_stage_are_deleted_and_those_of_a_run_that_lives_stay(part, span, undisturbed, tmp_path):
    """Killed once tasks have written parts; a folder of another run, which holds its lock, is there all the time."""
    config = part.write_config(tmp_path, topics=TOPICS, sources=SOURCES, gate=ONE_OF_ONE, keys=keys_of(part))
    path, staging = tmp_path / "partition-health.yaml", config.warehouse / FOLDER
    with open_staging_folder(config.warehouse) as living:
        assert run_process(path, span, lambda: list_parts(staging)) == -signal.SIGKILL
        (killed,) = {one.parent for one in list_parts(staging)}
        (living / "part.parquet").touch()
        assert run_process(path, span) == UNHEALTHY
        assert not killed.exists()
        assert list_parts(staging) == [living / "part.parquet"]
    assert list(staging.iterdir()) == []
    assert differences(undisturbed.warehouse, config.warehouse, leave_out=("gold.alert_outbox.payload",)) == {}
