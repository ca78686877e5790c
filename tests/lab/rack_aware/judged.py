"""A recording of brokers in racks, judged as a run does it: ingest, replay, health."""

from __future__ import annotations

import argparse
import io
import json
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Any

from pipeline.advice.what_ifs import ZoneChange
from pipeline.cli import what_if_zones
from pipeline.cli.replay_inputs import read_inputs
from pipeline.config.pipeline_config import Spark
from pipeline.jobs import ingest, replay, score_health
from pipeline.runs import RunContext, plan_runs
from pipeline.storage.engines import running_engine
from pipeline.storage.window_status import trust_windows

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pipeline.config.sections import Zones


def judge_capture(
    capture: Path,
    folder: Path,
    topics: Sequence[str],
    zones: Zones,
    *,
    metrics: Sequence[str] = ("scrapes",),
    candidates: Path | None = None,
    seeds: int = 1,
) -> RunContext:
    """Takes the steps of a run over a capture and leaves their tables in a folder.

    Args:
        capture: Has `brokers`, and `metrics`, folders of pages.
        folder: An empty one.
        topics: Patterns.
        zones: The section of the configuration.
        metrics: Names of folders of pages in the capture.
        candidates: A file of candidates; without one nothing but what is in use is replayed.
        seeds: Of the replay.
    """
    arguments = argparse.Namespace(
        paths=[capture / "brokers"], metrics=[str(capture / name) for name in metrics], candidates=candidates,
        seeds=seeds, window=None, topics=list(topics),
    )  # fmt: skip
    inputs = read_inputs(arguments)
    config = inputs.configure(folder)
    clusters = {name: cluster.model_copy(update={"zones": zones}) for name, cluster in config.clusters.items()}
    told = {} if candidates else {"candidates": ()}
    config = config.model_copy(update={"clusters": clusters, "spark": Spark(engine="sail"), **told})
    (run,) = plan_runs(config, inputs.span, run_id="zones", now_ms=inputs.as_of_ms)
    with running_engine(config.spark, app_name="zones") as spark:
        ingest.run(spark, run)
        trust_windows(run.warehouse, run.cluster_name, run.windows)
        replay.run(spark, run, run.windows)
        score_health.run(spark, run, run.windows)
    return run


def advise(run: RunContext, folder: Path, changes: Sequence[ZoneChange] = tuple(ZoneChange)) -> dict[str, Any]:
    """What `what-if --zones` says of changes, as JSON by change; its plans are written into the folder."""
    found = {}
    for change in changes:
        said = io.StringIO()
        with redirect_stdout(said):
            options = argparse.Namespace(zones=change, plan=folder / f"{change}.json", json=True)
            what_if_zones.run(run, run.windows[-1], options)
        found[str(change)] = json.loads(said.getvalue())
    return found
