"""The simulator against real producers: the committed recordings.

`make fidelity ARGS=--recorded` prints every figure; here a few settings' shares and batches are held to their bars.
"""

from pathlib import Path

import pytest

from pipeline.simulator.engine.simulate import simulate
from tests.golden.runs import COMMITTED_RUNS
from tests.lab.fidelity.compare import compare
from tests.lab.fidelity.misses import explain
from tests.lab.fidelity.profile import LAB, make_profile
from tests.lab.fidelity.recordings import COMMITTED, EARLIER, read_recordings
from tests.lab.fidelity.rows import HOLDS
from tests.lab.fidelity.simulated import make_scenario, simulate_seeds
from tests.lab.fidelity.tables import read_shared_run

RECORDED = read_recordings(COMMITTED)
HERE = make_profile("here", RECORDED.timings)
EARLIER_DRAWS = read_recordings(EARLIER)
THEN = make_profile("earlier draws", EARLIER_DRAWS.timings)
SEEDS = range(1, 31)
LEDGER = Path(__file__).parents[2] / "docs/evidence/simulator.md"


def judge(setting, run, profile):
    """Shares of brokers and partitions that miss their bar for no known reason."""
    scenario = make_scenario(setting, profile, run)
    rows = compare(setting, run, simulate_seeds(scenario, SEEDS, simulate))
    shares = [row for row in rows if row.figure.startswith("records ") and row.bar]
    assert len(shares) >= len(set(setting.leaders))
    return [row for row in shares if row.verdict != HOLDS and explain(setting.name, row.figure, row.deviation) is None]


@pytest.mark.parametrize(("setting", "run"), RECORDED.runs, ids=[setting.name for setting, _ in RECORDED.runs])
def test_simulated_shares_are_those_of_the_recorded_run(setting, run):
    """Two points, or 2.5 standard deviations over the seeds; the named misses of `tests/lab/fidelity/misses.py` aside."""
    assert judge(setting, run, HERE) == []


@pytest.mark.parametrize(
    ("setting", "run"), EARLIER_DRAWS.runs, ids=[setting.name for setting, _ in EARLIER_DRAWS.runs]
)
def test_earlier_draws_stay(setting, run):
    """What was drawn once is judged for good, with the times measured then."""
    assert judge(setting, run, THEN) == []


def test_a_recording_that_was_made_is_not_dropped():
    names = [setting.name for setting, _ in (*RECORDED.runs, *EARLIER_DRAWS.runs)]
    assert len(set(names)) == len(names)
    ledger = LEDGER.read_text()
    draws = {name.rpartition("-")[0] for name in names if name.startswith("drawn-")}
    assert {"drawn-20261121", "drawn-165254", "drawn-12868899"} <= draws
    assert all(f"`{draw}-" in ledger for draw in draws)


@pytest.mark.parametrize("name", COMMITTED_RUNS)
def test_simulated_shares_are_those_of_the_published_experiment(run_folder, name):
    """The published experiment as really run, on the other bed."""
    setting, run = read_shared_run(run_folder / "run.json")

    assert judge(setting, run, LAB) == []


def test_recordings_say_where_they_come_from():
    """Versions, machine, date; at least eight settings over three client versions, acknowledged records all stored."""
    assert {"date", "brokers", "clients", "java", "cores"} <= RECORDED.bed.keys()
    assert len(RECORDED.runs) >= 8
    assert {load.version for setting, _ in RECORDED.runs for load in setting.loads} == set(RECORDED.bed["clients"])
    for _, run in RECORDED.runs:
        assert sum(tool["record_count"] for tool in run.tools) == sum(each.record_count for each in run.partitions)
