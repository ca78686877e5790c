"""What the gates of one window cost: `make bench ARGS=gates`, or `ARGS="gates --engine spark"`.

All steps run in a process of their own; then this one judges the tables once more, as a task of Airflow does: a line for the import of
Great Expectations, and one for each gate with its rows, Checkpoint and Data Docs. CPU-s are those of this process and of those below
it, Spark's JVM included.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import psutil

from expectations.gates import check_health, check_ingested, check_measured, check_replayed
from pipeline.config_file import load_config
from pipeline.errors import HealthGateError
from pipeline.jobs import judge_health
from pipeline.runs import plan_runs
from pipeline.storage.engines import running_engine
from tests.lab.bench.costs_input import read_capture


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench ARGS=gates", description=__doc__)
    parser.add_argument("--engine", choices=("sail", "spark"), default="sail")
    engine = parser.parse_args().engine
    with tempfile.TemporaryDirectory() as folder:
        read = read_capture(Path(folder), 5, 6).with_spark(engine=engine)
        path = read.write_config(Path(folder) / "run")
        command = [sys.executable, "-m", "pipeline", "run", "--no-notify", "--config", path, "--window", str(read.span)]
        done = subprocess.run(command, check=False, stdout=subprocess.DEVNULL)
        assert done.returncode in {0, HealthGateError.exit_code}
        config = load_config(path)
        (run,) = plan_runs(config, read.span, run_id="bench", now_ms=read.span.end_ms, notify=False)
        verdicts = judge_health.run(run, run.windows)
        with running_engine(config.spark, app_name="bench") as spark:
            spark.sql("SELECT 1").collect()
            with measured("import"):
                from expectations import actions  # noqa: F401, PLC0415  # what is measured
            for name, judge in (
                ("ingest", lambda: check_ingested(spark, run)),
                ("replay", lambda: check_replayed(spark, run, run.windows)),
                ("health", lambda: (check_health(run, verdicts),)),
                ("measures", lambda: check_measured(spark, run, run.windows, verdicts)),
            ):
                with measured(name):
                    reports = judge()
                print(f"  {len(reports)} suites, {sum(len(report.checks) for report in reports)} checks", flush=True)


@contextmanager
def measured(name):
    before_s = sum_cpu_s()
    yield
    print(f"{name}: {sum_cpu_s() - before_s:.2f} CPU-s", flush=True)


def sum_cpu_s():
    own = psutil.Process(os.getpid())
    return sum(sum(one.cpu_times()[:4]) for one in (own, *own.children(recursive=True)))


if __name__ == "__main__":
    main()
