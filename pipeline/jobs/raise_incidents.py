"""Turns what the health gate found into verdicts, incidents and messages: `gold.verdicts`, `incidents`, `alert_outbox`.

Incidents are folded over windows in time order, from the first window judged to the newest one known, starting from
the incidents that were open before. A message is queued once per incident state: the outbox keeps the first.
"""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

from pipeline.alerting.blind import BlindEvidence
from pipeline.alerting.evidence import (
    BrokerShareEvidence,
    CauseTerms,
    HotPartition,
    ProduceLatency,
    excess_by_topic,
)
from pipeline.alerting.incidents import Course, fold_verdicts, open_before
from pipeline.alerting.message import join_addresses, render_blind, render_broker_share
from pipeline.measures.source_arrivals import CALM_BELOW, RECORD_SOURCES
from pipeline.measures.source_arrivals import RULE as SIGHT_RULE
from pipeline.model.incident import IncidentChange
from pipeline.model.load import BrokerLoad
from pipeline.model.verdict import Verdict
from pipeline.model.window import TimeWindow, instant_of, milliseconds_of
from pipeline.runs import JobReport
from pipeline.storage.frames import rows_of
from pipeline.storage.rows import load_rows, merge_rows, replace_rows
from pipeline.tables.gold import ALERT_OUTBOX, BROKER_SHARE, INCIDENTS, LATENCY, PARTITION_HEALTH, VERDICTS
from pipeline.tables.silver import PARTITION_TRAFFIC

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pipeline.alerting.message import AlertMessage
    from pipeline.model.incident import OpenIncident
    from pipeline.runs import RunContext
    from pipeline.tables import Table

JOB = "raise_incidents"
EARLIER_WINDOWS = 12
ALL_CLIENTS = "*"
_SIGHT_WORSENS_BY = 3.0
"""Of what is missing, over what was: a source that fades is told a few times, not in every window."""
_INSTANTS = {"window_start_ms": "window_start", "since_ms": "since"}


def run(run: RunContext, verdicts: Sequence[Verdict]) -> JobReport:
    """Stores the verdicts, folds them into incidents and queues a message for each change of state.

    Args:
        run: What the run is about.
        verdicts: What the gate found, for every window from the first judged to the newest known.
    """
    if not verdicts:
        return JobReport(job=JOB, notes=("nothing was judged",))
    window_ms = run.config.window_ms
    starts = sorted({verdict.window_start_ms for verdict in verdicts})
    windows = tuple(TimeWindow(start_ms, start_ms + window_ms) for start_ms in starts)
    history = [v for v in _stored(run, VERDICTS, Verdict) if v.window_start_ms < starts[0]]
    changes = _fold(run, verdicts, history, open_before(_stored(run, INCIDENTS, IncidentChange), starts[0]))
    rows: dict[Table, Sequence[Verdict | IncidentChange]] = {VERDICTS: verdicts, INCIDENTS: changes}
    versions = {
        table.name: replace_rows(
            rows_of(table, (_row(run, value) for value in values), run_id=run.run_id),
            run.warehouse,
            table,
            cluster=run.cluster_name,
            windows=windows,
        )
        for table, values in rows.items()
    }
    versions[ALERT_OUTBOX.name] = _queue(run, changes, (*history, *verdicts))
    notes = tuple(_note(change) for change in changes)
    return JobReport(job=JOB, table_versions=versions, notes=notes)


