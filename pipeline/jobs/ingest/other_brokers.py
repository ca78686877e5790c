"""Metrics of brokers that the cluster does not have: their server tells of another cluster's brokers and clients, too."""

from dataclasses import replace

from pipeline.model.log import Problem
from pipeline.model.window import MINUTE_MS
from pipeline.sources.metrics.metric_source import MetricReading
from pipeline.sources.questions import name_some
from pipeline.sources.source import ClusterReading

_RECENT_MS = 3 * MINUTE_MS  # before the newest window's end: a broker that leaves is emptied before


def leave_out_others(metrics: MetricReading, reading: ClusterReading) -> MetricReading:
    """The metrics without what came of a server of which some broker is not the cluster's.

    Such a broker took in records at the end of the newest window, and is neither among the brokers that a live cluster or its
    metadata log names, nor a replica's. One that was removed was emptied before, and one that is dead holds replicas.
    """
    history, newest = reading.history, reading.newest
    is_known = history.newest_ms is not None or (reading.live is not None and reading.live.state is not None)
    if newest is None or not is_known or not history.brokers:
        return metrics
    states = (state for timeline in history.partitions.values() for state in timeline.values if state is not None)
    known = {*history.brokers, *(broker_id for state in states for broker_id in state.replicas)}
    since_ms = newest.end_ms - _RECENT_MS
    problems, others = dict(metrics.problems), set()
    paths = {batch["source"][0].as_py(): batch["path"][0].as_py() for batch in metrics.batches if len(batch)}
    for source, path in paths.items():
        taking = metrics.taking.get(source, {})
        unknown = sorted(one for one, at_ms in taking.items() if at_ms >= since_ms and one not in known)
        if unknown:
            others.add(source)
            reason = (
                f"{name_some('brokers', [*map(str, unknown)])} take in records, and this cluster has no such broker: "
                "another cluster's metrics are among these; none of the samples is taken; set `selector` of this source to "
                "what names this cluster, or correct `brokers` or `broker_label` of it"
            )
            problems[source] = (*problems.get(source, ()), Problem(path=path, reason=reason))
    kept = (batch for batch in metrics.batches if not len(batch) or batch["source"][0].as_py() not in others)
    return replace(metrics, batches=tuple(kept), problems=problems)
