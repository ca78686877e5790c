"""What the example DAGs let through, by the functions of their tasks. Oracle: events and answers made by hand."""

import json

import pytest

from tests.dags.scripts import run_script

SCRIPT = """
import json, sys
from types import SimpleNamespace as Value
from dags.defaults import JUDGED
from dags.example_dags import deploy_when_healthy, what_if_before_a_change

def deploys(at, *events):
    held = [Value(partition_key=key, extra={"demo": {"verdict": verdict, "summary": ""}}) for key, verdict in events]
    return deploy_when_healthy.dag.get_task("is_healthy").python_callable({JUDGED: held}, Value(partition_key=at))

def changes(ratios, leaderless=(), not_judged=None, below=()):
    brokers = [{"broker_id": int(number), "changed_share_ratio": ratio} for number, ratio in ratios.items()]
    answer = {"brokers": brokers, "leaderless": list(leaderless), "not_judged": not_judged, "below_min_isr": below}
    limits = {"lose_broker": 2, "most_ratio": 1.5}
    return what_if_before_a_change.dag.get_task("is_bearable").python_callable(answer, limits)

answered = [globals()[name](*arguments) for name, *arguments in json.loads(sys.argv[1])]
print(json.dumps(answered))
"""
TEN, ELEVEN = "2026-11-21T10:00:00Z", "2026-11-21T11:00:00Z"
CASES = {
    "the newest window is healthy": (True, "deploys", ELEVEN, [TEN, "fail"], [ELEVEN, "ok"]),
    "a backfill's event about an old window comes last": (False, "deploys", TEN, [ELEVEN, "fail"], [TEN, "ok"]),
    "a backfill's run does not deploy once more": (False, "deploys", TEN, [ELEVEN, "ok"], [TEN, "ok"]),
    "the window was judged again": (False, "deploys", ELEVEN, [ELEVEN, "ok"], [ELEVEN, "fail"]),
    "a range of old windows comes last": (False, "deploys", ELEVEN, [ELEVEN, "fail"], [None, "ok"]),
    "every ratio is known and low": (True, "changes", {"1": 1.2, "2": None, "3": 1.4}),
    "one is not known": (False, "changes", {"1": 1.2, "2": None, "3": None}),
    "none is known": (False, "changes", {"2": None}),
    "one is high": (False, "changes", {"1": 1.2, "3": 1.6}),
    "the window was not judged": (False, "changes", {"1": 1.2, "3": 1.4}, [], "not judged: 2 of 3 came"),
    "acks=all is refused then": (False, "changes", {"1": 1.2, "3": 1.4}, [], None, ["orders-0"]),
}


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    asked = json.dumps([asked for _, *asked in CASES.values()])
    done = run_script(tmp_path_factory.mktemp("examples"), SCRIPT, asked, clusters=("demo",))
    return dict(zip(CASES, json.loads(done.stdout.splitlines()[-1]), strict=True))


@pytest.mark.parametrize("case", CASES)
def test_what_is_let_through(answers, case):
    assert answers[case] is CASES[case][0]
