"""What metrics say of each producer session: which client it is, and how long brokers took for its requests."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from pipeline.calibration.service.fit import SATURATED, NodeMetrics, fit_services, take_out_stale
from pipeline.calibration.service.model import ServiceModel
from pipeline.model.window import MINUTE_MS, milliseconds_of
from pipeline.replay.recorded import MetricsClient, ProducerSession, Recording, Row, SessionKey

Session = TypeVar("Session", bound=Hashable)
Client = TypeVar("Client", bound=Hashable)
Where = TypeVar("Where", bound=Hashable)

_REQUEST_BYTES = 65  # of a produce request, roughly, what is no batch
MOST_DIFFERENCE = 0.20
"""Part of the bytes that may differ: requests carry more than batches, and scrapes do not end with the window."""


@dataclass(frozen=True)
class SessionMetrics:
    """What metrics say of a session.

    Attributes:
        models: How long brokers take, by id, fitted to the metrics of `client_id`.
        total_difference_ratio: Part of the session's bytes by which that client's differ, scrapes that do not cover all of
            the window allowed for; None without any.
        is_watched: There are metrics of some client in the window.
        spare_client_count: Clients of the window that are no session's.
        latency_avg_ms: Of its records, queue and request together, or None.
        saturated: Brokers to which as many requests are under way as may be.
        nodes: The metrics themselves, those of the time before too.
    """

    models: Mapping[int, ServiceModel]
    client_id: str | None = None
    total_difference_ratio: float | None = None
    is_watched: bool = False
    spare_client_count: int = 0
    latency_avg_ms: float | None = None
    queue_time_ms: float | None = None
    saturated: frozenset[int] = frozenset()
    nodes: tuple[NodeMetrics, ...] = ()

    @property
    def under_way(self) -> float | None:
        """The most requests under way to one broker, on average."""
        return max(
            (
                node.under_way
                for node in self.nodes
                if node.request_rate_per_s is not None and node.request_latency_avg_ms is not None
            ),
            default=None,
        )


def fit_sessions(recording: Recording, sessions: Sequence[ProducerSession]) -> dict[SessionKey, SessionMetrics]:
    """Finds each session's client by the bytes both sent to each broker, and fits the brokers' services to its metrics."""
    length_ms, nodes = recording.window_ms, recording.nodes
    matched = _match(sessions, nodes)
    sent: dict[SessionKey, int] = defaultdict(int)
    for session in sessions:
        sent[session.key] += sum(session.bytes_by_broker.values())
    found = {}
    for key, sent_bytes in sent.items():
        start_ms, client = key[0], matched.get(key[1:])
        now, earlier = (
            nodes.get(at_ms, {}).get(client, ()) if client else () for at_ms in (start_ms, start_ms - length_ms)
        )
        metrics = [_read_metrics(row, length_ms) for row in (*earlier, *now)]
        if client is not None and client in recording.minute_nodes:
            first_ms = start_ms - MINUTE_MS
            minutes = [_read_metrics(row, MINUTE_MS) for row in recording.minute_nodes[client]]
            metrics = [minute for minute in minutes if first_ms <= minute.start_ms < start_ms + length_ms]
        clients = nodes.get(start_ms, {})
        found[key] = SessionMetrics(
            models=fit_services(metrics, recording.brokers.get(start_ms, ()), start_ms, start_ms + length_ms),
            client_id=client[1] if client else None,
            total_difference_ratio=_compare_totals(sent_bytes, now, length_ms),
            is_watched=bool(clients),
            spare_client_count=len(clients.keys() - set(matched.values())),
            latency_avg_ms=_measure_latency(now, earlier, length_ms),
            queue_time_ms=_queue_time(now),
            saturated=frozenset(
                node.broker_id for node in metrics if node.start_ms >= start_ms and node.under_way >= SATURATED
            ),
            nodes=tuple(metrics),
        )
    return found


def _match(
    sessions: Sequence[ProducerSession], nodes: Mapping[int, Mapping[MetricsClient, Sequence[Row]]]
) -> dict[tuple[int, int, str, str], MetricsClient]:
    stored: dict[tuple[int, int, str, str], dict[tuple[int, int], float]] = defaultdict(lambda: defaultdict(float))
    for session in sessions:
        for broker_id, size_bytes in session.bytes_by_broker.items():
            stored[session.key[1:]][session.start_ms, broker_id] += size_bytes
    sent: dict[MetricsClient, dict[tuple[int, int], float]] = defaultdict(dict)
    for start_ms in sorted({session.start_ms for session in sessions} & nodes.keys()):
        for client, rows in sorted(nodes[start_ms].items()):
            for row in rows:
                if row["outgoing_bytes"] is not None:
                    sent[client][start_ms, row["broker_id"]] = _batch_bytes(row)
    return match_clients(stored, sent)


def match_clients(
    sessions: Mapping[Session, Mapping[Where, float]], clients: Mapping[Client, Mapping[Where, float]]
) -> dict[Session, Client]:
    """Pairs sessions and clients by their bytes per broker and window, the most alike first, each at most once.

    >>> match_clients({7: {0: 100, 1: 50}, 8: {0: 900}}, {"a": {0: 910}, "b": {0: 105, 1: 52}})
    {8: 'a', 7: 'b'}
    """
    pairs = [
        (difference, session, client)
        for session, stored in sessions.items()
        for client, sent in clients.items()
        if (difference := _compare(stored, sent)) <= MOST_DIFFERENCE
    ]
    matched: dict[Session, Client] = {}
    for _, session, client in sorted(pairs, key=lambda pair: pair[0]):
        if session not in matched and client not in matched.values():
            matched[session] = client
    return matched


def _compare(stored: Mapping[Where, float], sent: Mapping[Where, float]) -> float:
    total = sum(stored.values())
    if not total:
        return float("inf")
    return sum(abs(stored.get(where, 0) - sent.get(where, 0)) for where in {*stored, *sent}) / total


def _batch_bytes(row: Row) -> float:
    return max(0.0, float(row["outgoing_bytes"] - _REQUEST_BYTES * (row["request_count"] or 0)))


def _compare_totals(stored: int, rows: Sequence[Row], length_ms: int) -> float | None:
    """The lesser of two differences: as the counters rose, and as they would have over the whole window."""
    known = [row for row in rows if row["outgoing_bytes"] is not None]
    if not stored or not known:
        return None
    covered_ms = max((row["covered_ms"] for row in known if row["covered_ms"] is not None), default=0)
    total = sum(_batch_bytes(row) for row in known)
    return min(abs(each / stored - 1) for each in (total, total * length_ms / covered_ms if covered_ms else total))


def _read_metrics(row: Row, length_ms: int) -> NodeMetrics:
    start_ms, requests, size_bytes = milliseconds_of(row["window_start"]), row["request_count"], row["outgoing_bytes"]
    return NodeMetrics(
        broker_id=row["broker_id"],
        start_ms=start_ms,
        end_ms=start_ms + length_ms,
        request_rate_per_s=row["request_rate_per_s"],
        request_latency_avg_ms=row["request_latency_avg_ms"],
        request_bytes=size_bytes / requests if requests and size_bytes is not None else None,
    )


def _queue_time(rows: Sequence[Row]) -> Any:  # noqa: ANN401 - a number, or None where no row has it
    return next((row["queue_time_avg_ms"] for row in rows if row["queue_time_avg_ms"] is not None), None)


def _measure_latency(rows: Sequence[Row], before: Sequence[Row], length_ms: int) -> float | None:
    """Queue time of the client and mean request latency of its brokers, by bytes; None where they were other just before.

    Kafka's averages trail: what they hold of the time before is taken out, and where that is much the rest is no measure.
    """
    known = [row for row in rows if row["request_latency_avg_ms"] is not None and row["outgoing_bytes"]]
    total, queued = sum(row["outgoing_bytes"] for row in known), _queue_time(known)
    if not total or queued is None:
        return None
    earlier = {row["broker_id"]: _read_metrics(row, length_ms) for row in before}
    weighted = 0.0
    for row in known:
        latency = take_out_stale(_read_metrics(row, length_ms), earlier.get(row["broker_id"]))
        if not latency.is_settled:
            return None
        weighted += latency.own_ms * row["outgoing_bytes"]
    return float(queued + weighted / total)
