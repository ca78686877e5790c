"""Metrics of brokers that the cluster does not have. Oracle: a cluster of brokers 1 and 2, and a replica on a dead broker 3."""

import pytest

from pipeline.jobs.ingest.windows import leave_out_others
from pipeline.model.cluster import LIVE_CLUSTER, Broker, ClusterHistory, PartitionState, Timeline
from pipeline.model.log import TopicPartition
from pipeline.sources.kinds.live_cluster import LiveCluster
from pipeline.sources.live.reading import LiveReading
from pipeline.sources.live.state import LiveState
from pipeline.sources.metrics.metric_source import MetricReading
from pipeline.sources.source import ClusterReading
from tests.unit.jobs.test_ingest_windows import window
from tests.unit.sources.http_servers import serving
from tests.unit.sources.metrics.test_metric_readings import SPAN, read, rows, server
from tests.unit.sources.metrics.test_scraped_brokers import BYTES_IN, LATENCY, NODE, answering, series

NEWEST = window(9)
PARTITION = PartitionState(
    topic="t", topic_id="id", partition=0, leader_id=1, leader_epoch=0, replicas=(1, 3), isr=(1,)
)  # fmt: skip  # fields of a value, several a line
HISTORY = ClusterHistory(
    state_source=LIVE_CLUSTER,
    brokers={one: Timeline.always(Broker(broker_id=one)) for one in (1, 2)},
    partitions={TopicPartition("t", 0): Timeline.always(PARTITION)},
)


def reading_of(newest, *, is_live=True):
    source = LiveCluster(kind="live_cluster", bootstrap_servers="b:9092")
    nothing = {"partitions": {}, "in_scope": (), "replicas": (), "log_starts": {}, "high_watermarks": {}}
    state = LiveState(history=HISTORY, **nothing)
    live = LiveReading(source=source, observed_at_ms=newest.end_ms if newest else 0, state=state)
    return ClusterReading(record_source="s", history=HISTORY, live=live if is_live else None, newest=newest)


def told(*held, newest=SPAN, **more):
    """What is left of a server's series by instance, and the reasons why the others are not."""
    with serving(answering(*held)) as site:
        metrics = leave_out_others(read(server(site.url)), reading_of(newest, **more))
        wrong = [one for one in metrics.problems["prometheus"] if one.severity == "refused"]
        assert {one.path for one in wrong} <= {site.url}
    return {row["instance"] for row in rows(metrics)}, [one.reason for one in wrong]


def brokers(*ids, **more):
    return [series(BYTES_IN, f"b{number}:1", broker_id=str(number), **more) for number in ids]


def test_nothing_is_taken_of_a_server_with_a_busy_broker_that_the_cluster_does_not_have():
    """Ids of two clusters that share none: nothing is there twice."""
    found, (reason,) = told(*brokers(1, 2, 101, 102), series(LATENCY, "c:1", **NODE))
    assert found == set()
    assert reason.startswith("brokers 101, 102 take in records, and this cluster has no such broker")
    assert "`selector`" in reason


@pytest.mark.parametrize(
    ("held", "more"),
    [
        (brokers(1, 2), {}),
        (brokers(1, 3), {}),
        ([*brokers(1), *brokers(3000, rise=0)], {}),
        ([*brokers(1), *brokers(4, instants=(-30, 0))], {"newest": window(9)}),
        (brokers(101), {"newest": None}),
        (brokers(101), {"is_live": False}),
    ],
    ids=["its own", "dead", "a controller", "emptied and removed", "a window of before", "brokers of disks alone"],
)
def test_what_may_be_the_cluster_s_is_taken(held, more):
    found, wrong = told(*held, **more)
    assert (len(found), wrong) == (len(held), [])


def test_sources_are_judged_each_for_itself():
    with serving(answering(*brokers(1))) as ours, serving(answering(*brokers(101))) as other:
        metrics = leave_out_others(read(server(ours.url), server(other.url)), reading_of(SPAN))
    assert {(row["source"], row["instance"]) for row in rows(metrics)} == {("prometheus", "b1:1")}
    assert leave_out_others(MetricReading(), reading_of(SPAN)) == MetricReading()
