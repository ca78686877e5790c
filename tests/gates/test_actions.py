"""Actions of the gates' Checkpoints: incidents are queued, whatever a gate found."""

import pytest

from expectations.gates import check_health
from pipeline.config.rules import Gate
from pipeline.errors import StorageError
from pipeline.verdicts.broker_share import judge_broker_share
from tests.gates.rows import MINUTE_0_MS, gate_run
from tests.gates.test_health_gate import EVEN, HOT, LIMITS, MINUTE_MS, shares


def judge(windows):
    return judge_broker_share(shares(windows), Gate(**LIMITS), window_ms=MINUTE_MS, judged_from_ms=MINUTE_0_MS)


@pytest.mark.parametrize("windows", [[EVEN] * 3, [HOT] * 3])
def test_the_health_gate_queues_incidents_once_whatever_it_found_and_before_its_pages(tmp_path, windows):
    queued, run = [], gate_run(tmp_path)
    pages = run.config.data_docs_index("lab")
    report = check_health(run, judge(windows), lambda: queued.append(pages.exists()))
    assert (queued, pages.exists()) == ([False], True)
    assert report.success == (windows[0] == EVEN)


def test_messages_that_cannot_be_queued_fail_the_run(tmp_path):
    def queue():
        raise StorageError("the disk is full")

    with pytest.raises(StorageError, match="the disk is full"):
        check_health(gate_run(tmp_path), judge([HOT] * 3), queue)
