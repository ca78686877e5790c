"""Which client's metrics are whose: clients and producer sessions matched by the bytes both sent to each broker."""

import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

from pipeline.calibration.limits import ALIKE
from pipeline.model.cluster import NO_LEADER
from pipeline.replay.recorded import MOST_SESSIONS, ClientNode, MetricsClient, Recording, SessionKey, Sessions

ProducerKey = tuple[int, int, str, str]
"""Start of the window, producer id; topic and topic id where producers are pooled, else ""."""
Producer = TypeVar("Producer", bound=Hashable)
Client = TypeVar("Client", bound=Hashable)


def pool_clients(
    recording: Recording, sessions: Sessions, matched: Mapping[tuple[int, str, str], MetricsClient]
) -> dict[tuple[int, str, str], tuple[MetricsClient, ...]]:
    """The clients of a producer that stands for all without ids, the largest first: those that are no other's, if the sum fits."""
    nodes = recording.nodes
    open_ones = {producer_of(session.key)[1:] for session in sessions if session.key[1] < 0} - matched.keys()
    if len(open_ones) != 1:  # no metric names which client is whose
        return {}
    (producer,) = open_ones
    stored: dict[int, Counter[int]] = defaultdict(Counter)
    for session in sessions:
        if producer_of(session.key)[1:] == producer:
            stored[session.start_ms].update(session.bytes_by_broker)
    sent: dict[int, Counter[int]] = defaultdict(Counter)
    sizes: Counter[MetricsClient] = Counter()
    for start_ms in stored.keys() & nodes.keys():
        for client in nodes[start_ms].keys() - set(matched.values()):
            for node in nodes[start_ms][client]:
                sent[start_ms][node.broker_id] += round(node.batch_bytes)
                sizes[client] += round(node.batch_bytes)
    if _compare(stored, sent)[0] > ALIKE:  # requests carry more than batches, and scrapes do not end with the window
        return {}
    return {producer: tuple(sorted(sizes, key=lambda client: (-sizes[client], client)))}


def producer_of(key: SessionKey) -> ProducerKey:
    """The producer of a session in a window: a bump of its epoch makes another session of one client."""
    start_ms, producer_id, _, topic, topic_id = key
    return start_ms, producer_id, topic, topic_id


def match_sessions(
    sessions: Sessions, nodes: Mapping[int, Mapping[MetricsClient, Sequence[ClientNode]]]
) -> dict[tuple[int, str, str], MetricsClient]:
    """Each producer's client, as far as one fits."""
    stored: dict[tuple[int, str, str], dict[int, Counter[int]]] = defaultdict(lambda: defaultdict(Counter))
    for session in sessions:
        stored[producer_of(session.key)[1:]][session.start_ms].update(session.bytes_by_broker)
    sent: dict[MetricsClient, dict[int, dict[int, float]]] = defaultdict(dict)
    for start_ms in sorted({session.start_ms for session in sessions} & nodes.keys()):
        for client, of_client in sorted(nodes[start_ms].items()):
            if known := [node for node in of_client if node.outgoing_bytes is not None]:
                sent[client][start_ms] = {node.broker_id: node.batch_bytes for node in known}
    # of each instance those that sent most, so that none crowds out another's
    sizes = {client: sum(sum(load.values()) for load in loads.values()) for client, loads in sent.items()}
    turns: Counter[str] = Counter()
    turn_of: dict[MetricsClient, int] = {}
    for client in sorted(sizes, key=lambda client: (-sizes[client], client)):
        turn_of[client] = turns[client[0]]
        turns[client[0]] += 1
    kept = set(sorted(turn_of, key=turn_of.__getitem__)[:MOST_SESSIONS])
    return match_clients(stored, {client: loads for client, loads in sent.items() if client in kept})


def match_clients(
    producers: Mapping[Producer, Mapping[int, Mapping[int, float]]],
    clients: Mapping[Client, Mapping[int, Mapping[int, float]]],
) -> dict[Producer, Client]:
    """Pairs producers and clients by their bytes per window and broker: those together longest, of these the most alike.

    A client that was restarted is several producers, one after the other: what one of them sent is not looked for again.

    >>> a, b = {1: {0: 910}, 2: {0: 900}}, {2: {0: 105, 1: 52}}
    >>> match_clients({7: {1: {0: 90}, 2: {0: 100, 1: 50}}, 8: {1: {0: 900}}, 9: {2: {0: 900}}}, {"a": a, "b": b})
    {9: 'a', 8: 'a', 7: 'b'}
    """
    pairs = []
    for producer, stored in producers.items():
        for client, sent in clients.items():
            in_all, by_window = _compare(stored, sent)
            if in_all <= ALIKE:
                pairs.append((-len(stored.keys() & sent.keys()), by_window, producer, client))
    left = dict(clients)
    matched: dict[Producer, Client] = {}
    for _, _, producer, client in sorted(pairs, key=lambda pair: pair[:2]):
        stored = producers[producer]
        if producer not in matched and _compare(stored, left[client])[0] <= ALIKE:
            matched[producer] = client
            left[client] = {
                start_ms: {broker: size - stored.get(start_ms, {}).get(broker, 0) for broker, size in sizes.items()}
                for start_ms, sizes in left[client].items()
            }
    return matched


def _compare(stored: Mapping[int, Mapping[int, float]], sent: Mapping[int, Mapping[int, float]]) -> tuple[float, float]:
    """Part of the stored bytes by which they differ in the windows of both: summed over these, and window by window."""
    common = stored.keys() & sent.keys()
    ours, theirs = (_sum_windows([loads[start_ms] for start_ms in common]) for loads in (stored, sent))
    total = sum(ours.values())
    if not total:
        return math.inf, math.inf
    by_window = sum(_differ(stored[start_ms], sent[start_ms]) for start_ms in common)
    return _differ(ours, theirs) / total, by_window / total


def _sum_windows(loads: Sequence[Mapping[int, float]]) -> dict[int, float]:
    return {broker: sum(load.get(broker, 0) for load in loads) for broker in {key for load in loads for key in load}}


def _differ(ours: Mapping[int, float], theirs: Mapping[int, float]) -> float:
    """Bytes by which two loads of brokers differ; a leader that is not known may be any of them."""
    rests = [theirs.get(broker, 0) - ours.get(broker, 0) for broker in {*ours, *theirs} - {NO_LEADER}]
    surplus = sum(rest for rest in rests if rest > 0)
    return sum(-rest for rest in rests if rest < 0) + abs(surplus - ours.get(NO_LEADER, 0))
