"""What a person reads in the log of a try that never began. Oracle: the form of Airflow's own lines, by hand."""

from datetime import UTC, datetime

from dags.notifiers import read_tail
from dags.plugin import append_to_log

ERROR = "Executor LocalExecutor reported failed. Extra info: [Errno 111] Connection refused"


def test_the_log_of_a_try_that_never_began_says_why(tmp_path):
    log = tmp_path / "dag_id=ingest/attempt=1.log"
    append_to_log(log, ERROR, datetime(2026, 11, 22, 1, 27, 17, tzinfo=UTC))
    assert read_tail(log) == (f"2026-11-22T01:27:17 error {ERROR}",)


def test_what_the_log_has_already_stays(tmp_path):
    log = tmp_path / "attempt=1.log"
    log.write_text("Pre Execute\n")
    append_to_log(log, ERROR, datetime(2026, 11, 22, tzinfo=UTC))
    assert read_tail(log)[0] == "Pre Execute"
