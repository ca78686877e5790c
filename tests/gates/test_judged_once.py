"""A run over windows that another run judged from the same inputs repeats their verdict and writes no table."""

from __future__ import annotations

from pipeline.cli.steps import judge_windows
from pipeline.engine import InProcess
from pipeline.storage.durability import find_version
from pipeline.storage.tables_on_disk import table_path
from pipeline.tables import TABLES
from tests.unit.jobs.one_cluster import write_config
from tests.unit.jobs.test_pending_windows import FIRST, ingest_again, run_over, write_status


def test_a_window_is_judged_once_while_nothing_changes(tmp_path):
    config = write_config(tmp_path)
    write_status(config, (FIRST,))
    run = run_over(config, FIRST)

    def versions():
        return {table.name: find_version(table_path(config.warehouse, table)) for table in TABLES}

    first = judge_windows(InProcess(), run)
    after_first = versions()
    again = judge_windows(InProcess(), run)
    assert versions() == after_first
    assert (again.written, again.is_healthy, again.verdict) == ((), first.is_healthy, first.verdict)
    assert "are judged already, and nothing that they were judged from has changed since" in again.notes[0]

    anew = judge_windows(InProcess(), ingest_again(run))
    assert "gold.verdicts at version 2" in anew.written
