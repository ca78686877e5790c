"""What `partition-health replay` says of a recorded run, as values."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from tests.lab.fidelity.pairs.pair import Client

CANDIDATE = "after"
QUANTILE_DISTANCE = 3.29
"""Standard deviations of a normal law between 5 and 95 %, which the ranges over the seeds span."""


@dataclass(frozen=True)
class Range:
    """Median over the seeds, and what 5 % lie below and above."""

    median: float
    low: float
    high: float

    @classmethod
    def read(cls, found: Mapping[str, float | None] | None) -> Range | None:
        """From JSON; None where the replay tells nothing."""
        if not found or found["median"] is None:
            return None
        low, high = (found["median"] if found[end] is None else found[end] for end in ("low", "high"))
        return cls(found["median"], low, high)

    @property
    def deviation(self) -> float:
        """Standard deviation over the seeds, from the range."""
        return (self.high - self.low) / QUANTILE_DISTANCE

    def scale(self, factor: float) -> Range:
        """In another unit."""
        return Range(self.median * factor, self.low * factor, self.high * factor)


@dataclass(frozen=True)
class Prediction:
    """One candidate's result.

    Attributes:
        brokers: Share of the topic's bytes in the log, by id, observed and predicted.
        partitions: The same by partition.
        figures: Peak-to-mean of partitions and brokers, records per batch, throughput and latencies, by the names of the
            JSON document; without what is not told.
        trust: As printed.
        assumptions: As printed.
    """

    brokers: Mapping[int, tuple[float, Range | None]]
    partitions: Mapping[int, tuple[float, Range | None]]
    figures: Mapping[str, Range]
    trust: str
    assumptions: Sequence[str]


FIGURES = (
    "peak_to_mean",
    "broker_peak_to_mean",
    "records_per_batch",
    "throughput_records_per_s",
    "latency_p50_ms",
    "latency_p99_ms",
)


def write_candidates(file: Path, client: Client) -> Path:
    """The candidates file that asks for one client."""
    named = {"name": CANDIDATE, "client": client.version, "config": dict(client.config)}
    file.write_text(yaml.safe_dump({"candidates": [named]}))
    return file


def run_replay(capture: Path, candidates: Path, seeds: int, *, with_metrics: bool = True) -> dict[str, Any]:
    """The command's JSON document.

    Args:
        capture: An unpacked recording.
        candidates: A file of candidates.
        seeds: How many.
        with_metrics: Let it read the producers' metrics too.

    Raises:
        RuntimeError: The command failed; what it wrote to standard error is told.
    """
    metrics = ["--metrics", str(capture / "scrapes")] if with_metrics else []
    command = [
        sys.executable, "-m", "pipeline", "replay", str(capture / "brokers"), *metrics,
        "--candidates", str(candidates), "--seeds", str(seeds), "--json",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"replay of {capture}: exit {done.returncode}\n{done.stderr[-3000:]}")
    return json.loads(done.stdout)


def read_predictions(document: Mapping[str, Any]) -> dict[str, Prediction]:
    """By candidate's name, ``in-use`` for the baseline, of a recording with one topic."""
    return {
        "in-use" if result["is_baseline"] else result["candidate"]: _read_result(result)
        for result in document["results"]
    }


def _read_result(result: Mapping[str, Any]) -> Prediction:
    figures = {name: Range.read(result.get(name)) for name in FIGURES}
    return Prediction(
        _read_shares(result["brokers"], "broker_id"),
        _read_shares(result["partitions"], "partition"),
        {name: found for name, found in figures.items() if found is not None},
        result["trust"] or "",
        result["assumptions"],
    )


def _read_shares(rows: Sequence[Mapping[str, Any]], name: str) -> dict[int, tuple[float, Range | None]]:
    return {row[name]: (row["observed_bytes_share"], Range.read(row["predicted_bytes_share"])) for row in rows}