def _fold(
    run: RunContext, verdicts: Sequence[Verdict], history: Sequence[Verdict], opened: Sequence[OpenIncident]
) -> tuple[IncidentChange, ...]:
    """Changes of both rules by window; a source is well again in the first window it arrives whole."""
    gate = run.cluster.gate
    course = Course(resolves_at=gate.resolves_at, k=gate.k, worsens_by=gate.worsens_by, repeat_ms=gate.repeat_ms)
    sight = Course(resolves_at=CALM_BELOW, k=1, worsens_by=_SIGHT_WORSENS_BY, repeat_ms=gate.repeat_ms)
    changes: list[IncidentChange] = []
    for is_sight in (False, True):
        changes += fold_verdicts(
            [verdict for verdict in verdicts if (verdict.rule == SIGHT_RULE) == is_sight],
            cluster=run.cluster_name,
            course=sight if is_sight else course,
            open_incidents=[incident for incident in opened if (incident.rule == SIGHT_RULE) == is_sight],
            history=[verdict for verdict in history if (verdict.rule == SIGHT_RULE) == is_sight],
        )
    return tuple(sorted(changes, key=lambda change: (change.window_start_ms, change.rule, change.subject)))


def _note(change: IncidentChange) -> str:
    if change.rule == SIGHT_RULE:
        what = "the pipeline is blind" if change.state == "new" else "the pipeline sees again"
        return f"incident {change.incident_id} {change.state}: {what}, source {change.subject}"
    return f"incident {change.incident_id} {change.state}: {change.subject}, {change.value or 0:.2f}x"


def _stored(run: RunContext, table: Table, kind: type[Any]) -> list[Any]:
    """Rows of the cluster as values: columns by name, instants as milliseconds."""
    rows = load_rows(run.warehouse, table, cluster=run.cluster_name).to_pylist()
    return [
        kind(
            **{
                field.name: milliseconds_of(row[_INSTANTS[field.name]]) if field.name in _INSTANTS else row[field.name]
                for field in fields(kind)
            }
        )
        for row in rows
    ]


def _row(run: RunContext, value: Verdict | IncidentChange) -> dict[str, Any]:
    columns = {
        _INSTANTS.get(name, name): instant_of(held) if name in _INSTANTS else held
        for name, held in asdict(value).items()
    }
    return {"cluster": run.cluster_name, **columns}


def _queue(run: RunContext, changes: Sequence[IncidentChange], verdicts: Sequence[Verdict]) -> int:
    """Puts one message per change into the outbox; those already there stay as they are."""
    recipients = run.cluster.mail_to or run.config.mail.to
    messages = [_render(run, change, verdicts, recipients) for change in changes]
    rows = [
        {
            "message_id": message.message_id,
            "cluster": message.cluster,
            "incident_id": message.incident_id,
            "state": message.state,
            "window_start": instant_of(message.window_start_ms),
            "subject_line": message.subject_line,
            "recipients": join_addresses(message.recipients),
            "payload": message.payload,
            "queued_at": instant_of(run.now_ms),
            "attempt_count": 0,
        }
        for message in messages
    ]
    return merge_rows(rows_of(ALERT_OUTBOX, rows, run_id=run.run_id), run.warehouse, ALERT_OUTBOX, insert_only=True)


def _render(
    run: RunContext, change: IncidentChange, verdicts: Sequence[Verdict], recipients: Sequence[str]
) -> AlertMessage:
    sender = run.config.mail.sender
    if change.rule == SIGHT_RULE:
        blind = _blind_evidence(run, change, verdicts)
        return render_blind(blind, sender=sender, recipients=recipients, now_ms=run.now_ms)
    evidence = _evidence(run, change, verdicts)
    return render_broker_share(evidence, sender=sender, recipients=recipients, now_ms=run.now_ms)


def _blind_evidence(run: RunContext, change: IncidentChange, verdicts: Sequence[Verdict]) -> BlindEvidence:
    reason = next(
        v.reason
        for v in verdicts
        if (v.window_start_ms, v.rule, v.subject) == (change.window_start_ms, change.rule, change.subject)
    )
    return BlindEvidence(
        cluster=run.cluster_name,
        change=change,
        reason=reason,
        window_ms=run.config.window_ms,
        bears_shares=change.subject in RECORD_SOURCES,
        owner=run.cluster.owner,
    )


