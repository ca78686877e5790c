"""What gives reason to doubt a topic's replay: the log's own gaps, unknown arrivals, metrics that do not fit."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pipeline.replay.calibrated import SessionFinding
    from pipeline.replay.simulated_topic import RecordedTopic

FEW_RATIO = 0.01
"""Of the records, so many may be special before the prediction is not to be trusted."""
MOST_DIFFERENCE = 0.05
"""Of a producer's bytes, so many may differ between its metrics and the log."""
_LISTED = 6


@dataclass(frozen=True)
class Concerns:
    """What is known to be wrong with a topic's data.

    Attributes:
        reasons: The prediction is not to be trusted for these; in words.
        assumptions: It is, as far as these hold; sentences.
    """

    reasons: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()


@dataclass(frozen=True)
class LogFacts:
    """What a topic's log says of itself in a window.

    Attributes:
        missing_count: Offsets between batches that no batch covers.
        compacted_count: Records gone from inside batches.
        is_compacted: The topic's policy is to compact.
        crc_error_count: Batches whose checksum does not match.
        late_starts: Partitions whose log begins inside the window, with records missing before.
        moved: Partitions whose leader was elected anew in the window.
        empty_minute_count: Whole minutes of the window without any record.
    """

    missing_count: int = 0
    compacted_count: int = 0
    is_compacted: bool = False
    crc_error_count: int = 0
    late_starts: tuple[int, ...] = ()
    moved: tuple[int, ...] = ()
    empty_minute_count: int = 0


@dataclass(frozen=True)
class MetricFacts:
    """What metrics say of one of a topic's producer sessions.

    Attributes:
        is_watched: Metrics tell of some client in the window.
        is_matched: One of them is the session's.
        spare_client_count: Clients of the window that are no session's.
        difference_ratio: Part of the session's bytes in the log by which that client's metrics differ, or None.
        assumptions: What the brokers' service models take for granted.
    """

    is_watched: bool = False
    is_matched: bool = False
    spare_client_count: int = 0
    difference_ratio: float | None = None
    assumptions: tuple[str, ...] = ()


def list_concerns(
    recorded: RecordedTopic,
    findings: Sequence[SessionFinding],
    reasons: Sequence[str],
    log: LogFacts,
    metrics: Sequence[MetricFacts],
) -> Concerns:
    """What the data itself gives reason to doubt.

    Args:
        recorded: What the topic did.
        findings: Its producer sessions.
        reasons: Why what is in use could not be replayed, if it could not.
        log: What its log says of itself.
        metrics: What metrics say of its sessions.
    """
    found = (
        Concerns(tuple(reasons)),
        _doubt_arrivals(recorded, findings),
        _doubt_log(recorded, log),
        _doubt_metrics(metrics),
        Concerns(assumptions=tuple(one.text for finding in findings for one in finding.baseline.assumptions)),
    )
    return Concerns(
        tuple(dict.fromkeys(text for one in found for text in one.reasons)),
        tuple(dict.fromkeys(text for one in found for text in one.assumptions)),
    )


def _doubt_arrivals(recorded: RecordedTopic, findings: Sequence[SessionFinding]) -> Concerns:
    """Records whose time, number or producer is not known."""
    wrong: list[str] = []
    assumed: list[str] = []
    known = sum(finding.record_count for finding in findings)
    counts = sum((Counter(finding.counts) for finding in findings), Counter())
    wrong += _count_unknown(int(recorded.records.sum()), known, has_arrivals=bool(findings))
    if any(finding.timestamp_type != "CreateTime" for finding in findings):
        wrong.append("LogAppendTime: when its records were sent is lost")
    if any(finding.sampling_rate < 1 for finding in findings):
        assumed.append("a sample of the window's time was read and stands for all of it")
    if counts["outlier"]:
        text = f"{counts['outlier']} timestamps are far off: their records are placed by append order"
        (wrong if counts["outlier"] > FEW_RATIO * known else assumed).append(text)
    if counts["late"]:
        assumed.append(f"{counts['late']} records are earlier than the one before in their batch: several threads")
    if counts["aborted"]:
        assumed.append(f"{counts['aborted']} records of aborted transactions are replayed: they were load")
    if any(finding.producer_id < 0 for finding in findings):
        assumed.append("no producer ids: all producers of the topic are replayed as one")
    if recorded.partition_count == 1:
        assumed.append("one partition: every candidate puts all records there")
    return Concerns(tuple(wrong), tuple(assumed))


def _count_unknown(total: int, known: int, *, has_arrivals: bool) -> list[str]:
    if not total:
        return ["the window holds no record"]
    if not has_arrivals:
        return ["no arrivals are stored"]
    return [f"the arrivals of {total - known} of {total} records are not known"] if known != total else []


def _doubt_log(recorded: RecordedTopic, log: LogFacts) -> Concerns:
    """Records that were sent and are not in the log any more, and load that moved."""
    wrong: list[str] = []
    assumed: list[str] = []
    total = int(recorded.records.sum())
    gone = log.missing_count + log.compacted_count
    if gone:
        why = "compacted" if log.is_compacted or log.compacted_count else "compacted or lost"
        text = f"{gone} offsets are gone from the log ({why}): what is left is not all that was sent"
        (wrong if gone > FEW_RATIO * total else assumed).append(text)
    elif log.is_compacted:
        assumed.append("the topic is compacted: none of the window's records is taken to be gone yet")
    if log.crc_error_count:
        assumed.append(f"{log.crc_error_count} batches do not match their checksums")
    if log.late_starts:
        wrong.append(f"the log of {_name(log.late_starts)} begins inside the window: what was before is not known")
    if log.moved:
        assumed.append(
            f"leaders of {_name(log.moved)} were elected in the window: every record is replayed to the one at its end"
        )
    if log.empty_minute_count:
        assumed.append(
            f"{log.empty_minute_count} minutes of the window hold no record: taken for silence, not for loss"
        )
    return Concerns(tuple(wrong), tuple(assumed))


def _doubt_metrics(metrics: Sequence[MetricFacts]) -> Concerns:
    """Producers without metrics, or with such as contradict the log."""
    wrong: list[str] = []
    assumed: list[str] = [text for one in metrics for text in one.assumptions]
    for one in metrics:
        if not one.is_watched:
            assumed.append("no producer metrics of this window: how long brokers take is told by batches or assumed")
        elif not one.is_matched and one.spare_client_count:
            wrong.append(
                f"metrics contradict the log: {one.spare_client_count} clients sent bytes that are in no session, and a session has none"
            )
        elif not one.is_matched:
            assumed.append("a producer without metrics: how long brokers take for it is told by batches or assumed")
        elif one.difference_ratio is not None and one.difference_ratio > MOST_DIFFERENCE:
            wrong.append(f"metrics contradict the log: a producer's bytes differ by {100 * one.difference_ratio:.0f} %")
    return Concerns(tuple(wrong), tuple(assumed))


def _name(partitions: Sequence[int]) -> str:
    """As words.

    >>> _name((3,)), _name((0, 2))
    ('partition 3', 'partitions 0, 2')
    """
    shown = ", ".join(str(partition) for partition in partitions[:_LISTED])
    more = f" and {len(partitions) - _LISTED} more" if len(partitions) > _LISTED else ""
    return f"partition{'s' if len(partitions) > 1 else ''} {shown}{more}"
