"""The cluster's metadata where hosts tell it differently: what most of them say.

Every broker keeps the metadata log, so every host tells the history of the whole cluster. Between honest hosts the shorter
history is the beginning of the longer one. A host speaks against another one

1. where both histories cover a moment and differ there, and
2. where it was collected `SETTLED_MS` after a change that only the other one tells.

A host that more hosts speak against than for is left out, with all it brought. Of the others the longest history counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.model.cluster import ClusterHistory, Timeline
from pipeline.model.window import DAY_MS
from pipeline.sources.collected.host import Host

SETTLED_MS = 60_000
"""A broker that runs has a metadata record long before: it fetches them every half second."""
_EARLIEST_MS = -(2**63)
_Timelines = Mapping[object, Timeline[Any]]


@dataclass(frozen=True, slots=True)
class Agreement:
    """What hosts say of the cluster."""

    history: ClusterHistory | None  # None where no host has a metadata log
    refused: Mapping[int, str]  # why a host is left out, by its place
    doubts: tuple[str, ...]  # where as many hosts say one thing as another


@dataclass(frozen=True, slots=True)
class _Told:
    """A host's history."""

    place: int
    host: Host
    timelines: _Timelines
    marks: frozenset[tuple[object, int]]  # hash of each timeline, to find those that differ at once
    since_ms: int
    end_ms: int  # its last change

    @classmethod
    def of(cls, place: int, host: Host) -> _Told:
        state = host.manifest.state
        timelines: dict[object, Timeline[Any]] = {("broker", key): one for key, one in state.brokers.items()}
        for key, timeline in state.history.partitions.items():
            timelines["partition", *key] = timeline
        timelines |= {("topic", topic): one for topic, one in state.topic_configs.items()}
        unread = sorted(state.unread, key=lambda one: (one.at_ms or 0, one.reason))
        unread_ms = tuple(one.at_ms or 0 for one in unread)
        timelines |= {("default",): state.default_configs, ("unread",): Timeline(unread_ms, tuple(unread))}
        moments = [moment for timeline in timelines.values() for moment in _iter_changes(timeline)]
        since_ms = state.known_since_ms
        since_ms = _EARLIEST_MS if since_ms is None else since_ms
        marks = frozenset((key, hash((one.moments_ms, *map(_facts, one.values)))) for key, one in timelines.items())
        return cls(place, host, timelines, marks, since_ms, max(moments, default=since_ms))

    @property
    def collected_at_ms(self) -> int:
        return self.host.manifest.collected_at_ms


def agree_on_history(hosts: Sequence[Host]) -> Agreement:
    """Finds the history that counts, and the hosts that tell another one."""
    told = [_Told.of(index, one) for index, one in enumerate(hosts) if one.manifest.state.metadata_length is not None]
    refused: dict[int, str] = {}
    doubts: list[str] = []
    believed: list[_Told] = []
    for one in told:
        others = [other for other in told if other.place != one.place]
        differ = [other for other in others if _differ(one, other)]
        against = [other for other in others if other in differ or _denies(other, one)]
        if one.end_ms > one.collected_at_ms + DAY_MS:
            refused[one.place] = "its metadata log tells of changes after it was collected: the host is left out"
        elif 2 * len(against) > len(told):
            named = f"{len(against)} of {len(others)} other hosts have ({', '.join(o.host.name for o in against[:5])})"
            refused[one.place] = f"its metadata log is not what {named}: the host is left out"
        else:
            believed.append(one)
            if 2 * len(against) == len(told):
                pairs = [sorted((one.host.name, other.host.name)) for other in differ]
                doubts += [f"{first} and {second} have different metadata logs" for first, second in pairs]
    longest = max(believed, key=lambda one: (one.end_ms, -one.since_ms, -one.place), default=None)
    history = None if longest is None else longest.host.manifest.state.history
    return Agreement(history, refused, tuple(dict.fromkeys(doubts)))


def _differ(one: _Told, other: _Told) -> bool:
    """True where both cover a moment and differ there; the shorter one may end within its last millisecond."""
    since_ms, end_ms = max(one.since_ms, other.since_ms), min(one.end_ms, other.end_ms)
    is_whole = one.end_ms == other.end_ms or since_ms == end_ms
    last_ms = end_ms if is_whole else end_ms - 1
    return any(moment <= last_ms for moment in _iter_differences(one, other, since_ms))


def _denies(witness: _Told, one: _Told) -> bool:
    """True where the witness was collected well after a change that it does not know."""
    last_ms = witness.collected_at_ms - SETTLED_MS
    since_ms = max(one.since_ms, witness.since_ms)
    return any(witness.end_ms < moment <= last_ms for moment in _iter_differences(one, witness, since_ms))


def _iter_differences(one: _Told, other: _Told, since_ms: int) -> Iterator[int]:
    """Moments from which on the two differ about something."""
    nothing: Timeline[Any] = Timeline()
    for key in {key for key, _ in one.marks ^ other.marks}:
        mine, others = one.timelines.get(key, nothing), other.timelines.get(key, nothing)
        for moment in {max(since_ms, moment) for moment in (*mine.moments_ms, *others.moments_ms)}:
            if _facts(mine.at(moment)) != _facts(others.at(moment)):
                yield moment


def _facts(value: object) -> object:
    """All that a record of the metadata log says: honest hosts read one log."""
    if isinstance(value, Mapping):
        return tuple(sorted(value.items())) or None
    return value


def _iter_changes(timeline: Timeline[Any]) -> Iterator[int]:
    """Moments at which something else is told than before: a repetition makes no history longer."""
    before: object = None
    for moment, value in zip(timeline.moments_ms, timeline.values, strict=True):
        if (facts := _facts(value)) != before:
            yield moment
        before = facts
