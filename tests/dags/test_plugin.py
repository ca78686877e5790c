"""What a person reads of a task's log, of a try that never began, too. Oracle: the form of Airflow's own lines, by hand."""

import json
from datetime import UTC, datetime

import pytest

from dags.notifiers import LOG_LINES, read_tail
from dags.plugin import append_to_log
from tests.dags.scripts import run_script

ERROR = "Executor LocalExecutor reported failed. Extra info: [Errno 111] Connection refused"


def test_the_log_of_a_try_that_never_began_says_why(tmp_path):
    log = tmp_path / "dag_id=ingest/attempt=1.log"
    append_to_log(log, ERROR, datetime(2026, 11, 22, 1, 27, 17, tzinfo=UTC))
    assert read_tail(log) == (f"2026-11-22T01:27:17 error {ERROR}",)


LOST = """
from datetime import UTC, datetime
from types import SimpleNamespace
from dags.plugin import on_task_instance_failed
for dag_id in ("partition_health_health", "theirs"):
    ti = SimpleNamespace(dag_id=dag_id, task_id="deliver_alerts", run_id="r", map_index=-1, try_number=1, pool="default_pool")
    ti.end_date = datetime(2026, 11, 22, tzinfo=UTC)
    on_task_instance_failed(None, ti, "Connection refused")
"""


def test_every_task_of_our_dags_has_such_a_line_whatever_its_pool_and_no_other(tmp_path):
    run_script(tmp_path, LOST, variables={"AIRFLOW__LOGGING__BASE_LOG_FOLDER": str(tmp_path / "logs")})
    (told,) = (tmp_path / "logs").rglob("attempt=1.log")
    assert "dag_id=partition_health_health" in str(told)
    assert read_tail(told) == ("2026-11-22T00:00:00 error Connection refused",)


def test_what_the_log_has_already_stays(tmp_path):
    log = tmp_path / "attempt=1.log"
    log.write_text("Pre Execute\n")
    append_to_log(log, ERROR, datetime(2026, 11, 22, tzinfo=UTC))
    assert read_tail(log)[0] == "Pre Execute"


@pytest.fixture
def log(tmp_path):
    def write(*lines):
        path = tmp_path / "attempt=1.log"
        path.write_text("".join(f"{line}\n" for line in lines))
        return path

    return write


def test_structured_lines_become_readable_and_only_the_last_are_kept(log):
    entries = [
        {"timestamp": f"2026-11-21T09:00:{n:02}.123456Z", "level": "info", "event": f"step\n{n}"} for n in range(50)
    ]
    told = read_tail(log(*(json.dumps(entry) for entry in entries)))
    assert len(told) == LOG_LINES
    assert told[-1] == "2026-11-21T09:00:49 info step 49"


def test_other_lines_stay_as_they_are_and_long_ones_are_cut(log):
    assert read_tail(log("Killed", "x" * 10_000, "[1, 2]")) == ("Killed", "x" * 300, "[1, 2]")


def test_a_log_that_lies_elsewhere_is_left_out(tmp_path):
    assert read_tail(tmp_path / "nowhere.log") == ()
