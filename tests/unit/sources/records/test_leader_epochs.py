"""Which broker a batch counts for. Oracle: the tables below, written by hand."""

from types import SimpleNamespace

import numpy as np
import pytest

from pipeline.model.cluster import (
    CLUSTER_METADATA,
    NO_LEADER,
    ONLY_REPLICA,
    TOPICS_DESCRIBE,
    ClusterHistory,
    PartitionState,
    ReplicaState,
    Timeline,
)
from pipeline.model.log import TopicPartition
from pipeline.model.log_tree import LeaderEpoch, LogDirectory, LogTree
from pipeline.sources.files.cluster_state import read_replica_states
from pipeline.sources.files.log_directories import discover_logs
from pipeline.sources.records.batch_rows import LeaderEpochs
from tests.batches import make_batch, make_records
from tests.unit.sources.trees import partition_directory

T0 = TopicPartition("t", 0)


def state(leader, epoch, topic_id="id"):
    return PartitionState(
        topic="t", topic_id=topic_id, partition=0, leader_id=leader, leader_epoch=epoch, replicas=(1, 2), isr=None
    )


def history(*states, source=CLUSTER_METADATA):
    return ClusterHistory(
        state_source=source, known_since_ms=0, partitions={T0: Timeline(tuple(range(len(states))), states)}
    )


def lead(leaders, epochs, topic_id="id", starts_ms=()):
    log = SimpleNamespace(topic="t", topic_id=topic_id, partition=0)
    narrowed = leaders.only([log])
    starts = np.array(starts_ms or [-1] * len(epochs), np.int64)
    found = narrowed.lead(log, np.array(epochs, np.int32), starts).tolist()
    assert found == leaders.lead(log, np.array(epochs), starts).tolist()
    return found


@pytest.mark.parametrize(
    ("states", "epochs", "leaders"),
    [
        ([state(1, 0), state(2, 1)], [1, 0, 1], [2, 1, 2]),
        ([state(1, 0), state(2, 2)], [1], [NO_LEADER]),  # not who leads now
        ([state(2, 5)], [4, 5, 6], [NO_LEADER, 2, NO_LEADER]),
        ([state(1, 0), state(NO_LEADER, 1)], [0, 1], [1, NO_LEADER]),
        ([state(1, 0), None, state(2, 0, "new")], [0], [1]),  # the topic of that id
        ([state(1, 0), state(1, 1)], [-1], [1]),  # a legacy batch where only one led
        ([state(1, 0), state(2, 1)], [-1], [NO_LEADER]),
        ([], [0], [NO_LEADER]),
    ],
)
def test_a_batch_counts_for_who_led_at_its_epoch_or_for_nobody(states, epochs, leaders):
    assert lead(LeaderEpochs.of(history(*states), LogTree(), ()), epochs) == leaders


def test_a_batch_whose_epoch_had_ended_when_its_window_began_is_of_the_leader_by_then():
    states = [state(1, 0), state(2, 1), state(NO_LEADER, 2), state(1, 3)]  # from 0, 1, 2 and 3 ms on
    leaders = LeaderEpochs.of(history(*states), LogTree(), ())
    assert lead(leaders, [0, 0, 0, 0, 1, 3, -1], starts_ms=[0, 1, 2, 3, 0, 0, 3]) == [1, 2, 2, 1, 2, 1, NO_LEADER]


def test_a_log_without_a_topic_id_is_the_only_topic_of_its_name():
    assert lead(LeaderEpochs.of(history(state(1, 0), state(2, 1)), LogTree(), ()), [0, 1], topic_id="") == [1, 2]
    anew = history(state(1, 0), None, state(2, 0, "new"))
    assert lead(LeaderEpochs.of(anew, LogTree(), ()), [0], topic_id="") == [NO_LEADER]


@pytest.mark.parametrize(
    ("checkpoint", "end", "epochs", "leaders"),
    [
        (None, 20, [3, 3], [1, 1]),
        (None, 20, [2, 3], [NO_LEADER, 1]),  # the newest of the log
        (3, 20, [0, 3], [NO_LEADER, 1]),
        (4, 20, [0, 3], [NO_LEADER, NO_LEADER]),  # the text is of a later epoch than all of them
        (4, 9, [0, 0], [1, 1]),  # that epoch has no batches
        (4, 20, [-1], [1]),
    ],
)
def test_a_text_names_the_leader_of_the_newest_epoch_only(checkpoint, end, epochs, leaders):
    checkpoints = (
        ()
        if checkpoint is None
        else (LeaderEpoch(epoch=0, start_offset=0), LeaderEpoch(epoch=checkpoint, start_offset=9))
    )
    held = partition_directory("/d2", "t-0", [(0, 1)], leader_epochs=checkpoints)
    tree = LogTree(directories=(LogDirectory(path="/d2", broker_id=2, partitions=(held,)),))
    described = ClusterHistory.always(TOPICS_DESCRIBE, [state(1, None)], {})
    replica = ReplicaState(topic="t", topic_id="id", partition=0, broker_id=2, log_directory="/d2", log_end_offset=end)
    assert lead(LeaderEpochs.of(described, tree, [replica]), epochs) == leaders


@pytest.mark.parametrize("is_empty", [False, True])
def test_without_a_checkpoint_the_last_batch_tells_the_newest_epoch_of_the_log(tmp_path, is_empty):
    """Each file's newest was taken for the present leader's, who so led what another one had."""
    (tmp_path / "t-0").mkdir()
    (tmp_path / "meta.properties").write_text("version=1\nnode.id=2\ncluster.id=c\n")
    for epoch, base in ((3, 0), (4, 10)):
        batch = make_batch(make_records(10, base_offset=base), leader_epoch=epoch)
        (tmp_path / "t-0" / f"{base:020d}.log").write_bytes(batch)
    if is_empty:  # rolled just now
        (tmp_path / "t-0" / f"{20:020d}.log").write_bytes(b"")
    tree = discover_logs([tmp_path])
    described = ClusterHistory.always(TOPICS_DESCRIBE, [state(1, None)], {})
    leaders = LeaderEpochs.of(described, tree, read_replica_states(tree)[0])
    assert [lead(leaders, [epoch]) for epoch in (3, 4)] == [[NO_LEADER], [1]]


def test_the_only_replica_led_in_every_epoch():
    alone = ClusterHistory.always(ONLY_REPLICA, [state(1, None)], {})
    assert lead(LeaderEpochs.of(alone, LogTree(), ()), [0, 7]) == [1, 1]
