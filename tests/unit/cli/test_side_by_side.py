"""Clusters in processes of their own. Oracle: what becomes of one whose neighbour fails, raises, is killed or takes long."""

import itertools
import os
import signal
import time
from multiprocessing import active_children
from pathlib import Path
from types import SimpleNamespace

import pytest

from pipeline.cli.run import count_at_once, take_steps_apart
from pipeline.config.pipeline_config import Spark
from pipeline.config_file import load_config
from pipeline.environment import count_cores, count_steps_at_once
from pipeline.errors import NothingUsableError, SparkFailedError
from pipeline.model.window import TimeWindow
from pipeline.runs import plan_runs
from pipeline.steps import StepReport
from tests.config_files import write_configuration
from tests.unit.jobs.test_pending_windows import FIRST

CLUSTERS = ("long", "fails", "short", "raises", "killed", "last")


@pytest.fixture
def config(tmp_path):
    sources = [{"kind": "log_directories", "paths": [str(tmp_path / "nowhere")]}]
    return load_config(write_configuration(tmp_path, {name: {"sources": sources} for name in CLUSTERS}))


def one_step(_spark, run, _begin):
    """The long one ends after the last one: whoever waits for it waits for ever."""
    folder, name = Path(run.config.outbox), run.cluster_name
    folder.mkdir(exist_ok=True)
    if name == "fails":
        raise NothingUsableError("no source holds anything")
    if name == "raises":
        raise KeyError("an error of no kind of ours")
    if name == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    while name == "long" and not (folder / "last").exists():
        time.sleep(0.01)
    (folder / name).touch()
    return StepReport(verdict=f"{name} in {os.getpid()}")


def test_one_that_fails_raises_is_killed_or_takes_long_stops_no_other(config, capfd):
    runs = {run.cluster_name: run for run in plan_runs(config, FIRST, run_id="r", now_ms=FIRST.end_ms)}
    taken = take_steps_apart([runs[name] for name in CLUSTERS], (one_step,), at_once=2)
    ended = [next(taken)]
    assert len(active_children()) == 2  # no process of the first three clusters ends by itself
    ended += taken
    order = [run.cluster_name for run, _, _ in ended]
    assert (order[:4], {*order[4:]}) == (
        ["fails", "short", "raises", "killed"],
        {"last", "long"},
    )  # those two end at once
    verdicts = {run.cluster_name: report.verdict for run, reports, _ in ended for report in reports or ()}
    assert {*verdicts} == {"short", "last", "long"}
    assert str(os.getpid()) not in "".join(verdicts.values())
    said = {run.cluster_name: (step, str(error), error.exit_code) for run, _, told in ended for step, error in told}
    assert said == {
        "fails": (one_step, "no source holds anything", NothingUsableError.exit_code),
        "raises": (
            one_step,
            "cluster raises: one step: a fault of this program, KeyError: 'an error of no kind of ours'; please report it",
            1,
        ),
        "killed": (one_step, "its process was killed by signal 9, perhaps for lack of memory; run again", 1),
    }
    assert "an error of no kind of ours" in capfd.readouterr().err


def test_one_that_hangs_is_ended_and_holds_up_no_other(config, monkeypatch):
    """Spark elsewhere takes one cluster at a time: all others waited, and the run never ended.

    An hour passes once the long one has begun, and none after it.
    """

    def clock():
        is_first = not next(asked)
        while not is_first and not Path(config.outbox).exists():
            time.sleep(0.01)  # until the long one has begun in its process
        return 0.0 if is_first else 3_600.0

    asked = itertools.count()
    monkeypatch.setattr("pipeline.cli.run.time", SimpleNamespace(monotonic=clock))
    runs = {run.cluster_name: run for run in plan_runs(config, FIRST, run_id="r", now_ms=FIRST.end_ms)}
    ended = [*take_steps_apart([runs["long"], runs["short"]], (one_step,), at_once=1)]
    assert [(run.cluster_name, bool(reports)) for run, reports, _ in ended] == [("long", False), ("short", True)]
    ((step, error),) = ended[0][2]
    assert step is one_step
    assert str(error) == (
        "it took longer than 1 h and was ended, as others may wait for it: `late_after` for each step and window; "
        "a run of it alone has no limit"
    )


@pytest.mark.parametrize(("at_once", "count"), [(None, count_steps_at_once(2)), (1, 1)])
def test_as_many_at_once_as_the_machine_holds(config, at_once, count):
    runs = {run.cluster_name: run for run in plan_runs(config, FIRST, run_id="r", now_ms=FIRST.end_ms)}
    taken = take_steps_apart([runs["short"], runs["last"]], (one_step,), at_once=at_once)
    next(taken)
    assert len(active_children()) == count
    assert len([*taken]) == 1


@pytest.mark.parametrize(
    ("spark", "count"),
    [
        ({}, count_steps_at_once(len(CLUSTERS))),
        ({"engine": "sail"}, count_steps_at_once(len(CLUSTERS))),
        ({"master": "spark://elsewhere:7077"}, 1),
        ({"remote": "sc://elsewhere:15002"}, 1),
    ],
)
def test_one_at_a_time_where_spark_runs_elsewhere(config, spark, count):
    config = config.model_copy(update={"spark": Spark(**spark)})
    assert count_at_once(plan_runs(config, FIRST, run_id="r", now_ms=FIRST.end_ms)) == count


def test_an_engine_that_does_not_start_is_an_error_of_each_cluster(config, capfd):
    """Of one line, as where one process does all."""
    config = config.model_copy(update={"spark": Spark(remote="sc://127.0.0.1:1")})
    runs = [run for run in plan_runs(config, FIRST, run_id="r", now_ms=FIRST.end_ms) if run.cluster_name != "long"]
    ended = [*take_steps_apart(runs, (one_step,), at_once=1)]
    said = "spark.remote: no Spark Connect server answers at 127.0.0.1:1; start it, or mend the address"
    assert [(reports, [(str(error), error.exit_code) for _, error in told]) for _, reports, told in ended] == [
        (None, [(said, SparkFailedError.exit_code)])
    ] * len(runs)
    assert "Traceback" not in capfd.readouterr().err


def test_no_more_at_once_than_clusters_and_cores():
    assert [count_steps_at_once(clusters) for clusters in (0, 1)] == [1, 1]
    assert count_steps_at_once(1_000_000) <= count_cores()


@pytest.mark.parametrize(
    ("number", "order"),
    [
        (0, CLUSTERS),
        (1, (*CLUSTERS[1:], "long")),
        (len(CLUSTERS) - 1, ("last", *CLUSTERS[:-1])),
        (len(CLUSTERS), CLUSTERS),
    ],
)
def test_each_window_another_cluster_begins(config, number, order):
    hour_ms = 3_600_000
    span = TimeWindow(number * hour_ms, (number + 2) * hour_ms)
    assert tuple(run.cluster_name for run in plan_runs(config, span, run_id="r", now_ms=span.end_ms)) == order
