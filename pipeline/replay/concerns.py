"""Reasons to doubt a topic's replay: gaps of the log, unknown arrivals, metrics that do not fit."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter

from pipeline.calibration.caveats import Caveat, Origin, Statement
from pipeline.calibration.limits import MOST_STRAY, SHARE_BAR_POINTS
from pipeline.calibration.session_traffic import CREATE_TIME
from pipeline.model.number_text import join_names
from pipeline.model.window import MINUTE_MS
from pipeline.replay.metrics import SessionMetrics
from pipeline.replay.recorded import RecordedTopic, Row, Sessions

_LISTED = 6
_REASON, _ASSUMED = True, False
Doubt = tuple[bool, Statement]
"""Whether it is a reason not to trust, and what it is."""


@dataclass(frozen=True)
class Concerns:
    """Reasons not to trust a topic's prediction; and assumptions: as far as they hold, it is to be trusted."""

    reasons: tuple[Statement, ...] = ()
    assumptions: tuple[Statement, ...] = ()
    log_reasons: tuple[Statement, ...] = ()  # those of the reasons that hold for what keys alone say, too


def list_concerns(
    recorded: RecordedTopic, sessions: Sessions, reason: str, of_log: Sequence[Doubt], metrics: Sequence[SessionMetrics]
) -> Concerns:
    """Lists the data's reasons for doubt; `reason` says why the present settings could not be simulated, or is ""."""
    concerns = [
        *([(_REASON, Caveat.NOT_SIMULATED.say(reason=reason))] if reason else []),
        *_doubt_arrivals(recorded, sessions),
        *of_log,
        *_tell_pooled(sessions, metrics),
        *_doubt_metrics(metrics),
        *((_ASSUMED, caveat) for session in sessions for caveat in session.baseline.assumptions),
        *(  # settings that neither log nor metrics show, so that they may differ from those in use
            (_REASON, Caveat.SETTING_UNKNOWN.say(name=name, value=setting.value))
            for session in sessions
            for name, setting in session.baseline.settings.items()
            if setting.source is Origin.UNKNOWN
        ),
    ]
    kinds = ((concerns, _REASON), (concerns, _ASSUMED), (of_log, _REASON))
    return Concerns(*(tuple(caveat for kind, caveat in told if kind == wanted) for told, wanted in kinds))


def _doubt_arrivals(recorded: RecordedTopic, sessions: Sessions) -> Iterator[Doubt]:
    total, known = int(recorded.records.sum()), sum(session.record_count for session in sessions)
    if not total or not sessions:
        yield _REASON, (Caveat.NO_ARRIVALS if total else Caveat.NO_RECORDS).say()
    elif known != total:
        yield _REASON, Caveat.ARRIVALS_MISSING.say(missing=total - known, total=total)
    if any(session.timestamp_type != CREATE_TIME for session in sessions):
        yield _REASON, Caveat.NO_CREATE_TIME.say()
    if any(session.sampling_rate < 1 for session in sessions):
        yield _ASSUMED, Caveat.SAMPLED.say()
    special: Counter[str] = sum((Counter(session.counts) for session in sessions), Counter())
    if outliers := special["outlier"]:
        yield outliers > SHARE_BAR_POINTS / 100 * known, Caveat.OUTLIERS.say(count=outliers)
    for name, caveat in (("late", Caveat.LATE_RECORDS), ("aborted", Caveat.ABORTED_RECORDS)):
        if special[name]:
            yield _ASSUMED, caveat.say(count=special[name])
    if recorded.partition_count == 1:
        yield _ASSUMED, Caveat.ONE_PARTITION.say()


def _tell_pooled(sessions: Sessions, metrics: Sequence[SessionMetrics]) -> Iterator[Doubt]:
    for session, own in zip(sessions, metrics, strict=False):
        if session.producer_id < 0:
            count = len(own.weights)
            yield _ASSUMED, Caveat.PRODUCERS_DEALT.say(count=count) if count else Caveat.NO_PRODUCER_IDS.say()


def doubt_log(
    rows: Sequence[Row], log_starts: Mapping[int, int], minutes: int, window_ms: int, *, lack: str = ""
) -> Iterator[Doubt]:
    """Records that were sent and are not in the log any more, and load that moved: from rows of `silver.partition_traffic`.

    `minutes` of the window hold records, 0 if unknown; `lack` is what is missing of its records, of whichever topic.
    """
    if lack:
        yield _REASON, Caveat.INCOMPLETE.say(lack=lack)
    names = ("record_count", "missing_offset_count", "compacted_record_count", "is_compacted", "crc_error_count")
    count, missing, compacted, is_compacted, errors = (sum(map(itemgetter(name), rows)) for name in names)
    if gone := missing + compacted:
        why = "compacted" if is_compacted or compacted else "compacted or lost"
        yield gone > SHARE_BAR_POINTS / 100 * count, Caveat.OFFSETS_GONE.say(count=gone, why=why)
    elif is_compacted:
        yield _ASSUMED, Caveat.COMPACTED_TOPIC.say()
    if errors:
        yield _ASSUMED, Caveat.CRC_ERRORS.say(count=errors)
    leaders: dict[int, set[tuple[int, int]]] = defaultdict(set)
    first: dict[int, int] = {}
    for partition, offset, *term in map(itemgetter("partition", "first_offset", "leader_id", "leader_epoch"), rows):
        leaders[partition].add(tuple(term))
        first[partition] = min(offset, first.get(partition, offset))
    for is_reason, caveat, partitions in (
        (_REASON, Caveat.LATE_LOG_START, {one for one, offset in first.items() if 0 < offset == log_starts.get(one)}),
        (_ASSUMED, Caveat.LEADERS_ELECTED, {one for one, own in leaders.items() if len(own) > 1}),
        (_REASON, Caveat.LEADERS_UNKNOWN, {one for one, own in leaders.items() if min(own)[0] < 0}),
    ):
        if partitions:
            yield is_reason, caveat.say(partitions=_name(sorted(partitions)))
    if minutes and (empty := window_ms // MINUTE_MS - minutes) > 0:
        yield _ASSUMED, Caveat.EMPTY_MINUTES.say(count=empty)


def _doubt_metrics(metrics: Sequence[SessionMetrics]) -> Iterator[Doubt]:
    for one in metrics:
        yield from ((_ASSUMED, caveat) for model in one.models.values() for caveat in model.assumptions)
    for one in metrics:
        if not one.is_watched:
            yield _ASSUMED, Caveat.NO_METRICS.say()
        elif one.total_difference_ratio is not None and one.total_difference_ratio > MOST_STRAY:
            yield _REASON, Caveat.OTHER_BYTES.say(percent=100 * one.total_difference_ratio)
        elif one.client_id is None and one.spare_client_count:
            yield _REASON, Caveat.OTHER_CLIENTS.say(count=one.spare_client_count)
        elif one.client_id is None:
            yield _ASSUMED, Caveat.SESSION_WITHOUT_METRICS.say()


def _name(partitions: Sequence[int]) -> str:
    """As words.

    >>> _name((3,)), _name((0, 2))
    ('partition 3', 'partitions 0, 2')
    """
    return f"partition{'s' if len(partitions) > 1 else ''} {join_names(partitions, _LISTED)}"
