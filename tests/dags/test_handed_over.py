"""What tasks leave for `hand_over`. Oracle: a store that refuses what was never left, as Airflow's log does with an error line."""

import json

import pytest

from tests.dags.scripts import run_script

SCRIPT = """
import json, sys
from types import SimpleNamespace
from dags import runs

class Store:
    def __init__(self):
        self.left, self.turn = {}, 0
    def xcom_push(self, *, key, value):
        self.left[self.turn, key] = value
        self.turn += 1
    def xcom_pull(self, *, task_ids, key, map_indexes):
        return [self.left[turn, key] for turn in map_indexes]

store, clusters = Store(), json.loads(sys.argv[1])
for name, kind in clusters.items():
    runs.leave(store, name, **{kind: "said"})
def mail(ti, dag_run, task_id, missing, of):
    print(json.dumps(missing), file=sys.stderr)
    if len(sys.argv) > 3:
        raise runs.PipelineError("no mail server")
runs.mail_failed_clusters = mail
params = json.loads(sys.argv[2])
print(json.dumps(runs.hand_over_clusters("ingest", SimpleNamespace(), store, params)))
"""


@pytest.mark.parametrize(
    ("left", "params", "event", "mailed"),
    [
        ({"one": "event"}, {"cluster": "one"}, {"one": "said"}, ""),
        ({"one": "event", "two": "event"}, {}, {"one": "said", "two": "said"}, ""),
        ({"one": "event", "two": "failure"}, {}, {"one": "said"}, '{"two": "said"}'),
    ],
)
def test_nothing_is_asked_for_that_nobody_left(tmp_path, left, params, event, mailed):
    done = of_two_clusters(tmp_path, SCRIPT, json.dumps(left), json.dumps(params))
    assert json.loads(done.stdout.splitlines()[-1]) == event
    assert (mailed in done.stderr) == bool(mailed) or not mailed


def of_two_clusters(tmp_path, script, *arguments, is_sound=True):
    return run_script(tmp_path, script, *arguments, clusters=("one", "two"), is_sound=is_sound, window="PT15M")


def test_a_mail_server_that_is_down_holds_up_no_cluster_that_is_done(tmp_path):
    """Without an event nothing replays or judges the sound cluster, and no webhook hears of it either."""
    done = of_two_clusters(tmp_path, SCRIPT, '{"one": "event", "two": "failure"}', "{}", "down")
    assert json.loads(done.stdout.splitlines()[-1]) == {"one": "said"}
    alone = of_two_clusters(tmp_path, SCRIPT, '{"one": "failure", "two": "failure"}', "{}", "down", is_sound=False)
    assert (alone.returncode, "no mail server" in alone.stderr) == (1, True)


FAILING = """
import json
from types import SimpleNamespace
from dags import runs
from pipeline.errors import NothingUsableError

def fail(*_, **__):
    raise NothingUsableError("no source holds anything:\\nlogs/ord\\udcffers\\0-0: not read")

left = []
runs._find_run = lambda *_: SimpleNamespace(cluster_name="one")
runs._take_step = fail
ti = SimpleNamespace(task=SimpleNamespace(), try_number=1, xcom_push=lambda key, value: left.append(value))
try:
    runs.take_step("ingest_windows", 0, None, ti, {})
except NothingUsableError:
    print(json.dumps(left[-1]))
"""


def test_a_reason_holds_nothing_that_airflows_database_refuses(tmp_path):
    """Postgres takes no NUL in JSON, and half a character is no UTF-8: another error would hide the reason."""
    done = run_script(tmp_path, FAILING)
    reason = "NothingUsableError: no source holds anything:\nlogs/ord\\udcffers\\x00-0: not read"
    assert json.loads(done.stdout.splitlines()[-1]) == {"phase": {"one": "sources"}, "failure": {"one": reason}}


SAYING = """
import json
from types import SimpleNamespace
from dags import runs
from pipeline.steps import StepReport

said = StepReport(notes=("topic a\\0",), warnings=("b\\udcff\\nc",), verdict="d\\0")
left = []
runs._find_run = lambda *_: SimpleNamespace(cluster_name="one")
runs._take_step = lambda *_: said
ti = SimpleNamespace(task=SimpleNamespace(), try_number=1, xcom_push=lambda key, value: left.append(value))
report = runs.take_step("judge_windows", 0, None, ti, {})
event = left[-1]["event"]["one"]
print(json.dumps([report.notes, report.warnings, report.verdict, event["summary"], event["warnings"]]))
"""


def test_neither_notes_nor_an_event_hold_what_airflows_database_refuses(tmp_path):
    """A metadata log gives a topic any name; the task failed after its commit, with each try."""
    done = run_script(tmp_path, SAYING)
    warning = "b\\udcff\nc"
    assert json.loads(done.stdout.splitlines()[-1]) == [["topic a\\x00"], [warning], "d\\x00", "d\\x00", [warning]]


