"""Ids of incidents: which id an incident keeps when windows come late, and how ids end."""

import base64
import hashlib
import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace

from pipeline.model.incident import IncidentChange, IncidentState, OpenIncident
from pipeline.model.verdict import Verdict, Verdicts
from pipeline.rules import worst_of

_Placed = tuple["Episode", "KnownIncident", list["KnownIncident"]]  # the id it keeps, and others that it overlaps
_Fresh = tuple["Episode", list["KnownIncident"]]


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownIncident:
    incident_id: str
    since_ms: int
    opened_ms: int
    until_ms: int  # window that ended it; of an open one the newest window judged by then
    is_open: bool
    last: IncidentChange  # the newest one that is stored
    changes: tuple[IncidentChange, ...] = ()  # those that may be given anew


@dataclass(slots=True, kw_only=True)
class Episode:
    """An incident as the fold finds it in today's verdicts; the fold appends changes until it is over."""

    opened_ms: int
    since_ms: int
    changes: list[IncidentChange] = field(default_factory=list)

    @property
    def end_ms(self) -> float:
        last = self.changes[-1] if self.changes else None
        return math.inf if last is None or last.is_open else last.window_start_ms


def list_known(opened: Iterable[OpenIncident], stored: Iterable[IncidentChange], newest_ms: int) -> list[KnownIncident]:
    """Incidents as they are stored, oldest first: those `opened` before the windows that are folded, and those `stored` in them."""
    before = {one.last.incident_id: one for one in opened}
    again: dict[str, list[IncidentChange]] = {name: [] for name in before}
    for change in sorted(stored, key=lambda one: (one.window_start_ms, not one.is_open)):
        again.setdefault(change.incident_id, []).append(change)
    known = []
    for name, changes in again.items():
        last = changes[-1] if changes else before[name].last
        end = next((one for one in changes if not one.is_open), None)
        if name in before:
            opened_ms = before[name].opened_ms
        else:  # where the row that opened it is gone, its first window known
            opened_ms = next((one for one in changes if one.state == "new"), changes[0]).window_start_ms
        known.append(
            KnownIncident(
                incident_id=name,
                since_ms=last.since_ms,
                opened_ms=opened_ms,
                until_ms=max(newest_ms, opened_ms) if end is None else end.window_start_ms,
                is_open=end is None,
                last=last,
                changes=tuple(changes),
            )
        )
    return sorted(known, key=lambda one: (one.opened_ms, one.is_open, one.until_ms))


def incident_id_of(cluster: str, rule: str, subject: str, since_ms: int, *, taken: Collection[str] = ()) -> str:
    """The short stable id of an incident: `K-` and 40 bits in base32.

    `taken`: ids that are in use; the id is another one then.

    >>> incident_id_of("demo", "broker_share", "broker 1", 1795251600000)
    'K-JKT62CWA'
    >>> incident_id_of("demo", "broker_share", "broker 1", 1795251600000, taken={"K-JKT62CWA"})
    'K-EQTT6QCU'
    """
    parts = [cluster, rule, subject, str(since_ms)]
    attempt = 0
    while True:
        text = "\0".join(parts if attempt == 0 else [*parts, str(attempt)])
        digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=5).digest()
        incident_id = f"K-{base64.b32encode(digest).decode('ascii')}"
        if incident_id not in taken:
            return incident_id
        attempt += 1


def settle_ids(
    episodes: Sequence[Episode],
    known: Sequence[KnownIncident],
    seen: Verdicts,
    *,
    first_ms: int,
    cluster: str,
    in_use: set[str],
) -> list[IncidentChange]:
    """Gives one subject's episodes the ids that people know, and ends ids that have none; new ids come to those `in_use`.

    1. An episode keeps the newest known id that it overlaps, an open one first. One that goes on never takes an id that is
       over: people were told of its end. It gets a new id in its first failing window that lies in nothing they were told
       of; without such a window it is quiet.
    2. Further known ids that an episode overlaps keep the changes they have; the last one says into which id they were merged.
    3. An open id that no episode overlaps is `withdrawn`, in the newest window that was judged.
    4. A known id that is over and that no episode overlaps keeps the changes it has.
    5. A message that left stays a change, also where today's verdicts would not give it; an end lies in no window before it.
    6. No change is given before the first window that is folded again: an open id whose episode ended before it ends there.
    """
    placed, fresh, free = _place(episodes, known)
    settled: list[IncidentChange] = []
    merged_into: dict[str, str] = {}
    for episode, overlapping in fresh:
        # it opens for people in the first failing window that lies in nothing they were told of
        from_ms = max(first_ms, episode.opened_ms)
        failing = (v.window_start_ms for v in seen if from_ms <= v.window_start_ms <= episode.end_ms and fails(v))
        told_of = [(one.since_ms, one.until_ms) for one in overlapping]
        opened_ms = next((at for at in failing if not any(since <= at <= until for since, until in told_of)), None)
        if opened_ms is not None:
            own_id = incident_id_of(cluster, seen[-1].rule, seen[-1].subject, episode.since_ms, taken=in_use)
            in_use.add(own_id)
            merged_into |= dict.fromkeys((one.incident_id for one in overlapping), own_id)
            settled += _name(episode, own_id, opened_ms, seen)
    for episode, taken, others in placed:
        left = [one.incident_id for one in others if one in free]
        merged_into |= {name: merged_into.get(name, taken.incident_id) for name in left}
        is_later = left or episode.opened_ms < first_ms <= taken.opened_ms
        opened_ms = max(episode.opened_ms, taken.opened_ms) if is_later else episode.opened_ms
        named = _name(episode, taken.incident_id, opened_ms, seen)
        if taken.opened_ms < first_ms:  # stored, and not given anew
            named = [change for change in named if change.state != "new"]
        if episode.end_ms < first_ms:  # told as going on, or as over later: it ends where changes are given anew
            ends = [change for change in taken.changes if not change.is_open]
            named = [replace(named[-1], window_start_ms=first_ms)] if taken.is_open else ends
        keys = {change.key for change in named}  # beside these, what people were told
        told = [one for one in taken.changes if one.is_open and one.key not in keys]
        settled += [*named, *(replace(one, since_ms=episode.since_ms) for one in told)]
    for one in free:
        settled += _keep(one, merged_into.get(one.incident_id), first_ms, seen)
    past = {one.incident_id for one in known if not one.is_open and one.until_ms < first_ms}
    found_again = [one for one in settled if one.window_start_ms >= first_ms and one.incident_id not in past]
    newest: dict[str, int] = {}  # an end that lies before a message which left moves to the window of that message
    for found in found_again:
        newest[found.incident_id] = max(found.window_start_ms, newest.get(found.incident_id, 0))
    ended = [one if one.is_open else replace(one, window_start_ms=newest[one.incident_id]) for one in found_again]
    return _remember_starts(ended, known)


