"""Matches metrics to producer sessions: client and broker latency of each."""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from pipeline.arrays import Ints
from pipeline.calibration.limits import ALIKE, HALF, LEAST_SAMPLE
from pipeline.calibration.partitioner.linger_waits import Waiting
from pipeline.calibration.service import fit
from pipeline.calibration.service.model import ServiceModel, lend_model
from pipeline.model.window import MINUTE_MS
from pipeline.replay.client_matching import ProducerKey, match_sessions, pool_clients, producer_of
from pipeline.replay.recorded import (
    SLOTS,
    ClientNode,
    MetricsClient,
    ProducerSession,
    Recording,
    RequestSpan,
    SessionKey,
)


def sum_latencies(spans: Sequence[RequestSpan]) -> float | None:
    """Mean wait of batches and mean latency of each broker's requests by its bytes, from spans between scrapes; or None."""
    of_broker: dict[int | None, list[RequestSpan]] = defaultdict(list)
    for span in spans:
        of_broker[span.broker_id].append(span)
    means = {
        broker_id: float(np.average([span.latency_ms for span in own], weights=[span.request_count for span in own]))
        for broker_id, own in of_broker.items()
    }
    sizes = {
        broker_id: sum(span.byte_count for span in own) for broker_id, own in of_broker.items() if broker_id is not None
    }
    if None not in means or not sum(sizes.values()):
        return None
    return means[None] + sum(size * means[broker_id] for broker_id, size in sizes.items()) / sum(sizes.values())


def find_usual_wait(spans: Sequence[RequestSpan]) -> float | None:
    """The median over spans between scrapes of what batches waited: a time of slow brokers does not count for another."""
    waits = [span.latency_ms for span in spans if span.broker_id is None]
    return float(np.median(waits)) if waits else None


def read_spans(spans: Sequence[RequestSpan]) -> list[fit.NodeMetrics]:
    """Spans with a broker as metrics of its connection."""
    return [
        fit.NodeMetrics(
            span.broker_id,
            span.start_ms,
            span.end_ms,
            request_rate_per_s=1000 * span.request_count / (span.end_ms - span.start_ms),
            request_latency_avg_ms=span.latency_ms,
            request_bytes=span.byte_count / span.request_count,
            is_own=True,
        )
        for span in spans
        if span.broker_id is not None
    ]


@dataclass(frozen=True)
class SessionMetrics:
    models: Mapping[int, ServiceModel]  # how long brokers take, by id, fitted to the metrics of `client_id`
    client_id: str | None = None
    clients: tuple[MetricsClient, ...] = ()  # all its clients, of pooled producers several; the largest first
    client_bytes: tuple[float, ...] = ()  # of batches that each of them sent in the window
    # part of the producer's bytes by which that client's differ, scrapes that do not cover all of the window allowed
    # for; None without any
    total_difference_ratio: float | None = None
    is_watched: bool = False  # there are metrics of some client in the window
    spare_client_count: int = 0  # clients of the window that are no session's and sent as much as this one might have
    latency_avg_ms: float | None = None  # of its records, queue and request together, or None
    waiting: Waiting = field(default_factory=Waiting)  # why its batches waited
    saturated: frozenset[int] = frozenset()  # brokers to which as many requests are under way as may be
    nodes: tuple[fit.NodeMetrics, ...] = ()  # the metrics themselves, those of the time before too
    spans: tuple[fit.NodeMetrics, ...] = ()  # of the window, from scrape to scrape

    @property
    def weights(self) -> tuple[float, ...]:
        """Of pooled producers, by what their clients sent; of the largest ones, none where clients do not tell several."""
        weights = self.client_bytes[:LEAST_SAMPLE]  # so many stand for all
        return weights if len(weights) > 1 and any(weights) else ()


MetricsBySession = Mapping[SessionKey, SessionMetrics]


