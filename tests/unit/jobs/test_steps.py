"""A cluster that fails, beside others and beside messages that wait. Oracle: what is done all the same."""

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark.errors import AnalysisException

from pipeline import steps
from pipeline.cli import main
from pipeline.cli.run import _sum_up
from pipeline.config_file import load_config
from pipeline.errors import (
    DeliveryError,
    NothingUsableError,
    SparkFailedError,
    StorageError,
    SystemFailedError,
    UnexpectedError,
)
from pipeline.model.window import TimeWindow
from pipeline.runs import JobReport, plan_runs
from pipeline.steps import StepReport, take_steps
from pipeline.storage.tables_on_disk import ensure_tables, table_path
from pipeline.tables.incidents import ALERT_OUTBOX
from tests.config_files import write_configuration
from tests.unit.alerting.examples import new_evidence
from tests.unit.alerting.queued_mails import message_for, queue
from tests.unit.jobs.test_pending_windows import FIRST

CLUSTERS = ("one", "two", "three")
LATER = TimeWindow(FIRST.end_ms, FIRST.end_ms + FIRST.duration_ms)


@pytest.fixture
def config(tmp_path):
    """Three clusters without a file to read."""
    sources = [{"kind": "log_directories", "paths": [str(tmp_path / "nowhere")]}]
    return write_configuration(tmp_path, {name: {"sources": sources} for name in CLUSTERS})


@pytest.mark.parametrize(
    ("raised", "kind"),
    [
        (Py4JNetworkError("Answer from Java side is empty"), SparkFailedError),  # the JVM was killed
        (AnalysisException("long overflow"), SparkFailedError),
        (StorageError("no space left"), StorageError),
        (KeyError("a broker told of none"), UnexpectedError),
        (ConnectionResetError(104, "Connection reset by peer"), SystemFailedError),
        (MemoryError(), SystemFailedError),
    ],
)
def test_a_cluster_that_fails_stops_no_other(config, raised, kind):
    def fail_in_two(_spark, run, _begin):
        if run.cluster_name == "two":
            raise raised
        return StepReport(verdict=run.cluster_name)

    told = []
    runs = plan_runs(load_config(config), FIRST, run_id="r", now_ms=FIRST.end_ms)
    done, errors = take_steps(runs, (fail_in_two,), lambda run, _, error: told.append((run.cluster_name, type(error))))
    assert {name: report.verdict for name, (report,) in done.items()} == {"one": "one", "three": "three"}
    assert [type(error) for error in errors] == [kind]
    assert told == [("two", kind)]


def test_a_fault_of_ours_is_logged_without_hidden_characters(config, caplog):
    def fail(*_):
        raise KeyError("\x1b]0;title\x07")

    runs = plan_runs(load_config(config), FIRST, run_id="r", now_ms=FIRST.end_ms)[:1]
    _, (error,) = take_steps(runs, (fail,), lambda *_: None)
    assert str(error).isprintable()
    assert all(line.isprintable() for line in caplog.text.splitlines())
    assert "in fail" in caplog.text


def test_messages_that_wait_leave_though_every_cluster_fails(config, capsys):
    loaded = load_config(config)
    ensure_tables(loaded.warehouse)
    queue(loaded, message_for(new_evidence(), ["ops@x.org"]))
    window = ("--window", str(FIRST), "--config", str(config))
    assert main(["run", *window]) == NothingUsableError.exit_code
    assert [path.suffix for path in loaded.outbox.iterdir()] == [".eml"]
    said = capsys.readouterr().err
    assert [name for name in CLUSTERS if f"cluster {name}: " in said] == [*CLUSTERS]
    assert said.splitlines()[-1].endswith(": 3 of 3 clusters failed: one, two, three; see their errors above")
    assert main(["run", "--cluster", "one", *window]) == NothingUsableError.exit_code
    assert "clusters failed" not in capsys.readouterr().err