def _place(
    episodes: Sequence[Episode], known: Sequence[KnownIncident]
) -> tuple[list[_Placed], list[_Fresh], list[KnownIncident]]:
    free, fresh, placed = list(known), list[_Fresh](), list[_Placed]()
    for episode in reversed(episodes):
        overlapping = [one for one in free if one.opened_ms <= episode.end_ms and one.until_ms >= episode.opened_ms]
        if fitting := [one for one in reversed(overlapping) if one.is_open or episode.end_ms < math.inf]:
            kept = max(fitting, key=lambda one: one.is_open)
            free.remove(kept)
            placed.append((episode, kept, [one for one in overlapping if one is not kept]))
        else:
            fresh.append((episode, overlapping))
    for one in [one for one in free if one.is_open]:  # its opening has moved into a window that is new
        moved = next((it for it in reversed(fresh) if not it[1] and it[0].end_ms >= one.opened_ms), None)
        if moved is not None:
            free.remove(one)
            fresh.remove(moved)
            placed.append((moved[0], one, []))
    return placed, fresh, free


def fails(verdict: Verdict) -> bool:
    """Whether a window opens an incident: it is `fail`, and itself above the limit."""
    return verdict.verdict == "fail" and verdict.is_above


def is_judged(verdict: Verdict) -> bool:
    return verdict.verdict in {"ok", "warn", "fail"} and verdict.value is not None


def make_change(state: IncidentState, incident_id: str, since_ms: int, seen: Verdicts) -> IncidentChange:
    """A change in the window of the last verdict seen."""
    latest = seen[-1]
    reach = [verdict for verdict in seen if verdict.window_start_ms >= since_ms]
    return IncidentChange(
        incident_id=incident_id,
        state=state,
        rule=latest.rule,
        subject=latest.subject,
        since_ms=since_ms,
        window_start_ms=latest.window_start_ms,
        value=latest.value,
        peak_value=worst_of(latest.rule, (verdict.value for verdict in reach if is_judged(verdict))),
        limit_value=latest.limit_value,
        window_count=len(reach),
    )


def _name(episode: Episode, incident_id: str, opened_ms: int, seen: Verdicts) -> list[IncidentChange]:
    if opened_ms <= episode.opened_ms:
        return [replace(change, incident_id=incident_id) for change in episode.changes]
    reach = [verdict for verdict in seen if verdict.window_start_ms <= opened_ms]
    later = [change for change in episode.changes if change.window_start_ms > opened_ms or not change.is_open]
    named = (replace(change, incident_id=incident_id) for change in later)
    return [make_change("new", incident_id, episode.since_ms, reach), *named]


def _keep(known: KnownIncident, merged_into: str | None, first_ms: int, seen: Verdicts) -> list[IncidentChange]:
    """The changes of an id that no episode took: as stored, with its end."""
    if not known.is_open:
        return [it if it.is_open else replace(it, merged_into=merged_into or it.merged_into) for it in known.changes]
    judged = [one.window_start_ms for one in seen if one.window_start_ms >= known.opened_ms and one.value is not None]
    if not judged:
        end_ms = max(first_ms, known.last.window_start_ms)
        return [*known.changes, replace(known.last, window_start_ms=end_ms, state="withdrawn", value=None)]
    reach = [one for one in seen if one.window_start_ms <= judged[-1]]
    end = make_change("withdrawn", known.incident_id, known.since_ms, reach)
    return [*known.changes, replace(end, window_start_ms=max(first_ms, judged[-1]))]


def _remember_starts(changes: list[IncidentChange], known: Iterable[KnownIncident]) -> list[IncidentChange]:
    """Notes which start was told last; the first new change of an incident says it where that is another one."""
    stored = {(change.key, change.incident_id): change for one in known for change in one.changes}
    before = {one.incident_id: one.last.told_ms for one in known}
    new = [change for change in changes if (change.key, change.incident_id) not in stored]
    told = before | {change.incident_id: change.since_ms for change in new}
    noted = []
    for change in sorted(changes, key=lambda one: (one.window_start_ms, not one.is_open)):
        own, told_ms = stored.get((change.key, change.incident_id)), told.get(change.incident_id, change.since_ms)
        moved_ms = own.moved_from_ms if own else before.pop(change.incident_id, None)
        moved_ms = None if own is None and moved_ms == change.since_ms else moved_ms
        told_since_ms = None if told_ms == change.since_ms else told_ms
        noted.append(replace(change, told_since_ms=told_since_ms, moved_from_ms=moved_ms))
    return noted