def fit_sessions(recording: Recording, sessions: Sequence[ProducerSession]) -> dict[SessionKey, SessionMetrics]:
    """Finds each session's client by the bytes both sent to each broker, and fits the brokers' services to its metrics."""
    length_ms, nodes = recording.window_ms, recording.nodes
    matched, sent = match_sessions(sessions, nodes), sum_sent(sessions)
    stored: dict[ProducerKey, Ints] = defaultdict(lambda: np.zeros(SLOTS, np.int64))
    for session in sessions:
        stored[producer_of(session.key)] += session.bytes_by_slot
    pooled = pool_clients(recording, sessions, matched)
    clients_of = {producer: (client,) for producer, client in matched.items()} | pooled
    taken = {(key[0], client) for key in sent for client in clients_of.get(producer_of(key)[1:], ())}
    spare, metrics_of = _sum_spare(recording, taken), {}
    for key in sent:
        clients, free = nodes.get(start_ms := key[0], {}), spare.get(key[0], [])
        own = tuple(each for each in clients_of.get(producer_of(key)[1:], ()) if each in clients)
        # librdkafka has far more requests under way than five: of several such clients none is fitted
        client = own[0] if own and (producer_of(key)[1:] in matched or recording.requests.keys() >= {*own}) else None
        in_log = stored[producer_of(key)]
        now = clients.get(client, ()) if client else ()
        earlier = nodes.get(start_ms - length_ms, {}).get(client, ()) if client else ()
        metrics = [_read_metrics(node, length_ms) for node in (*earlier, *now)]
        if client is not None and client in recording.minute_nodes:
            minutes = [_read_metrics(node, MINUTE_MS) for node in recording.minute_nodes[client]]
            metrics = [each for each in minutes if start_ms - MINUTE_MS <= each.start_ms < start_ms + length_ms]
        end_ms, requests = start_ms + length_ms, recording.requests.get(client, ()) if client else ()
        every_span = read_spans(requests)
        metrics = [fit.take_own(node, every_span) for node in metrics]
        requests = [span for span in requests if span.start_ms < end_ms and span.end_ms > start_ms]
        spans = read_spans(requests)
        models = fit.fit_services(metrics, recording.brokers.get(start_ms, ()), start_ms, end_ms)
        of_window = [node for node in metrics if node.start_ms >= start_ms]
        metrics_of[key] = SessionMetrics(
            models={broker_id: fit.follow_delays(model, spans) for broker_id, model in models.items()},
            client_id=client[1] if client else None,
            clients=own,
            client_bytes=tuple(_sum_bytes(clients[each]) for each in own),
            total_difference_ratio=_compare_totals(
                in_log, [node for each in own for node in clients[each]], start_ms, length_ms
            ),
            is_watched=bool(clients),
            spare_client_count=len(free) - bisect_right(free, ALIKE * in_log.sum()),
            latency_avg_ms=sum_latencies(requests) or _measure_latency(now, earlier, length_ms),
            waiting=Waiting(
                queue_time_ms=find_usual_wait(requests) or _queue_time(now),
                under_way=max((node.under_way for node in metrics if node.has_latency), default=None),
                least_under_way=_least_mean(of_window, lambda node: node.under_way),
                least_latency_ms=_least_mean(of_window, lambda node: node.request_latency_avg_ms or 0.0),
            ),
            saturated=frozenset(node.broker_id for node in of_window if node.under_way >= fit.SATURATED),
            nodes=tuple(metrics),
            spans=tuple(spans),
        )
    return share_models(metrics_of, sent)


def _sum_spare(recording: Recording, taken: Collection[tuple[int, MetricsClient]]) -> dict[int, list[float]]:
    """Bytes of clients that are no session's by window, ascending."""
    return {
        start_ms: sorted(_sum_bytes(own) for client, own in clients.items() if (start_ms, client) not in taken)
        for start_ms, clients in recording.nodes.items()
    }


def sum_sent(sessions: Iterable[ProducerSession]) -> Counter[SessionKey]:
    sent: Counter[SessionKey] = Counter()
    for session in sessions:
        sent[session.key] += sum(session.bytes_by_broker.values())
    return sent


