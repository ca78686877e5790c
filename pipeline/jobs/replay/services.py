"""How long brokers took for each producer session, from the metrics of the client that is that session."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pipeline.calibration.service.fit import SATURATED, NodeMetrics, fit_services, take_out_stale
from pipeline.model.window import MINUTE_MS, TimeWindow, milliseconds_of
from pipeline.replay.client_matches import match_clients
from pipeline.storage.rows import load_rows
from pipeline.tables.silver import PRODUCER_NODES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pipeline.calibration.service.model import ServiceModel
    from pipeline.replay.calibrated import SessionFinding, SessionKey
    from pipeline.replay.results import ClusterFacts
    from pipeline.runs import RunContext

    Client = tuple[str, str]
    """Instance and `client.id`."""

_REQUEST_BYTES = 65
"""Of a produce request, roughly, what is no batch."""


@dataclass(frozen=True)
class SessionServices:
    """What metrics say about a session.

    Attributes:
        models: How long brokers take, by id.
        client_id: Whose metrics they are fitted to, or None.
        total_difference_ratio: Part of the session's bytes by which that client's differ, scrapes that do not cover all of
            the window allowed for; None without any.
        is_watched: Metrics tell of some client in the window.
        spare_client_count: Clients of the window that are no session's.
        latency_avg_ms: Of its records, queue and request together, or None.
        covered_ratio: Part of the window that the metrics cover; None without any.
        queue_time_ms: Mean wait of its batches in the producer, or None.
        saturated: Brokers to which as many requests are under way as may be.
        nodes: The metrics themselves, those of the time before too.
    """

    models: Mapping[int, ServiceModel]
    client_id: str | None = None
    total_difference_ratio: float | None = None
    is_watched: bool = False
    spare_client_count: int = 0
    latency_avg_ms: float | None = None
    covered_ratio: float | None = None
    queue_time_ms: float | None = None
    saturated: frozenset[int] = frozenset()
    nodes: tuple[NodeMetrics, ...] = ()

    @property
    def under_way(self) -> float | None:
        """The most requests under way to one broker, on average."""
        known = [
            node.request_rate_per_s * node.request_latency_avg_ms / 1000
            for node in self.nodes
            if node.request_rate_per_s is not None and node.request_latency_avg_ms is not None
        ]
        return max(known, default=None)


def fit_sessions(
    run: RunContext,
    windows: Sequence[TimeWindow],
    *,
    findings: Sequence[SessionFinding],
    cluster: ClusterFacts,
    minutes: Mapping[Client, Sequence[Mapping[str, Any]]],
) -> dict[SessionKey, SessionServices]:
    """Fits the brokers' services for every session.

    Args:
        run: What the run is about.
        windows: Which windows.
        findings: Sessions and the bytes they sent.
        cluster: The brokers.
        minutes: The clients' metrics by minute; none where windows are no longer than that.
    """
    length_ms = run.window_ms
    before = [TimeWindow(window.start_ms - length_ms, window.start_ms) for window in windows]
    rows = load_rows(run.warehouse, PRODUCER_NODES, cluster=run.cluster_name, windows=sorted({*windows, *before}))
    nodes: dict[int, dict[Client, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for row in rows.to_pylist():
        nodes[milliseconds_of(row["window_start"])][row["instance"], row["client_id"]].append(row)
    matched = _match(findings, nodes)
    taken = {client for client, _ in matched.values()}
    sent: dict[SessionKey, int] = defaultdict(int)
    for finding in findings:
        sent[finding.session] += sum(finding.bytes_by_broker.values())
    services = {}
    for session in dict.fromkeys(finding.session for finding in findings):
        start_ms, producer = session[0], session[1:]
        client, _ = matched.get(producer, (None, None))
        now, earlier = ((nodes[at_ms].get(client, ()) if client else ()) for at_ms in (start_ms, start_ms - length_ms))
        metrics = [_as_metrics(row, length_ms) for row in (*earlier, *now)]
        if client is not None and client in minutes:
            metrics = [_as_metrics(row, MINUTE_MS) for row in _within(minutes[client], start_ms, length_ms)]
        busy = [node for node in metrics if node.start_ms >= start_ms and _is_saturated(node)]
        services[session] = SessionServices(
            models=fit_services(metrics, cluster.brokers.get(start_ms, ()), start_ms, start_ms + length_ms),
            client_id=client[1] if client else None,
            total_difference_ratio=_compare_totals(sent[session], now, length_ms),
            is_watched=bool(nodes[start_ms]),
            spare_client_count=len(nodes[start_ms].keys() - taken),
            latency_avg_ms=_measure_latency(now, earlier, length_ms),
            covered_ratio=_cover(now, length_ms),
            queue_time_ms=next((row["queue_time_avg_ms"] for row in now if row["queue_time_avg_ms"] is not None), None),
            saturated=frozenset(node.broker_id for node in busy),
            nodes=tuple(metrics),
        )
    return services


def _within(rows: Sequence[Mapping[str, Any]], start_ms: int, length_ms: int) -> list[Mapping[str, Any]]:
    """Rows of a window's minutes, and of the minute before."""
    return [row for row in rows if start_ms - MINUTE_MS <= milliseconds_of(row["window_start"]) < start_ms + length_ms]


