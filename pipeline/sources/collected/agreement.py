"""The cluster's metadata where hosts tell it differently: what most of them say.

Between honest hosts a shorter history is a part of a longer. A host that more contradict than confirm at a moment is left out,
if they are half of all; where as many do, the windows are in doubt. What fewer than half tell is cut off until others confirm it.
Of histories that reach back to the windows one counts whose beginning more than half know. Hosts whose metadata ends before the
windows confirm nothing. One host alone is believed, and so is who tells of a time before all others' logs begin.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, product
from operator import itemgetter
from typing import Any, TypeVar

from pipeline.model.cluster import Broker, ClusterHistory, StateSubject, Timeline, UnreadState
from pipeline.model.window import DAY_MS, LATEST_MS, TimeWindow, format_instant
from pipeline.sources.collected.host import Host

SETTLED_MS = 60_000  # a broker that runs has a metadata record long before: it fetches them every half second
_EARLIEST_MS = -(2**63)
T = TypeVar("T")
_MOST_NAMED = 5
_FUTURE = "its metadata log has changes from after it was collected: the host is left out"


@dataclass(frozen=True, slots=True)
class Agreement:
    history: ClusterHistory | None  # None where no host has a metadata log
    refused: Mapping[int, str]  # why a host is left out, by its place
    doubts: tuple[str, ...]  # where too few hosts say what others do not


@dataclass(frozen=True, slots=True)
class _Told:
    place: int
    host: Host
    timelines: Mapping[object, Timeline[Any]]  # of facts
    marks: frozenset[tuple[object, Timeline[Any]]]  # its timelines, to find those that differ at once
    since_ms: int
    end_ms: int  # its last change
    settled_ms: int  # until when it would tell of a change
    is_exact: bool  # the host says where its log ends; older collectors say only when they read it

    @classmethod
    def of(cls, place: int, host: Host) -> _Told:
        state = host.manifest.state
        all_told: dict[object, Timeline[Any]] = {
            **{("broker", key): one for key, one in state.brokers.items()},
            **{("partition", *key): one for key, one in state.history.partitions.items()},
            **{("topic", topic): one for topic, one in state.topic_configs.items()},
            ("default",): state.default_configs,
            ("unread",): _list_unread(state.unread),
        }
        timelines = {key: Timeline(one.moments_ms, tuple(map(_facts, one.values))) for key, one in all_told.items()}
        # a repetition makes no history longer
        moments = (
            moment
            for timeline in timelines.values()
            for moment, before, value in zip(
                timeline.moments_ms, (None, *timeline.values), timeline.values, strict=False
            )
            if value != before
        )
        since_ms = _EARLIEST_MS if state.known_since_ms is None else state.known_since_ms
        is_exact = state.newest_ms is not None
        settled_ms = host.manifest.collected_at_ms - SETTLED_MS if state.newest_ms is None else state.newest_ms - 1
        end_ms = max(moments, default=since_ms)
        return cls(place, host, timelines, frozenset(timelines.items()), since_ms, end_ms, settled_ms, is_exact)

    @property
    def reach_ms(self) -> int:
        return max(self.end_ms, self.settled_ms)

    @property
    def told_until_ms(self) -> int:
        """Until when it says what happened: a broker that is down may be read by an older collector, too."""
        return self.reach_ms if self.is_exact else self.end_ms

    def would_know(self, at_ms: int) -> bool:
        """Whether it tells all that happened by a moment; its last one may be half told."""
        return at_ms < self.end_ms or at_ms <= self.settled_ms

    def iter_facts(self, key: object) -> Iterator[tuple[int, _Told, object]]:
        timeline: Timeline[Any] = self.timelines.get(key, Timeline())
        yield self.since_ms, self, timeline.at(self.since_ms)
        for moment, value in zip(timeline.moments_ms, timeline.values, strict=True):
            if moment > self.since_ms:
                yield moment, self, value


def agree_on_history(hosts: Sequence[Host], span: TimeWindow) -> Agreement:
    """Finds the history that counts for a span of windows, and the hosts that tell another one."""
    all_told = [_Told.of(n, one) for n, one in enumerate(hosts) if one.manifest.state.metadata_length is not None]
    latest_ms = {one.place: one.host.manifest.collected_at_ms + DAY_MS for one in all_told}
    refused = {one.place: _FUTURE for one in all_told if max(one.reach_ms, one.since_ms) > latest_ms[one.place]}
    while told := [one for one in all_told if one.place not in refused]:
        votes = _Votes(told, span)
        if not votes.outvoted:
            history, doubts = votes.choose()
            return Agreement(history, refused, doubts)
        for place, against in votes.outvoted.items():
            names = ", ".join(one.host.name for one in against[:_MOST_NAMED])
            named = f"{len(against)} of {len(all_told) - 1} other hosts have ({names})"
            refused[place] = f"its metadata log is not what {named}: the host is left out"
    return Agreement(None, refused, ())


class _Votes:
    def __init__(self, told: Sequence[_Told], span: TimeWindow) -> None:
        self._span = span
        self._voters = [one for one in told if one.reach_ms >= span.start_ms] or list(told)
        self._behind: set[int] = set()  # those that do not yet know what others confirm
        self._alone_ms: dict[int, int] = {}  # first moment of which a host says what too few say
        self._torn_ms: dict[int, int] = {}  # last moment of a host that others tell otherwise: it may have half of it
        self._doubts: set[str] = set()
        self.outvoted: dict[int, list[_Told]] = {}
        agreed = frozenset.intersection(*(one.marks for one in told))
        for key in sorted({key for one in told for key, _ in one.marks - agreed}, key=str):
            for at_ms, facts in _iter_differences(told, key):
                self._count(at_ms, facts)

    def _count(self, at_ms: int, facts: Mapping[int, tuple[_Told, object]]) -> None:
        """Counts who says what of one thing at a moment: `facts` by the places of the hosts whose logs begin before."""
        claims: dict[object, list[_Told]] = defaultdict(list)
        for one, said in facts.values():
            if at_ms <= one.told_until_ms:
                claims[said].append(one)
        enough = sum(one.since_ms <= at_ms for one in self._voters)
        for said, claiming in claims.items():
            agreeing = [one for one, other in facts.values() if other == said and at_ms <= one.reach_ms]
            against = [one for one, other in facts.values() if other != said and one.would_know(at_ms)]
            if any(one.end_ms >= at_ms for one in against) and not any(one.would_know(at_ms) for one in agreeing):
                _note_first(self._torn_ms, claiming, at_ms)
                self._behind |= {one.place for one in claiming}
            elif len(against) > len(agreeing) and 2 * len(against) >= len(self._voters):
                self.outvoted |= {one.place: against for one in claiming}
            else:
                telling = [one for one in against if at_ms <= one.told_until_ms]
                if len(telling) >= len(agreeing) and at_ms < self._span.end_ms:
                    for names in (
                        sorted((one.host.name, other.host.name)) for one, other in product(agreeing, telling)
                    ):
                        self._doubts.add(f"{' and '.join(names)} have different metadata logs")
                if 2 * len(agreeing) < enough:
                    _note_first(self._alone_ms, claiming, at_ms)
                else:
                    silent = (one for one, other in facts.values() if at_ms > one.told_until_ms and other != said)
                    self._behind |= {one.place for one in silent}

    def choose(self) -> tuple[ClusterHistory, tuple[str, ...]]:
        """The history that counts, without what too few hosts tell; why windows are in doubt."""
        back_ms = max(self._span.start_ms, min(one.since_ms for one in self._voters))
        begins_ms = sorted(one.since_ms for one in self._voters if one.since_ms <= back_ms)
        begin_ms = begins_ms[len(begins_ms) // 2]  # what more than half of them know

        def rank(one: _Told) -> tuple[int, ...]:
            is_known, reaches_back = one.place not in self._behind, one.since_ms <= back_ms
            return reaches_back, is_known, one.since_ms >= begin_ms, -one.since_ms, one.end_ms, -one.place

        best = max(self._voters, key=rank)
        for one in self._voters:
            if (at_ms := self._alone_ms.get(one.place, LATEST_MS)) < self._span.end_ms:
                said = f"too few other hosts have what the metadata log of {one.host.name} says"
                self._doubts.add(f"{said} since {format_instant(max(0, at_ms))}")
        end_ms = min(found.get(best.place, LATEST_MS + 1) for found in (self._alone_ms, self._torn_ms))
        history = best.host.manifest.state.history
        of_state: dict[str, Any] = {
            name: {
                key: kept
                for key, one in getattr(history, name).items()
                if (kept := _cut(one, best.since_ms, end_ms)).values
            }
            for name in ("brokers", "partitions", "topic_configs")
        }
        unread = tuple(one for one in history.unread if (one.at_ms or 0) < end_ms)
        configs = _cut(history.default_configs, best.since_ms, end_ms)
        return replace(history, default_configs=configs, unread=unread, **of_state), tuple(sorted(self._doubts))


def _note_first(moments_ms: dict[int, int], hosts: Sequence[_Told], at_ms: int) -> None:
    moments_ms |= {one.place: min(at_ms, moments_ms.get(one.place, at_ms)) for one in hosts}


def _cut(timeline: Timeline[T], begin_ms: int, end_ms: int) -> Timeline[T]:
    """The values from a moment to another: what a host tells of a time before its log begins nobody compares."""
    begun, kept = max(0, bisect_right(timeline.moments_ms, begin_ms) - 1), bisect_left(timeline.moments_ms, end_ms)
    return Timeline(timeline.moments_ms[begun:kept], timeline.values[begun:kept])


def _iter_differences(told: Sequence[_Told], key: object) -> Iterator[tuple[int, Mapping[int, tuple[_Told, object]]]]:
    """Moments at which the hosts' logs, as far as they have begun, do not all say the same of one thing; what each says."""
    now: dict[int, tuple[_Told, object]] = {}
    counts: Counter[object] = Counter()
    found = sorted((fact for one in told for fact in one.iter_facts(key)), key=itemgetter(0))
    for at_ms, changes in groupby(found, key=itemgetter(0)):
        passed: dict[int, tuple[object, ...]] = defaultdict(tuple)
        for _, one, said in changes:
            passed[one.place] += (said,)
            if one.place in now:
                counts[now[one.place][1]] -= 1
            now[one.place] = one, said
            counts[said] += 1
        counts = +counts if len(counts) > len(told) else counts
        if max(counts.values()) < len(now):
            yield at_ms, now
        whole = {n: (one, passed[n] or (said,)) for n, (one, said) in now.items() if one.since_ms < at_ms}
        if any(len(said) > 1 for _, said in whole.values()) and len({said for _, said in whole.values()}) > 1:
            yield at_ms, whole


def _facts(value: object) -> object:
    """All that a record of the metadata log says, the same for honest hosts: they read one log."""
    if isinstance(value, Mapping):
        return tuple(sorted(value.items())) or None
    if isinstance(value, Broker):  # a snapshot orders these otherwise than the log
        endpoints = tuple(sorted(value.endpoints, key=str))
        ids, cordoned = (tuple(sorted(of)) for of in (value.directory_ids, value.cordoned_directory_ids))
        return replace(value, endpoints=endpoints, directory_ids=ids, cordoned_directory_ids=cordoned)
    return value


def _list_unread(unread: Iterable[UnreadState]) -> Timeline[Any]:
    """Since when what is not known; each host names its own file."""
    known_no_more: dict[int, frozenset[StateSubject]] = {}
    so_far: frozenset[StateSubject] = frozenset()
    for one in sorted(unread, key=lambda one: one.at_ms or 0):
        if not one.subjects <= so_far:
            so_far |= one.subjects
            known_no_more[one.at_ms or 0] = so_far
    return Timeline(tuple(known_no_more), tuple(known_no_more.values()))
