"""`replay`: replays recorded traffic through the current setup (the back-test) and each candidate."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import tempfile
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.cli import add_json_option
from pipeline.errors import ConfigError

if TYPE_CHECKING:
    from pipeline.cli.replay_inputs import ReplayInputs

_DESCRIPTION = """\
Reads log directories, infers the producers' partitioner and settings, and replays their traffic through this current
setup (a back-test against what was observed) and through every candidate. Stores nothing. PATH is a log directory or a tree that holds several
brokers. Figures are medians over the seeds; nine of ten real runs lie within the ranges. It runs on Sail where the extra `sail`
is installed, which starts in a second, else on Spark on this machine.
"""
_MOST_SEEDS = 1_000
_TOLD_EVERY_S = 10  # where stderr is no terminal


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = _DESCRIPTION
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="log directory, or tree of several brokers")
    parser.add_argument(
        "--metrics",
        action="append",
        default=[],
        metavar="PATH|URL",
        help="producers' metrics: folder of exporter pages (CLIENT/EPOCH_MS.prom), output of kafka-producer-perf-test, "
        "librdkafka statistics, or the URL of a Prometheus server; may be repeated",
    )
    parser.add_argument("--candidates", type=Path, metavar="FILE", help="YAML with `candidates`; else the default ones")
    parser.add_argument("--seeds", type=int, default=10, metavar="K", help="runs of each candidate (10)")
    parser.add_argument(
        "--window",
        metavar="START/DURATION",
        help="only this time, such as 2026-11-21T09:00:00Z/PT1H; else all there is, as one window. A time that does not "
        "begin at a multiple of its length is replayed in several windows",
    )
    parser.add_argument("--topics", nargs="+", default=[], metavar="PATTERN", help="only these topics")
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    if not 1 <= args.seeds <= _MOST_SEEDS:
        raise ConfigError(f"--seeds {args.seeds}; expected 1 to {_MOST_SEEDS}")
    from pipeline.cli.replay_inputs import read_inputs  # Arrow and Numba

    inputs = read_inputs(args)
    with tempfile.TemporaryDirectory(prefix="partition-health-") as folder:
        document = _replay(inputs, Path(folder))
    if args.json:
        sys.stdout.write(json.dumps(document, indent=1, allow_nan=False) + "\n")
    else:
        from pipeline.cli.replay_document import format_replay

        sys.stdout.write(format_replay(document))
    return 0


def _replay(inputs: ReplayInputs, folder: Path) -> dict[str, object]:
    from pipeline.cli.replay_document import describe_replay  # Spark
    from pipeline.jobs import ingest, replay
    from pipeline.progress import Progress
    from pipeline.runs import plan_runs
    from pipeline.stages import count_tasks
    from pipeline.storage.engines import running_engine

    config = inputs.configure(folder)
    replay.check(config)
    (read,) = plan_runs(config, inputs.read_span, run_id=f"replay-{uuid.uuid4()}", now_ms=inputs.as_of_ms)
    run = dataclasses.replace(read, windows=tuple(inputs.span.split(inputs.window_ms)))
    progress = Progress(every_s=_TOLD_EVERY_S, report=lambda said: print(said, file=sys.stderr, flush=True))
    with running_engine(config.spark, app_name="replay") as spark:
        with progress.step("reading the records", count_tasks):
            ingested = ingest.run(spark, read)
        with progress.step("replaying them", count_tasks):
            replayed = replay.run(spark, run, run.windows)
    return describe_replay(run, notes=(*ingested.notes, *replayed.notes))