def test_an_outbox_that_cannot_be_read_stops_no_cluster(config, capsys):
    loaded = load_config(config)
    ensure_tables(loaded.warehouse)
    max((table_path(loaded.warehouse, ALERT_OUTBOX) / "_delta_log").glob("*.json")).write_bytes(b"")
    assert main(["run", "--window", str(FIRST), "--config", str(config)]) == DeliveryError.exit_code
    said = capsys.readouterr().err
    assert [name for name in CLUSTERS if f"cluster {name}: " in said] == [*CLUSTERS]
    assert "delete that file" in said.splitlines()[-1]


@pytest.mark.parametrize(
    ("missing", "text"),
    [
        (["b", "c"], "2 of 3 clusters failed: b, c; see their errors above"),
        ([], "a replay failed; see its error above"),
    ],
)
def test_errors_of_several_clusters_are_one_with_the_exit_code_of_the_first(missing, text):
    error = _sum_up([NothingUsableError("x"), StorageError("y")], missing, 3)
    assert (str(error), error.exit_code) == (text, NothingUsableError.exit_code)


def test_a_command_over_a_damaged_table_ends_with_one_line_and_its_exit_code(config, capsys):
    loaded = load_config(config)
    ensure_tables(loaded.warehouse)
    log = table_path(loaded.warehouse, ALERT_OUTBOX) / "_delta_log"
    max(log.glob("*.json")).write_bytes(b"")
    assert main(["outbox", "--config", str(config)]) == StorageError.exit_code
    (line,) = capsys.readouterr().err.splitlines()
    assert "delete that file" in line


def test_an_earlier_window_that_cannot_be_replayed_stops_no_later_one(config, monkeypatch):
    """Its own windows are replayed and told first; the others are noted, and tried again by the next run."""
    (run, *_) = plan_runs(load_config(config), LATER, run_id="r", now_ms=LATER.end_ms)
    tried = []

    def fail_in_the_first(_spark, _run, turn, _begin):
        tried.append(turn)
        if turn == (FIRST,):
            raise OverflowError("a broker's delay")
        return JobReport()

    monkeypatch.setattr(steps.replay, "pending_windows", lambda _: (FIRST, LATER))
    monkeypatch.setattr(steps.replay, "run", fail_in_the_first)
    monkeypatch.setattr(steps, "check_replayed", lambda *_: [])
    monkeypatch.setattr(type(run), "split_by_rows", lambda _run, windows: (windows, ""))
    (note,) = steps.replay_windows(None, run).notes
    assert tried == [(LATER,), (FIRST,)]
    assert note == f"earlier windows {FIRST} could not be replayed: a broker's delay"
    with pytest.raises(OverflowError):
        steps.replay_windows(None, plan_runs(load_config(config), FIRST, run_id="r", now_ms=FIRST.end_ms)[0])


def test_an_earlier_window_that_cannot_be_judged_holds_up_no_later_one(config, monkeypatch):
    (run, *_) = plan_runs(load_config(config), LATER, run_id="r", now_ms=LATER.end_ms)
    tried = []

    def fail_with_the_first(_spark, _run, inputs, _begin):
        tried.append([*inputs])
        if FIRST in inputs:
            raise OverflowError("a measure")
        return StepReport(verdict="judged")

    monkeypatch.setattr(steps.score_health, "pending_windows", lambda _: (FIRST, LATER))
    monkeypatch.setattr(steps.score_health, "digest_inputs", lambda *_: {FIRST: "1", LATER: "2"})
    monkeypatch.setattr(steps, "_judge_windows", fail_with_the_first)
    report = steps.judge_windows(None, run)
    assert tried == [[FIRST, LATER], [LATER]]
    assert (report.verdict, report.notes) == ("judged", (f"earlier windows {FIRST} could not be judged: a measure",))
    monkeypatch.setattr(steps.score_health, "digest_inputs", lambda *_: {FIRST: "1"})
    with pytest.raises(OverflowError):
        steps.judge_windows(None, run)
