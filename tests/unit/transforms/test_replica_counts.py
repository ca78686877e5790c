"""Partitions whose replicas are not as they should be. Oracle: counted by hand."""

import pytest

from pipeline.model.window import instant_of
from pipeline.storage.frames import rows_of
from pipeline.tables.bronze import CLUSTER_STATE
from pipeline.transforms.topic_health import count_replicas, list_fixed_topics


def replicas(leader, sizes, *, in_sync=True, source="cluster_metadata", **configs):
    """A partition's rows, replica by replica."""
    of = {"cluster": "c", "window_start": instant_of(0), "topic": "t", "topic_id": "", "partition": 0}
    of |= {"leader_id": leader, "is_in_sync": in_sync, "state_source": source}
    of |= {"configs": {name.replace("_", "."): value for name, value in configs.items()}}
    places = [{"replica_id": at, "replica_position": at, "size_bytes": size} for at, size in enumerate(sizes)]
    roles = [{"is_leader": at == leader, "is_preferred_leader": at == 0} for at in range(len(sizes))]
    return [of | place | role for place, role in zip(places, roles, strict=True)]


def count(rows, away=()):
    (found,) = count_replicas(rows_of(CLUSTER_STATE, rows, run_id="r"), away).to_dicts()
    return found


@pytest.mark.parametrize(
    ("rows", "leaderless", "spread"),
    [
        (replicas(0, (300, 100)), 0, 3.0),
        (replicas(-1, (300, 100)), 1, 3.0),
        (replicas(-1, (None, None), in_sync=None), 0, None),  # who led is not known: no word that nobody did
        (replicas(0, (300, 100), cleanup_policy="compact,delete"), 0, None),  # each broker cleans its own
        (replicas(0, (300, 100), cleanup_policy="delete", source="live_cluster"), 0, 3.0),
        (replicas(0, (300, 100), source="live_cluster"), 0, None),  # no broker tells the policy
    ],
)
def test_leaderless_partitions_and_replicas_that_differ_in_size(rows, leaderless, spread):
    found = count(rows)
    assert (found["leaderless_count"], found["replica_size_spread"]) == (leaderless, spread)


@pytest.mark.parametrize(
    ("rows", "away", "under", "below", "lagging"),
    [
        (replicas(0, (1, 1)), (), 0, 0, 0),
        (replicas(0, (1, 1)), (1,), 1, 0, 1),  # seen in sync, and dead at the window's end
        (replicas(0, (1, 1)), (5,), 0, 0, 0),
        (replicas(0, (1, 1), min_insync_replicas="2"), (1,), 1, 1, 1),
        (replicas(0, (1, 1), min_insync_replicas="3"), (), 0, 0, 0),  # Kafka asks for no more than there are
        (replicas(0, (1, 1), min_insync_replicas="3"), (1,), 1, 1, 1),
        (replicas(0, (1, 1), in_sync=None, min_insync_replicas="2"), (), 0, 0, 0),  # nobody knows
        (replicas(0, (1, 1), in_sync=None, min_insync_replicas="2"), (1,), 1, 1, 1),
        (replicas(0, (1, 1), in_sync=False), (), 1, 1, 2),
        ([*replicas(0, (1, 1))[:1], *replicas(0, (1, 1), in_sync=None)[1:]], (), 0, 0, 0),  # of one it is not known
        (replicas(-1, (1, 1), in_sync=None), (1,), 1, 0, 1),
    ],
)
def test_replicas_out_of_the_in_sync_set(rows, away, under, below, lagging):
    found = count(rows, away)
    names = ("under_replicated_count", "below_min_isr_count", "lagging_replica_count")
    assert tuple(found[name] for name in names) == (under, below, lagging)
    assert found["leaderless_count"] == 0


@pytest.mark.parametrize(
    ("reassignment", "in_sync", "away", "under"),
    [
        ((None, None, "adding"), (True, True, False), (), 0),  # the new one is behind by nature
        ((None, None, "adding"), (True, False, False), (), 1),
        ((None, None, "adding"), (True, True, False), (1,), 1),
        ((None, None, "adding"), (None, None, None), (1,), 1),  # nobody knows of the others
        (("removing", None, "adding"), (False, True, True), (), 0),  # as many in sync as it had, as Kafka counts
        (("moving", "moving", "moving"), (True, True, False), (), 0),  # a tool that does not say which are new
    ],
)
def test_a_reassignment_hides_no_replica_that_fell_out_of_sync(reassignment, in_sync, away, under):
    """An incident about a dead broker's replicas was mailed as resolved while they were being replaced."""
    rows = replicas(0, (1, 1, 1))
    told = zip(rows, in_sync, reassignment, strict=True)
    rows = [row | {"is_in_sync": is_in_sync, "reassignment": how} for row, is_in_sync, how in told]
    found = count(rows, away)
    assert (found["under_replicated_count"], found["reassigning_count"]) == (under, 1)


@pytest.mark.parametrize(
    ("rows", "away", "unknown"),
    [
        (replicas(0, (1, 1)), (), (0, 0)),
        (replicas(0, (1, 1), source="live_cluster"), (), (0, 1)),  # brokers tell defaults, too, where they tell any
        (replicas(0, (1, 1), min_insync_replicas="2", source="live_cluster"), (), (0, 0)),
        (replicas(0, (1, 1), in_sync=None), (), (1, 0)),
        (replicas(0, (1, 1), in_sync=None), (1,), (0, 0)),
    ],
)
def test_what_nobody_observed_is_counted_as_unknown(rows, away, unknown):
    found = count(rows, away)
    assert (found["unknown_replicas_count"], found["unknown_min_isr_count"]) == unknown
    assert found["below_min_isr_count"] == 0


def test_topics_that_take_no_more_partitions():
    """Compacted ones, those that no broker tells of, Kafka's own and those of Kafka Streams."""
    policies = {"a": {"cleanup_policy": "compact,delete"}, "b": {"cleanup_policy": "delete"}, "c": {}}
    policies |= {"app-store-changelog": {}, "app-x-repartition": {}, "repartition-x": {}, "__consumer_offsets": {}}
    rows = [row | {"topic": name} for name, configs in policies.items() for row in replicas(0, (1,), **configs)]
    rows += [row | {"topic": "untold"} for row in replicas(0, (1,), source="live_cluster")]
    found = list_fixed_topics(rows_of(CLUSTER_STATE, rows, run_id="r"), {"__consumer_offsets"})
    assert found == {"a", "app-store-changelog", "app-x-repartition", "__consumer_offsets", "untold"}