def _evidence(run: RunContext, change: IncidentChange, verdicts: Sequence[Verdict]) -> BrokerShareEvidence:
    """What a mail about the change says, from the tables of the window that brought it."""
    window = TimeWindow(change.window_start_ms, change.window_start_ms + run.config.window_ms)
    broker_id = int(change.subject.removeprefix("broker "))
    shares = _rows_of_window(run, BROKER_SHARE, window)
    own = next(row for row in shares if row["broker_id"] == broker_id)
    verdict = next(v for v in verdicts if (v.window_start_ms, v.subject) == (change.window_start_ms, change.subject))
    first_ms = min(change.since_ms, window.start_ms) - EARLIER_WINDOWS * run.config.window_ms
    loads: dict[tuple[str, int], int] = {}
    for row in _rows_of_window(run, PARTITION_TRAFFIC, window):
        key = (row["topic"], row["leader_id"])
        loads[key] = loads.get(key, 0) + row["size_bytes"]
    return BrokerShareEvidence(
        cluster=run.cluster_name,
        change=change,
        broker_id=broker_id,
        window=window,
        brokers=tuple(_broker_load(row) for row in sorted(shares, key=lambda row: row["broker_id"])),
        topics=excess_by_topic(loads, broker_id=broker_id, expected_share=own["expected_share"]),
        partitions=_hot_partitions(run, window, broker_id),
        causes=_causes(own),
        above_count=verdict.above_count,
        k=run.cluster.gate.k,
        n=run.cluster.gate.n,
        resolves_at=run.cluster.gate.resolves_at,
        chance_ratio=own["chance_ratio"],
        latency=_latency(run, window, broker_id),
        earlier=tuple(
            _broker_load(row) for row in _rows_of_window(run, BROKER_SHARE, TimeWindow(first_ms, window.start_ms))
        ),
        owner=run.cluster.owner,
    )


def _rows_of_window(run: RunContext, table: Table, window: TimeWindow) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = load_rows(
        run.warehouse, table, cluster=run.cluster_name, windows=(window,)
    ).to_pylist()
    return rows


def _broker_load(row: dict[str, Any]) -> BrokerLoad:
    columns = {field.name: row[field.name] for field in fields(BrokerLoad) if field.name != "window_start_ms"}
    return BrokerLoad(window_start_ms=milliseconds_of(row["window_start"]), **columns)


def _causes(row: dict[str, Any]) -> CauseTerms | None:
    if row["leaders_term"] is None:
        return None
    return CauseTerms(
        leaders=row["leaders_term"], topic_mix=row["topic_mix_term"], partition_skew=row["partition_skew_term"]
    )


def _hot_partitions(run: RunContext, window: TimeWindow, broker_id: int) -> tuple[HotPartition, ...]:
    """Partitions the broker leads, those with most bytes above their topic's mean first."""
    led = [
        row
        for row in _rows_of_window(run, PARTITION_HEALTH, window)
        if row["leader_id"] == broker_id and row["ratio_to_mean"] is not None
    ]
    led.sort(key=lambda row: (-row["excess_bytes"], row["topic"], row["partition"]))
    names = [field.name for field in fields(HotPartition)]
    return tuple(HotPartition(**{name: row[name] for name in names}) for row in led)


def _latency(run: RunContext, window: TimeWindow, broker_id: int) -> ProduceLatency | None:
    rows = [row for row in _rows_of_window(run, LATENCY, window) if row["client_id"] == ALL_CLIENTS]
    own = next((row for row in rows if row["broker_id"] == broker_id), None)
    if own is None or own["request_latency_avg_ms"] is None or not own["ratio_to_peers"]:
        return None
    return ProduceLatency(
        broker_avg_ms=own["request_latency_avg_ms"],
        peers_avg_ms=own["request_latency_avg_ms"] / own["ratio_to_peers"],
        broker_max_ms=own["request_latency_max_ms"],
    )
