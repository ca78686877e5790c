"""A run over windows that another run judged from the same inputs repeats their verdict and writes no table; two runs
never ingest or judge a cluster at one time."""

import threading

import pytest

from pipeline.errors import StorageConflictError
from pipeline.steps import ingest_windows, judge_windows
from pipeline.storage.durability import find_version
from pipeline.storage.locks import holding
from pipeline.storage.tables_on_disk import ensure_tables, table_path
from pipeline.tables import TABLES
from pipeline.tables.gold import VERDICTS
from tests.engines import sail
from tests.unit.jobs.one_cluster import write_config
from tests.unit.jobs.test_pending_windows import FIRST, ingest_again, run_over, write_status


def test_a_window_is_judged_once_while_nothing_changes(tmp_path):
    config = write_config(tmp_path)
    write_status(config, (FIRST,))
    run = run_over(config, FIRST)

    def versions():
        return {table.name: find_version(table_path(config.warehouse, table)) for table in TABLES}

    first = judge_windows(sail(), run)
    after_first = versions()
    again = judge_windows(sail(), run)
    assert versions() == after_first
    assert (again.written, again.is_healthy, again.verdict) == ((), first.is_healthy, first.verdict)
    assert "are judged already, and nothing that they were judged from has changed since" in again.notes[0]
    anew = judge_windows(sail(), ingest_again(run))
    assert f"gold.verdicts at version {after_first['gold.verdicts'] + 1}" in anew.written


def test_a_run_waits_while_another_one_judges_the_cluster(tmp_path, caplog):
    """Else neither sees the other's verdicts, and one incident becomes two."""
    config = write_config(tmp_path)
    write_status(config, (FIRST,))
    verdicts = table_path(config.warehouse, VERDICTS)
    run = threading.Thread(target=judge_windows, args=(sail(), run_over(config, FIRST)))
    ensure_tables(config.warehouse)
    made = find_version(verdicts)
    with holding(config.local_folder, "judging-lab"):
        run.start()
        while not any("waiting until it ends" in said for said in caplog.messages):
            assert run.is_alive()
            run.join(0.01)
        assert find_version(verdicts) == made
    run.join()
    assert find_version(verdicts) == made + 1


@pytest.mark.parametrize(("doing", "step"), [("judging", judge_windows), ("ingesting", ingest_windows)])
def test_a_run_that_waits_in_vain_says_so_and_does_nothing(tmp_path, monkeypatch, doing, step):
    """Hourly runs piled up behind one that hung; two runs replaced one window, and who died left it trusted half replaced."""
    config = write_config(tmp_path)
    write_status(config, (FIRST,))
    monkeypatch.setattr("pipeline.steps.holding", lambda *of, wait_s: holding(*of, wait_s=wait_s / 100_000))
    with (
        holding(config.local_folder, f"{doing}-lab"),
        pytest.raises(StorageConflictError, match=rf"cluster lab: another process has been {doing} it for 1 h: end"),
    ):
        step(None, run_over(config, FIRST))
