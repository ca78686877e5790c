"""Which client's metrics are which producer session's: by the bytes each sent to each broker in each window."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    Session = TypeVar("Session", bound=Hashable)
    Client = TypeVar("Client", bound=Hashable)
    Place = TypeVar("Place", bound=Hashable)

MOST_DIFFERENCE = 0.20
"""Of the bytes, so many may differ: requests carry more than batches, and scrapes do not end with the window."""


def match_clients(
    sessions: Mapping[Session, Mapping[Place, float]], clients: Mapping[Client, Mapping[Place, float]]
) -> dict[Session, tuple[Client, float]]:
    """Pairs sessions and clients, the most alike first, each at most once.

    Args:
        sessions: Bytes in the log by place: broker and window.
        clients: Bytes sent by place, as metrics tell them.

    Returns:
        Of each session that has one, its client, and which part of the bytes differs.

    >>> match_clients({7: {0: 100, 1: 50}, 8: {0: 900}}, {"a": {0: 910}, "b": {0: 105, 1: 52}})
    {8: ('a', 0.011111111111111112), 7: ('b', 0.04666666666666667)}
    """
    pairs = [
        (difference, place, number, session, client)
        for place, (session, stored) in enumerate(sessions.items())
        for number, (client, sent) in enumerate(clients.items())
        if (difference := _compare(stored, sent)) <= MOST_DIFFERENCE
    ]
    matched: dict[Session, tuple[Client, float]] = {}
    taken: set[Client] = set()
    for difference, _, _, session, client in sorted(pairs, key=lambda pair: pair[:3]):
        if session not in matched and client not in taken:
            matched[session] = client, difference
            taken.add(client)
    return matched


def _compare(stored: Mapping[Place, float], sent: Mapping[Place, float]) -> float:
    total = sum(stored.values())
    if not total:
        return float("inf")
    return sum(abs(stored.get(place, 0) - sent.get(place, 0)) for place in {*stored, *sent}) / total
