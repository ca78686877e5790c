"""One topic in one window: rows of all the replay's tables, from keys exactly and from simulation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pipeline.config.replay import IN_USE
from pipeline.model.window import instant_of
from pipeline.replay.back_tests import TRUSTED, back_test, join_sentences
from pipeline.replay.simulated_rows import (
    batch_columns,
    broker_batch_columns,
    broker_rows,
    partition_rows,
    recorded_columns,
    records_per_batch,
    run_columns,
    skew_columns,
)
from pipeline.replay.topic_results import AS_RECORDED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pipeline.replay.back_tests import Observed
    from pipeline.replay.calibrated import SessionFinding
    from pipeline.replay.concerns import Concerns
    from pipeline.replay.results import ReplayRows
    from pipeline.replay.simulated_topic import RecordedTopic, SimulatedTopic

    Row = dict[str, Any]

STAYS = "records without a key stay where they were"
_SOURCES = {"configured": "configuration", "inferred": "batches"}


@dataclass(frozen=True, eq=False)
class CandidateRuns:
    """A candidate about the topic.

    Attributes:
        name: In the configuration, or `in-use`.
        partitioner: Strategy that was simulated, or None.
        simulated: Its runs, or None where it cannot be simulated.
        reason: Why not, or "".
        is_as_in_use: Its runs are those of what is in use.
        assumptions: In sentences.
    """

    name: str
    partitioner: str | None
    simulated: SimulatedTopic | None
    reason: str
    is_as_in_use: bool
    assumptions: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class KeyedRows:
    """What the keyed replay says of the topic, by candidate.

    Attributes:
        comparison: Rows of `gold.scenario_comparison`.
        results: Of `gold.replay_results`.
        brokers: Of `gold.replay_brokers`.
    """

    comparison: Mapping[str, Row]
    results: Mapping[str, Sequence[Row]]
    brokers: Mapping[str, Sequence[Row]]


@dataclass(frozen=True, eq=False)
class TopicReplay:
    """Everything about a topic in a window.

    Attributes:
        start_ms: Of the window.
        recorded: What it did.
        findings: Its producer sessions.
        candidates: What is in use first, then the others in order.
        keyed: From keys.
        observed: Latencies.
        concerns: What is known to be wrong with the data.
    """

    start_ms: int
    recorded: RecordedTopic
    findings: Sequence[SessionFinding]
    candidates: Sequence[CandidateRuns]
    keyed: KeyedRows
    observed: Observed
    concerns: Concerns

    @property
    def place(self) -> Row:
        """Key columns."""
        recorded = self.recorded
        return {
            "window_start": instant_of(self.start_ms),
            "topic": recorded.topic,
            "topic_id": recorded.topic_id,
        }


def add_topic(rows: ReplayRows, topic: TopicReplay) -> None:
    """Adds a topic's rows to those of all tables."""
    in_use = next((one.simulated for one in topic.candidates if one.name == IN_USE), None)
    tested = back_test(topic.recorded, in_use, topic.findings, topic.observed, topic.concerns)
    rows.back_tests.append({**topic.place, **tested})
    for candidate in topic.candidates:
        named = {**topic.place, "candidate": candidate.name, "is_baseline": candidate.name == IN_USE}
        row = _comparison_row(topic, candidate, tested)
        rows.comparison.append({**named, **row})
        rows.results += [{**named, **found} for found in _result_rows(topic, candidate)]
        rows.brokers += [{**named, **found} for found in _broker_rows(topic, candidate)]


def _places_records(topic: TopicReplay, candidate: CandidateRuns) -> bool:
    """The simulation says where records go: some have no key, or keys say nothing about the candidate."""
    keyed = topic.keyed.comparison.get(candidate.name)
    return candidate.simulated is not None and (
        topic.recorded.keyless_count > 0 or keyed is None or keyed["partitioner"] is None
    )


