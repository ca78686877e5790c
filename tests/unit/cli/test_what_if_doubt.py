"""What `what-if` says of a window that was not judged. Oracle: verdicts as a run writes them, by hand."""

import shutil

import pytest

from pipeline.errors import StorageError
from pipeline.model.verdict import Verdict
from pipeline.model.window import instant_of
from pipeline.storage.tables_on_disk import table_path
from pipeline.tables.gold import VERDICTS
from pipeline.verdicts.rules import find_doubt
from tests.unit.alerting.test_daily import GOOD
from tests.unit.alerting.test_queue_messages import a_run

REASON = "not judged: live_cluster brought 2 of 3"


@pytest.mark.parametrize(
    ("verdict", "doubt"), [("ok", None), ("fail", None), ("incomplete", REASON), ("stale", REASON)]
)
def test_a_window_whose_shares_lack_something_is_named(tmp_path, verdict, doubt):
    run = a_run(tmp_path)
    run.replace(
        VERDICTS,
        [GOOD | {"window_start": instant_of(run.windows[0].start_ms), "verdict": verdict, "reason": REASON}],
        run.windows,
    )
    assert find_doubt(run.values(Verdict, VERDICTS, run.windows)) == doubt


def test_a_warehouse_of_an_older_version_without_verdicts_is_told_by_what_to_do(tmp_path):
    run = a_run(tmp_path)
    shutil.rmtree(table_path(run.warehouse, VERDICTS))
    with pytest.raises(StorageError, match=r"verdicts: no table, .*: run the newest window, which makes it$"):
        run.values(Verdict, VERDICTS, run.windows)