EVENTS = """
import json
from dags.runs import describe_event
from pipeline.steps import StepReport
known = {name: describe_event(StepReport(versions={"t": 1}, **said))["verdict"] for name, said in {
    "judged": {}, "not judged": {"is_known": False}, "not judged, and hot before": {"is_known": False, "is_healthy": False},
}.items()}
print(json.dumps(known))
"""


def test_an_event_about_a_window_that_was_not_judged_is_not_ok(tmp_path):
    """While a reassignment runs no share is judged, and nothing fails: others' DAGs would deploy."""
    done = run_script(tmp_path, EVENTS)
    verdicts = {"judged": "ok", "not judged": "none", "not judged, and hot before": "fail"}
    assert json.loads(done.stdout.splitlines()[-1]) == verdicts


GIVEN_UP = """
import json, sys
from types import SimpleNamespace
import pipeline.steps
from dags import runs
from pipeline.errors import DataGateError

def take_steps(taken, steps, on_error, **_):
    errors = [DataGateError("lags behind")] if taken == (lost,) else []
    return ({} if errors else {"one": [pipeline.steps.StepReport(verdict="said")]}), errors

lost = SimpleNamespace(cluster_name="one", span="lost")
gone, taken = lambda *_: json.loads(sys.argv[1]), lambda *_: (lost,)
own = SimpleNamespace(cluster_name="one", window_ms=1, list_given_up=gone, over_lost_windows=taken)
pipeline.steps.take_steps = take_steps
runs.lend_secrets = lambda *_: None
runs._find_run = lambda *_: own
ti = SimpleNamespace(task=SimpleNamespace(), try_number=int(sys.argv[2]), dag_id="ingest", task_id="take_up")
try:
    runs.take_up_lost("ingest_windows", 0, SimpleNamespace(partition_key="k", run_id="r"), ti, {})
except runs.AirflowSkipException as skipped:
    print(skipped)
"""


@pytest.mark.parametrize(
    ("gone", "try_number", "told_count"), [([], 1, 0), (["09:00/10:00"], 1, 1), (["09:00/10:00"], 2, 0)]
)
def test_earlier_windows_that_no_run_takes_up_again_are_told(tmp_path, gone, try_number, told_count):
    """Once: they are taken up by a run's first try alone."""
    of_two_clusters(tmp_path, GIVEN_UP, json.dumps(gone), f"{try_number}")
    mails = [path.read_text() for path in tmp_path.glob("outbox/*.eml")]
    said = [("one: no data of 09:00/10:00" in mail, "DataGateError: lags behind" in mail) for mail in mails]
    assert said == [(True, True)] * told_count


KILLED = """
import json, os, sys
from types import SimpleNamespace
import pipeline.steps
from dags import runs
from pipeline.errors import NothingUsableError

def take_steps(taken, steps, on_error, **_):
    print([one.span for one in taken])
    if taken == (lost,):
        sys.stdout.flush()
        os._exit(137)
    errors = [NothingUsableError("no source")] if "fails" in sys.argv else []
    for error in errors:
        on_error(own, steps[0], error)
    return ({} if errors else {"one": [pipeline.steps.StepReport(verdict="said")]}), errors

own, lost = (SimpleNamespace(cluster_name="one", span=span, warehouse="w", window_ms=1) for span in ("own", "lost"))
own.over_lost_windows = lambda *_: (lost,)
pipeline.steps.take_steps = take_steps
runs.load_config = runs.lend_secrets = lambda *_: None
runs._find_run = lambda *_: own
ti = SimpleNamespace(task=SimpleNamespace(), try_number=1, xcom_push=lambda key, value: print(json.dumps(value)))
dag_run = SimpleNamespace(partition_key="k")
try:
    runs.take_step("ingest_windows", 0, dag_run, ti, {})
except NothingUsableError:
    pass
print("handed on")
runs.take_up_lost("ingest_windows", 0, dag_run, ti, {})
"""


@pytest.mark.parametrize(("how", "kind"), [("passes", "event"), ("fails", "failure")])
def test_a_lost_window_that_kills_its_process_is_taken_up_after_the_runs_own_is_handed_on(tmp_path, how, kind):
    """By a task behind `hand_over`: the newest window waited for a day of them."""
    done = of_two_clusters(tmp_path, KILLED, how, is_sound=False)
    said = [line for line in done.stdout.splitlines() if "[warning" not in line]
    assert (done.returncode, said[-2:]) == (137, ["handed on", "['lost']"]), done.stderr
    assert [line for line in said if line.startswith("['")] == ["['own']", "['lost']"]
    assert [*json.loads(said[-3])][-1] == kind