def share_models(metrics: MetricsBySession, sent: Mapping[SessionKey, int]) -> dict[SessionKey, SessionMetrics]:
    """Lends producers without metrics the delays that brokers had for the one that sent most; `sent` is bytes by session."""
    lent: dict[int, dict[int, ServiceModel]] = defaultdict(dict)
    for key in sorted(metrics, key=lambda key: sent[key]):
        if metrics[key].client_id is not None:
            known = {broker: model for broker, model in metrics[key].models.items() if model.is_identifiable}
            lent[key[0]] |= {broker: lend_model(model) for broker, model in known.items()}
    return {
        key: own if own.client_id is not None else replace(own, models={**own.models, **lent[key[0]]})
        for key, own in metrics.items()
    }


def _sum_bytes(nodes: Sequence[ClientNode]) -> float:
    return sum(node.batch_bytes for node in nodes)


def _compare_totals(slots: Ints, nodes: Sequence[ClientNode], start_ms: int, length_ms: int) -> float | None:
    """Compares the bytes of a producer, by slot of the window, with those that its client says it sent.

    Each broker's counter over the time between its first and last scrape in the window, if that holds half of the bytes.
    It is taken to have sent like the others in the rest of the window. Else it is the lesser of two differences: as the
    counters rose, and as they would have over the whole window.
    """
    known, stored = [node for node in nodes if node.outgoing_bytes is not None], int(slots.sum())
    if not stored or not known:
        return None
    if all(node.inner_bytes is not None for node in known):
        # the part of the log's bytes between these scrapes; even within a slot
        edges_ms = np.linspace(start_ms, start_ms + length_ms, len(slots) + 1)
        scrapes_ms = [(node.inner_from_ms or 0, node.inner_until_ms or 0) for node in known]
        parts = np.diff(np.interp(scrapes_ms, edges_ms, np.concatenate([[0], np.cumsum(slots)]) / stored))[:, 0]
        if parts.min() >= HALF:
            inner = [
                node.batch_bytes * (node.inner_bytes or 0.0) / max(1.0, node.outgoing_bytes or 0.0) for node in known
            ]
            return abs(float(np.sum(inner / parts)) / stored - 1)
    covered_ms = max((node.covered_ms for node in known if node.covered_ms is not None), default=0)
    total = _sum_bytes(known)
    return min(abs(each / stored - 1) for each in (total, total * length_ms / covered_ms if covered_ms else total))


def _read_metrics(node: ClientNode, length_ms: int) -> fit.NodeMetrics:
    requests, size_bytes = node.request_count, node.outgoing_bytes
    return fit.NodeMetrics(
        broker_id=node.broker_id,
        start_ms=node.window_start_ms,
        end_ms=node.window_start_ms + length_ms,
        request_rate_per_s=node.request_rate_per_s,
        request_latency_avg_ms=node.request_latency_avg_ms,
        request_bytes=size_bytes / requests if requests and size_bytes is not None else None,
    )


def _least_mean(nodes: Sequence[fit.NodeMetrics], measure: Callable[[fit.NodeMetrics], float]) -> float | None:
    values: dict[int, list[float]] = defaultdict(list)
    for node in nodes:
        if node.has_latency:
            values[node.broker_id].append(measure(node))
    return min((sum(each) / len(each) for each in values.values()), default=None)


def _queue_time(nodes: Sequence[ClientNode]) -> float | None:
    return next((node.queue_time_avg_ms for node in nodes if node.queue_time_avg_ms is not None), None)


def _measure_latency(nodes: Sequence[ClientNode], before: Sequence[ClientNode], length_ms: int) -> float | None:
    """Queue time of the client and mean request latency of its brokers, by bytes; None where they were other just before.

    Kafka's averages trail: what they hold of the time before is taken out, and where that is much the rest is no measure.
    """
    known = [node for node in nodes if node.request_latency_avg_ms is not None and node.outgoing_bytes]
    sizes = [node.outgoing_bytes or 0.0 for node in known]
    queued = _queue_time(known)
    if queued is None:
        return None
    earlier = {node.broker_id: _read_metrics(node, length_ms) for node in before}
    weighted = 0.0
    for node, size in zip(known, sizes, strict=True):
        latency = fit.take_out_stale(_read_metrics(node, length_ms), earlier.get(node.broker_id))
        if not latency.is_settled:
            return None
        weighted += (latency.request_latency_avg_ms or 0.0) * size
    return queued + weighted / sum(sizes)
