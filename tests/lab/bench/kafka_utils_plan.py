"""Plans by kafka-utils' `GeneticBalancer`, run by an interpreter that has kafka-utils 4.1.0: states on stdin, plans on stdout."""

import json
import sys
from argparse import Namespace

from kafka_utils.kafka_cluster_manager.cluster_info.cluster_topology import ClusterTopology
from kafka_utils.kafka_cluster_manager.cluster_info.genetic_balancer import GeneticBalancer
from kafka_utils.kafka_cluster_manager.cluster_info.partition_measurer import PartitionMeasurer


class Measurer(PartitionMeasurer):
    """Bytes appended in the window as weights, bytes on disk as sizes."""

    def get_weight(self, partition_name):
        """What its leader carries."""
        return self.brokers[partition_name][0]

    def get_size(self, partition_name):
        """What moving a replica copies."""
        return self.brokers[partition_name][1]


def plan(state, balancer_args):
    """Partitions whose replicas it changes, `[topic, partition, replicas]`, the leader first."""
    assignment = {(topic, number): list(replicas) for topic, number, replicas, *_ in state["partitions"]}
    measures = {(topic, number): (load, size) for topic, number, _, load, size in state["partitions"]}
    racks = dict(state["brokers"])
    measurer = Measurer(None, measures, assignment, Namespace())
    cluster = ClusterTopology(
        assignment, {one: {"host": "h"} for one in racks}, measurer, lambda broker: racks[broker.id]
    )
    wanted = {
        "brokers": True,
        "leaders": True,
        "replication_groups": False,
        "max_partition_movements": 100,
        "max_leader_changes": 1_000,
        "max_movement_size": state["most_bytes"],
        "balancer_args": [balancer_args],
    }
    GeneticBalancer(cluster, Namespace(**wanted)).rebalance()
    before = {(topic, number): replicas for topic, number, replicas, *_ in state["partitions"]}
    return [[*place, replicas] for place, replicas in cluster.assignment.items() if replicas != before[place]]


print(json.dumps([plan(*each) for each in json.load(sys.stdin)]))
