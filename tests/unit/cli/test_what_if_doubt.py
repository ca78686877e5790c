"""What `what-if` says of a window that was not judged. Oracle: verdicts as a run writes them, by hand."""

import shutil
from dataclasses import replace

import pytest

from pipeline.cli.what_if import explain_doubt
from pipeline.errors import StorageError
from pipeline.model.verdict import Verdict
from pipeline.model.window import HOUR_MS, instant_of
from pipeline.storage.tables_on_disk import table_path
from pipeline.tables.gold import VERDICTS
from tests.unit.alerting.test_daily import GOOD
from tests.unit.alerting.test_queue_messages import a_run

REASON = "not judged: live_cluster brought 2 of 3"


def told(run, verdict, age_ms):
    run = replace(run, now_ms=run.windows[0].end_ms + age_ms)
    row = GOOD | {"window_start": instant_of(run.windows[0].start_ms), "verdict": verdict, "reason": REASON}
    run.replace(VERDICTS, [row], run.windows)
    return explain_doubt(run, run.windows[0])


@pytest.mark.parametrize(
    ("verdict", "doubt"), [("ok", None), ("fail", None), ("incomplete", REASON), ("stale", REASON)]
)
def test_a_window_whose_shares_lack_something_is_named(tmp_path, verdict, doubt):
    assert told(a_run(tmp_path), verdict, HOUR_MS) == doubt


@pytest.mark.parametrize(
    ("verdict", "age_ms", "doubt"),
    [
        ("stale", 26 * HOUR_MS, REASON),
        ("ok", 26 * HOUR_MS, "it ended 1 day 2 h ago, and no later window was judged"),
        ("ok", 2 * HOUR_MS + 90_000, None),  # freshness, grace and a window
        ("ok", 2 * HOUR_MS + 90_001, "it ended 2 h 1 min ago, and no later window was judged"),
    ],
)
def test_the_newest_window_is_named_where_it_is_older_than_its_sources_may_be(tmp_path, verdict, age_ms, doubt):
    assert told(a_run(tmp_path), verdict, age_ms) == doubt


def test_a_warehouse_of_an_older_version_without_verdicts_is_told_by_what_to_do(tmp_path):
    run = a_run(tmp_path)
    shutil.rmtree(table_path(run.warehouse, VERDICTS))
    with pytest.raises(StorageError, match=r"verdicts: no table, .*: run the newest window, which makes it$"):
        run.values(Verdict, VERDICTS, run.windows)