def _match(
    findings: Sequence[SessionFinding], nodes: Mapping[int, Mapping[Client, Sequence[Mapping[str, Any]]]]
) -> dict[tuple[int, int, str, str], tuple[Client, float]]:
    """Of each producer its client, by the bytes sent to each broker in each window."""
    stored: dict[tuple[int, int, str, str], dict[tuple[int, int], float]] = defaultdict(lambda: defaultdict(float))
    for finding in findings:
        for broker_id, size_bytes in finding.bytes_by_broker.items():
            stored[finding.session[1:]][finding.start_ms, broker_id] += size_bytes
    wanted = {finding.start_ms for finding in findings}
    sent: dict[Client, dict[tuple[int, int], float]] = defaultdict(dict)
    for start_ms in sorted(wanted & set(nodes)):
        for client, rows in sorted(nodes[start_ms].items()):
            for row in rows:
                if row["outgoing_bytes"] is not None:
                    own = row["outgoing_bytes"] - _REQUEST_BYTES * (row["request_count"] or 0)
                    sent[client][start_ms, row["broker_id"]] = max(0.0, own)
    return match_clients(stored, sent)


def _compare_totals(stored: int, rows: Sequence[Mapping[str, Any]], length_ms: int) -> float | None:
    """The lesser of two differences: as the counters rose, and as they would have over the whole window."""
    told = [row for row in rows if row["outgoing_bytes"] is not None]
    covered = _cover(told, length_ms)
    total: float = sum(max(0.0, row["outgoing_bytes"] - _REQUEST_BYTES * (row["request_count"] or 0)) for row in told)
    if not stored or not told:
        return None
    return min(abs(each / stored - 1) for each in (total, total / covered if covered else total))


def _as_metrics(row: Mapping[str, Any], length_ms: int) -> NodeMetrics:
    start_ms = milliseconds_of(row["window_start"])
    requests, size_bytes = row["request_count"], row["outgoing_bytes"]
    return NodeMetrics(
        broker_id=row["broker_id"],
        start_ms=start_ms,
        end_ms=start_ms + length_ms,
        request_rate_per_s=row["request_rate_per_s"],
        request_latency_avg_ms=row["request_latency_avg_ms"],
        request_bytes=size_bytes / requests if requests and size_bytes is not None else None,
    )


def _is_saturated(node: NodeMetrics) -> bool:
    return (node.request_rate_per_s or 0.0) * (node.request_latency_avg_ms or 0.0) / 1000 >= SATURATED


def _measure_latency(
    rows: Sequence[Mapping[str, Any]], before: Sequence[Mapping[str, Any]], length_ms: int
) -> float | None:
    """Queue time of the client and mean request latency of its brokers, by bytes; None where they were other just before.

    Kafka's averages trail: what they hold of the time before is taken out, and where that is much nothing is told.
    """
    known = [row for row in rows if row["request_latency_avg_ms"] is not None and row["outgoing_bytes"]]
    total = sum(row["outgoing_bytes"] for row in known)
    queued = next((row["queue_time_avg_ms"] for row in known if row["queue_time_avg_ms"] is not None), None)
    if not total or queued is None:
        return None
    earlier = {row["broker_id"]: _as_metrics(row, length_ms) for row in before}
    weighted = 0.0
    for row in known:
        latency = take_out_stale(_as_metrics(row, length_ms), earlier.get(row["broker_id"]))
        if not latency.is_settled:
            return None
        weighted += latency.own_ms * row["outgoing_bytes"]
    return float(queued + weighted / total)


def _cover(rows: Sequence[Mapping[str, Any]], length_ms: int) -> float | None:
    covered = [row["covered_ms"] for row in rows if row["covered_ms"] is not None]
    return max(covered) / length_ms if covered else None
