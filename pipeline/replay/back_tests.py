"""The back-test: what is in use, predicted like any candidate, beside what was observed; and whether that is near enough."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pipeline.replay.estimates import of_range
from pipeline.replay.simulated_rows import records_per_batch
from pipeline.replay.unit_runs import CELL_JUDGED_BYTES, CELL_LOG_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pipeline.replay.calibrated import SessionFinding
    from pipeline.replay.concerns import Concerns
    from pipeline.replay.estimates import Range
    from pipeline.replay.simulated_topic import RecordedTopic, SimulatedTopic

    Row = dict[str, Any]

SHARE_BAR_POINTS = 1.5
"""A broker's predicted share may be off by so many points, or by `SHARE_DEVIATIONS`, whichever is wider."""
SHARE_DEVIATIONS = 2.5
"""Standard deviations of the share over the seeds."""
LEAST_JUDGED = 0.2
"""Odd minutes judge where they, and the even ones, hold so much of the topic's bytes."""
BATCH_BAR = 0.15
LATENCY_BAR = 0.30
TRUSTED = "trusted"
_TOLD_SETTINGS = 12


@dataclass(frozen=True)
class Observed:
    """What sources tell of a topic's producers besides the log.

    Attributes:
        latency_avg_ms: Mean from `send()` to the acknowledgement, or None.
        latency_p99_ms: What 99 % of the records stayed within, or None.
    """

    latency_avg_ms: float | None = None
    latency_p99_ms: float | None = None


def back_test(
    recorded: RecordedTopic,
    simulated: SimulatedTopic | None,
    findings: Sequence[SessionFinding],
    observed: Observed,
    concerns: Concerns,
) -> Row:
    """The row of `gold.back_tests`.

    Args:
        recorded: What the topic did.
        simulated: What is in use, predicted; None where it could not be.
        findings: Its producer sessions.
        observed: Latencies.
        concerns: What is known to be wrong.
    """
    row: Row = {
        **_describe_baseline(findings),
        "session_count": len(findings),
        "seed_count": 0,
        "observed_records_per_batch": records_per_batch(recorded.records, recorded.batches),
        "observed_latency_avg_ms": observed.latency_avg_ms,
        "observed_latency_p99_ms": observed.latency_p99_ms,
        "assumptions": join_sentences(concerns.assumptions),
    }
    reasons = list(concerns.reasons)
    if simulated is None:
        reasons = reasons or ["what is in use could not be replayed"]
    else:
        row |= {"seed_count": simulated.seed_count, **_compare_shares(recorded, simulated)}
        row |= _compare("records_per_batch", row["observed_records_per_batch"], simulated.records_per_batch())
        row |= _compare("latency_avg", observed.latency_avg_ms, simulated.told_latency_ms(), unit="_ms")
        row |= _compare("latency_p99", observed.latency_p99_ms, simulated.latency_ms(0.99), unit="_ms")
        reasons += _judge(row)
    trust = f"not trustworthy: {join_sentences(reasons)}" if reasons else TRUSTED
    return {**row, "is_trusted": not reasons, "trust": trust}


def join_sentences(sentences: Iterable[str]) -> str:
    """Each once, parted by semicolons, which none has within.

    >>> join_sentences(["a; b", "c", "c"])
    'a, b; c'
    """
    return "; ".join(dict.fromkeys(sentence.replace("; ", ", ") for sentence in sentences if sentence))


def _describe_baseline(findings: Sequence[SessionFinding]) -> Row:
    """What the producer that sent most uses."""
    if not findings:
        return {
            "partitioner": None,
            "partitioner_source": "none",
            "client": "",
            "confidence": None,
            "runner_up": "",
            "settings": {},
        }
    largest = max(findings, key=lambda finding: finding.record_count)
    baseline = largest.baseline
    settings = sorted(baseline.settings.items())[:_TOLD_SETTINGS]
    return {
        "partitioner": baseline.strategy,
        "partitioner_source": baseline.source,
        "client": f"{baseline.client} {baseline.version}".strip(),
        "confidence": baseline.confidence,
        "runner_up": baseline.runner_up,
        "settings": {name: f"{setting.value} ({setting.source})" for name, setting in settings},
    }


