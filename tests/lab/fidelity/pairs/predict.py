"""What the replay says of a recorded run, as values."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import yaml

from pipeline.cli.replay import TRUSTS, describe_replay
from pipeline.cli.replay_inputs import read_inputs
from pipeline.jobs import ingest, replay
from pipeline.replay.loads import reach_of
from pipeline.runs import plan_runs
from tests.lab.fidelity.settings import MIDDLE, NEW, NEWEST, OLD

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from pipeline.config.pipeline_config import PipelineConfig
    from pipeline.runs import RunContext
    from tests.lab.fidelity.pairs.pair import Client

CANDIDATE = "after"
NORMAL_SPAN = 3.29
"""Standard deviations of a normal law between 5 and 95 %, which the range over very many seeds spans."""


@dataclass(frozen=True)
class Range:
    """Median over the seeds, and where one more run lies nine times of ten; `span` is the range in deviations of the seeds."""

    median: float
    low: float
    high: float
    span: float = NORMAL_SPAN

    @classmethod
    def read(cls, found: Mapping[str, float | None] | None, seed_count: int) -> Range | None:
        """From JSON; None where the replay tells nothing."""
        if not found or found["median"] is None:
            return None
        low, high = (found["median"] if found[end] is None else found[end] for end in ("low", "high"))
        return cls(found["median"], low, high, (2 * reach_of(seed_count) if seed_count else 0) or NORMAL_SPAN)

    def scale(self, factor: float) -> Range:
        """In another unit."""
        return replace(self, median=self.median * factor, low=self.low * factor, high=self.high * factor)

    def holds(self, value: float) -> bool:
        """It lies in the range."""
        return self.low <= value <= self.high


@dataclass(frozen=True)
class Prediction:
    """One candidate's result.

    Attributes:
        brokers: Share of the topic's bytes in the log, by id, observed and predicted.
        partitions: The same by partition.
        records: Records predicted, by partition.
        figures: Peak-to-mean of partitions and brokers, records per batch, throughput and latencies, by the names of the
            JSON document; without what is not told.
        trust: As printed, of shares.
        assumptions: As printed.
        trusts: As printed, of other questions: direction, records per batch and latency; without those not answered.
    """

    brokers: Mapping[int, tuple[float, Range | None]]
    partitions: Mapping[int, tuple[float, Range | None]]
    records: Mapping[int, Range | None]
    figures: Mapping[str, Range]
    trust: str
    assumptions: Sequence[str]
    trusts: Mapping[str, str] = field(default_factory=dict)


FIGURES = (
    "peak_to_mean",
    "broker_peak_to_mean",
    "records_per_batch",
    "throughput_records_per_s",
    "latency_p50_ms",
    "latency_p95_ms",
    "latency_p99_ms",
)


TRANSACTION_RECORDS = 200  # as `PlayTraffic` commits
DEFAULT_LINGER_MS = {OLD: "0", MIDDLE: "0", NEW: "5", NEWEST: "5"}


def write_candidates(file: Path, client: Client) -> Path:
    """The candidates file that asks for one client, its own defaults spelled out: settings in use are kept elsewhere."""
    defaults = {"linger.ms": DEFAULT_LINGER_MS[client.version], "batch.size": "16384"}
    if client.version == NEWEST:
        defaults["partitioner.rack.aware"] = "false"
    if "transactional.id" not in client.config:
        defaults["transactional.id"] = None
    config = {name: value for name, value in (defaults | client.config).items() if name != "client.rack"}
    named = {"name": CANDIDATE, "client": client.version, "config": config}
    if "transactional.id" in client.config:
        named["commit_every"] = f"{TRANSACTION_RECORDS} records"
    file.write_text(yaml.safe_dump({"candidates": [named]}))
    return file


def ingest_capture(
    spark: SparkSession,
    capture: Path,
    candidates: Path,
    seeds: int,
    folder: Path,
    *,
    topics: Sequence[str] = (),
    change: Callable[[PipelineConfig], PipelineConfig] = lambda config: config,
    now_ms: int | None = None,
) -> RunContext:
    """A recording in the tables of a new warehouse, as `partition-health replay` reads it, ready to be replayed.

    Args:
        spark: Session.
        capture: An unpacked recording.
        candidates: A file of candidates.
        seeds: How many.
        folder: An empty one, for the tables.
        topics: Patterns; all topics without any.
        change: What else the configuration says.
        now_ms: The clock; the recording's end by default.
    """
    arguments = argparse.Namespace(
        paths=[capture / "brokers"], metrics=[str(capture / "scrapes")], candidates=candidates, seeds=seeds,
        window=None, topics=list(topics),
    )  # fmt: skip
    inputs = read_inputs(arguments)
    config = change(inputs.configure(folder))
    (run,) = plan_runs(config, inputs.span, run_id="pair", now_ms=now_ms or inputs.as_of_ms)
    ingest.run(spark, run)
    return run


def replay_ingested(spark: SparkSession, run: RunContext) -> dict[str, Any]:
    """The document that `partition-health replay --json` prints."""
    replay.run(spark, run, run.windows)
    return describe_replay(run)


def run_replay(
    spark: SparkSession,
    capture: Path,
    candidates: Path,
    seeds: int,
    folder: Path,
    *,
    topics: Sequence[str] = (),
    change: Callable[[PipelineConfig], PipelineConfig] = lambda config: config,
    now_ms: int | None = None,
) -> dict[str, Any]:
    """The document that `partition-health replay --json` prints of a recording; as `ingest_capture`."""
    run = ingest_capture(spark, capture, candidates, seeds, folder, topics=topics, change=change, now_ms=now_ms)
    return replay_ingested(spark, run)


def read_predictions(document: Mapping[str, Any]) -> dict[str, Prediction]:
    """By candidate's name, ``in-use`` for the baseline, of a recording with one topic."""
    return {
        "in-use" if result["is_baseline"] else result["candidate"]: _read_result(result)
        for result in document["results"]
    }


def _read_result(result: Mapping[str, Any]) -> Prediction:
    seeds = result["seeds"]
    figures = {name: Range.read(result.get(name), seeds) for name in FIGURES}
    return Prediction(
        _read_shares(result["brokers"], "broker_id", seeds),
        _read_shares(result["partitions"], "partition", seeds),
        {row["partition"]: Range.read(row["predicted_record_count"], seeds) for row in result["partitions"]},
        {name: found for name, found in figures.items() if found is not None},
        result["trust"] or "",
        result["assumptions"],
        {subject: result[name] for name, subject in TRUSTS.items() if name != "trust" and result[name]},
    )


def _read_shares(rows: Sequence[Mapping[str, Any]], name: str, seeds: int) -> dict[int, tuple[float, Range | None]]:
    return {row[name]: (row["observed_bytes_share"], Range.read(row["predicted_bytes_share"], seeds)) for row in rows}
