"""Cluster states to plan for, each drawn by its seed."""

import random

from pipeline.model.placement import PlacedPartition, PlacementBroker


def draw_state(seed):
    """Three to twelve brokers on up to four racks, one to three replicas; what made it uneven is drawn too.

    Replicas are assigned in turn over racks, as Kafka does it. Then brokers are added that have nothing yet, or leaders have
    gone to other replicas, or neither. Sizes and loads are log-normal within a topic and between topics.

    Returns:
        Partitions and brokers.
    """
    rng = random.Random(seed)
    count, rack_count = rng.randint(3, 12), rng.choice([1, 2, 3, 4])
    brokers = [
        PlacementBroker(broker_id=number, rack=f"rack-{number % rack_count}", free_bytes=rng.randint(50, 400) * 10**9)
        for number in range(count)
    ]
    used = brokers[: count - rng.choice([0, 0, 1, 2])] if count > 5 else brokers
    drifts = rng.choice([0.0, 0.0, 0.3])
    partitions = []
    for topic in range(rng.randint(3, 8)):
        scale, depth, replica_count = rng.lognormvariate(0, 1.2), rng.lognormvariate(1, 0.7), rng.choice([1, 2, 3, 3])
        first = rng.randrange(len(used))
        for number in range(rng.randint(4, 24)):
            replicas = _assign(used, first + number, replica_count, rng)
            if rng.random() < drifts:
                replicas = replicas[1:] + replicas[:1]
            load = round(10**8 * scale * rng.lognormvariate(0, 0.6))
            partitions.append(
                PlacedPartition(
                    topic=f"topic-{topic}",
                    partition=number,
                    replicas=replicas,
                    leader_id=replicas[0],
                    in_sync=replicas,
                    load_bytes=load,
                    size_bytes=round(load * depth * rng.lognormvariate(0, 0.3)),
                )
            )
    return partitions, brokers


def _assign(brokers, start, replica_count, rng):
    """The next brokers in turn, racks that hold no replica yet first."""
    left = [brokers[(start + step) % len(brokers)] for step in range(len(brokers))]
    chosen = [left.pop(0)]
    rng.shuffle(left)
    while len(chosen) < min(replica_count, len(brokers)):
        held = [broker.rack for broker in chosen]
        left.sort(key=lambda broker: held.count(broker.rack))
        chosen.append(left.pop(0))
    return tuple(broker.broker_id for broker in chosen)