def _compare_shares(recorded: RecordedTopic, simulated: SimulatedTopic) -> Row:
    """Shares in the log's bytes; the bar is that of the broker whose share is worst.

    Services are fitted on even minutes, so odd ones judge, where the run went over several.
    """
    column, sizes, judged_on = CELL_LOG_BYTES, recorded.broker_log_sizes, "all minutes"
    odd_ratio = sum(recorded.judged_log_sizes.values()) / max(1, sum(recorded.broker_log_sizes.values()))
    if simulated.cells(CELL_JUDGED_BYTES).any() and LEAST_JUDGED <= odd_ratio <= 1 - LEAST_JUDGED:
        column, sizes, judged_on = CELL_JUDGED_BYTES, recorded.judged_log_sizes, "odd minutes"
    total = sum(sizes.values())
    if not total:
        return {}
    brokers, _ = simulated.by_broker(column)
    shares = simulated.shares(column, of_brokers=True)
    deviations = simulated.share_deviations(column)
    errors = []
    for broker_id, share, deviation in zip(brokers, shares, deviations, strict=True):
        was = sizes.get(broker_id, 0) / total
        error = abs((share.value or 0.0) - was) * 100
        bar = max(SHARE_BAR_POINTS, SHARE_DEVIATIONS * deviation * 100)
        errors.append((error - bar, broker_id, was, share, error, bar))
    _, broker_id, was, share, error, bar = max(errors, key=lambda found: (found[0], -found[1]))
    parts = simulated.shares(CELL_LOG_BYTES, of_brokers=False)
    was_there = recorded.log_sizes / max(1, int(recorded.log_sizes.sum()))
    partition_error = max(
        abs((part.value or 0.0) - float(seen)) * 100 for part, seen in zip(parts, was_there, strict=False)
    )
    return {
        "judged_on": judged_on,
        "broker_id": broker_id,
        "observed_share": was,
        **of_range("predicted_share", share),
        "share_error_points": error,
        "partition_share_error_points": partition_error,
        "share_bar_points": bar,
    }


def _compare(name: str, observed: float | None, predicted: Range, *, unit: str = "") -> Row:
    ratio = predicted.value / observed if observed and predicted.value is not None else None
    return {**of_range(f"predicted_{name}{unit}", predicted), f"{name}_ratio": ratio}


def _judge(row: Row) -> list[str]:
    """What is further off than it may be."""
    found = []
    error = row.get("share_error_points")
    if error is not None and error > row["share_bar_points"]:
        found.append(
            f"broker {row['broker_id']}'s share is predicted {error:.1f} points off, {row['share_bar_points']:.1f} are allowed"
        )
    for name, bar, words in (
        ("records_per_batch_ratio", BATCH_BAR, "records per batch are predicted"),
        ("latency_avg_ratio", LATENCY_BAR, "the mean latency is predicted"),
        ("latency_p99_ratio", LATENCY_BAR, "the latency's p99 is predicted"),
    ):
        ratio = row.get(name)
        if ratio is not None and not 1 - bar <= ratio <= 1 + bar:
            found.append(f"{words} {ratio:.2f} times the observed")
    return found


def weigh_latency(parts: Sequence[tuple[int, float | None]]) -> float | None:
    """The mean over producers, by records; None where one that counts is not told."""
    told = [(count, latency) for count, latency in parts if latency is not None]
    total = sum(count for count, _ in told)
    if not total or total < 0.95 * sum(count for count, _ in parts):
        return None
    return float(np.average([latency for _, latency in told], weights=[count for count, _ in told]))