def _comparison_row(topic: TopicReplay, candidate: CandidateRuns, tested: Row) -> Row:
    keyed = topic.keyed.comparison.get(candidate.name)
    any_keyed = next(iter(topic.keyed.comparison.values()), {})
    shared = {name: any_keyed[name] for name in _OF_TOPIC if name in any_keyed}
    row: Row = {
        **recorded_columns(topic.recorded),
        "partitioner": None,
        **shared,
        **_baseline(topic, any_keyed),
        **(keyed or {}),
    }
    told = [text for text in str(row.get("assumptions") or "").split("; ") if text]
    simulated = candidate.simulated
    if simulated is not None:
        if _places_records(topic, candidate):
            row |= {**skew_columns(simulated), **_baseline(topic, any_keyed), "partitioner": candidate.partitioner}
            told = [text for text in told if text not in _OVERCOME]
        row |= run_columns(simulated)
        row["is_as_in_use"] = candidate.is_as_in_use
    recorded = topic.recorded
    row["baseline_records_per_batch"] = records_per_batch(recorded.records, recorded.batches)
    row["assumptions"] = join_sentences((*told, *candidate.assumptions, *topic.concerns.assumptions))
    row["trust"] = _trust(topic, candidate, tested)
    return row


_OF_TOPIC = ("key_count", "keyed_record_count", "keyed_size_bytes", "top_keys", "floor_peak_to_mean")
"""Columns of the keyed replay that are the same for all candidates."""
_OVERCOME = frozenset({STAYS, "no known strategy explains the recorded keys: what is in use stands as recorded"})
"""Assumptions of the keyed replay that a simulation does without."""


def _baseline(topic: TopicReplay, keyed: Row) -> Row:
    """What is in use: of keys where there are only such, else of the producer that sent most."""
    if keyed and not topic.recorded.keyless_count:
        return {"baseline": keyed["baseline"], "baseline_source": keyed["baseline_source"]}
    known = [finding for finding in topic.findings if finding.baseline.strategy is not None]
    if not known:
        return {"baseline": keyed.get("baseline", AS_RECORDED), "baseline_source": keyed.get("baseline_source", "none")}
    baseline = max(known, key=lambda finding: finding.record_count).baseline
    return {"baseline": baseline.strategy, "baseline_source": _SOURCES.get(baseline.source, "none")}


def _trust(topic: TopicReplay, candidate: CandidateRuns, tested: Row) -> str:
    if candidate.simulated is None:
        if not topic.recorded.keyless_count and candidate.name in topic.keyed.comparison:
            return TRUSTED  # keys say where every record goes
        return f"not trustworthy: {candidate.reason or 'it could not be simulated'}"
    return str(tested["trust"])


def _result_rows(topic: TopicReplay, candidate: CandidateRuns) -> list[Row]:
    keyed = list(topic.keyed.results.get(candidate.name, ()))
    if candidate.simulated is None:
        return keyed
    if not _places_records(topic, candidate):
        batches = batch_columns(candidate.simulated)
        return [{**row, **batches.get(row["partition"], {})} for row in keyed]
    told = {row["partition"]: {name: row[name] for name in _OF_KEYS if name in row} for row in keyed}
    rows = partition_rows(candidate.simulated, candidate.partitioner or AS_RECORDED)
    return [{**row, **told.get(row["partition"], {})} for row in rows]


_OF_KEYS = ("key_count", "top_key", "top_key_size_bytes", "recorded_size_bytes")


def _broker_rows(topic: TopicReplay, candidate: CandidateRuns) -> list[Row]:
    keyed = list(topic.keyed.brokers.get(candidate.name, ()))
    if candidate.simulated is None:
        return keyed
    if _places_records(topic, candidate):
        return list(broker_rows(candidate.simulated))
    batches = broker_batch_columns(candidate.simulated)
    return [{**row, **batches.get(row["broker_id"], {})} for row in keyed]
