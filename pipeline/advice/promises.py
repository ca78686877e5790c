"""Judges earlier advice: its prediction beside the share since it was carried out, corrected for the change of traffic."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from pipeline.advice.carried_out import Candidates, CarriedOut, PromiseWindow, list_changes, list_moves
from pipeline.advice.following import CHECK_BROKER
from pipeline.model.number_text import format_clock, format_name, format_percent
from pipeline.model.placement import Place, Replicas
from pipeline.model.promise import WHOLE, Promise, PromiseKey, Recommendation

WATCHED_WINDOWS = 24  # after which a promise that nobody was sent is judged no more: by then much else has changed
BAR_SHARE = 0.015  # a share may be off by what a back-test allows
WIDEST_SHARE = 0.04  # what a range counts for to either side: one that says little is no reason to call a promise kept
BAR_OF_FAIR = 0.1  # but by no more than this part of the fair share, where brokers are many


@dataclass(frozen=True, kw_only=True)
class WatchedAdvice:
    advice: Recommendation
    then: PromiseWindow
    now: PromiseWindow
    progress: CarriedOut
    first_ms: int | None  # first window before this one at whose end it was carried out
    is_mailed: bool = False  # it left in a mail: people have it

    @property
    def is_done(self) -> bool:
        return (self.progress.ratio or 0.0) >= WHOLE

    @property
    def broker_id(self) -> int:
        return int(self.advice.subject.removeprefix("broker "))

    @property
    def topics(self) -> set[str]:
        if self.advice.action == CHECK_BROKER:
            return {topic for topic, _ in self.then.loads}
        return {topic for topic, _ in list_moves(self.advice, self.then)} or {self.advice.topic}


def name_promise(advice: Recommendation) -> PromiseKey:
    return PromiseKey(advice.window_start_ms, advice.subject, advice.action, advice.topic)


def choose_watched(
    advice: Iterable[Recommendation], earlier: Sequence[Promise], mailed: Collection[PromiseKey] = ()
) -> list[Recommendation]:
    """The newest advice of each kind, all in mails about open incidents, all carried out and not undone; oldest first."""
    newest_of = {promise.key: promise for promise in sorted(earlier, key=lambda one: one.window_start_ms)}
    done = {key for key, one in newest_of.items() if one.carried_out_ms is not None and not one.is_undone}
    undone = {key for key, one in newest_of.items() if one.is_undone}
    by_key = {name_promise(one): one for one in advice}
    newest = {key[1:]: key for key in sorted(by_key)}
    return [by_key[key] for key in sorted({*newest.values(), *((done | {*mailed} - undone) & by_key.keys())})]


def judge_promise(watched: WatchedAdvice, together: Sequence[WatchedAdvice], candidates: Candidates) -> Promise:
    promise, ratio = _describe(watched), watched.progress.ratio
    if ratio is not None and ratio <= 1 - WHOLE and watched.first_ms is None:
        return replace(promise, outcome="not_carried_out", reason="no part of it was done")
    doubt = _doubt_progress(watched) or _find_mailed_twin(watched, together)
    doubt = doubt or _find_other_change(watched, together, candidates)
    if not doubt and watched.advice.predicted_ratio is None:
        doubt = "no share was predicted"
    corrected = None if doubt else _correct(watched)
    if corrected is None or promise.actual_ratio is None:
        return replace(promise, reason=doubt or "one of the two windows has no traffic to compare")
    return _compare(promise, corrected, watched)


def _doubt_progress(watched: WatchedAdvice) -> str:
    ratio, reason = watched.progress
    if ratio is None:
        return reason
    if ratio < WHOLE:
        is_undone = watched.first_ms is not None
        return "it was carried out, and changed again since" if is_undone else f"{format_percent(ratio)} of it is done"
    if watched.first_ms is None:
        return "it was carried out within this window, which is part before and part after"
    return ""


def _find_mailed_twin(watched: WatchedAdvice, together: Sequence[WatchedAdvice]) -> str:
    """Names advice in a mail that asks for the same and was carried out: who did so read that, and it is judged; "" for none."""
    own, advice = list_moves(watched.advice, watched.then), watched.advice
    for other in together:
        is_first = other.is_mailed and (True, other.then.start_ms) > (watched.is_mailed, watched.then.start_ms)
        if is_first and other.is_done and other.advice.subject == advice.subject:
            moves = list_moves(other.advice, other.then)
            asks_the_same = (other.advice.action, other.advice.topic) == (advice.action, advice.topic)
            if own and moves:  # the same new leader of a partition
                asks_the_same = any(own.get(place, (-1,))[0] == wanted[0] for place, wanted in moves.items())
            if asks_the_same:
                start = format_clock(other.then.start_ms)
                return f"the mail about the window from {start} asked for it: {other.advice.title}"
    return ""


def _describe(watched: WatchedAdvice) -> Promise:
    advice, then, now = watched.advice, watched.then, watched.now
    compared = then.compared.get((advice.action.removeprefix("replay:"), advice.topic), {})
    tested, load = now.back_tests.get(advice.topic, {}), now.shares.get(watched.broker_id)
    return Promise(
        window_start_ms=now.start_ms,
        promised_ms=then.start_ms,
        subject=advice.subject,
        action=advice.action,
        topic=advice.topic,
        rank=advice.rank,
        title=advice.title,
        trust=compared.get("trust"),
        expected_share=then.shares[watched.broker_id].expected_share,
        share_ratio=advice.share_ratio,
        predicted_ratio=advice.predicted_ratio,
        predicted_ratio_low=advice.predicted_ratio_low,
        predicted_ratio_high=advice.predicted_ratio_high,
        predicted_records_per_batch=compared.get("records_per_batch"),
        predicted_latency_p99_ms=compared.get("latency_p99_ms"),
        carried_out_ratio=watched.progress.ratio,
        carried_out_ms=watched.first_ms if watched.first_ms is not None else now.start_ms if watched.is_done else None,
        actual_ratio=None if load is None else load.share_ratio,
        actual_records_per_batch=tested.get("observed_records_per_batch"),
        actual_latency_avg_ms=tested.get("observed_latency_avg_ms"),
        outcome="unknown",
        reason="",
        is_mailed=watched.is_mailed,
    )


def _find_other_change(watched: WatchedAdvice, together: Sequence[WatchedAdvice], candidates: Candidates) -> str:
    then, now, moves = watched.then, watched.now, list_moves(watched.advice, watched.then)
    if then.shares.keys() != now.shares.keys():
        return "the brokers are not the same"
    since = [
        other
        for other in together
        if other.is_done
        and not list_moves(other.advice, other.then)
        and other.topics & watched.topics
        and (now.start_ms if other.first_ms is None else other.first_ms) > then.start_ms
    ]
    if moves:
        keyless = [other for other in since if not other.topics <= now.keyed]
        return f"this was done too: {keyless[0].advice.title}" if keyless else ""
    own = _changes_of(watched, candidates)
    if more := [other for other in since if _changes_of(other, candidates) - own]:
        return f"this was done too: {more[0].advice.title}"
    moved = sum(then.leaders[place] != now.leaders.get(place) for place in then.partitions_of(watched.advice.topic))
    return f"leaders of {format_name(watched.advice.topic)} changed too (partitions: {moved})" if moved else ""


def _changes_of(watched: WatchedAdvice, candidates: Candidates) -> frozenset[tuple[str, str | None]]:
    candidate = candidates.get(watched.advice.action.removeprefix("replay:"))
    return frozenset({(watched.advice.action, None)}) if candidate is None else list_changes(candidate)


def _correct(watched: WatchedAdvice) -> tuple[float, ...] | None:
    """The broker's ratios on the judging window's traffic: without the advice, low, middle, high; None without traffic."""
    then, now, broker = watched.then, watched.now, watched.broker_id
    if watched.advice.action == CHECK_BROKER:
        ends = (watched.advice.predicted_ratio_low, watched.advice.predicted_ratio, watched.advice.predicted_ratio_high)
        # all topics: as it was, and as predicted
        return watched.advice.share_ratio, *(0.0 if end is None else end for end in ends)
    volumes = {topic: (then.topic_bytes(topic), now.topic_bytes(topic)) for topic in watched.topics}
    total = sum(load.size_bytes for load in now.shares.values())
    if not total or not all(before and after for before, after in volumes.values()):
        return None
    places = [place for place in now.loads if place[0] in volumes]
    held = sum(now.loads[place] for place in places if now.leaders[place] == broker)
    others = now.shares[broker].size_bytes - held
    moves = list_moves(watched.advice, then)
    is_placed = moves and not watched.advice.is_replayed
    own = _place_anew(watched, places, moves, volumes) if is_placed else _scale_change(watched, volumes)
    fair = total * now.shares[broker].expected_share
    return tuple((others + size) / fair for size in own)


def _place_anew(
    watched: WatchedAdvice, places: Sequence[Place], moves: Replicas, volumes: Mapping[str, tuple[int, int]]
) -> tuple[float, float, float, float]:
    then, now, broker = watched.then, watched.now, watched.broker_id
    without = planned = 0.0
    for place in places:
        before, after = volumes[place[0]]
        size = now.loads[place] if place[0] in now.keyed else then.loads.get(place, 0) * after / before
        without += size * ((then.leaders if place in moves else now.leaders).get(place) == broker)
        planned += size * ((moves[place][0] if place in moves else now.leaders[place]) == broker)
    return without, planned, planned, planned


def _scale_change(watched: WatchedAdvice, volumes: Mapping[str, tuple[int, int]]) -> tuple[float, float, float, float]:
    advice, then, broker = watched.advice, watched.then, watched.broker_id
    before, after = (sum(volume[at] for volume in volumes.values()) for at in (0, 1))
    led = sum(size for place, size in then.loads.items() if place[0] in volumes and then.leaders[place] == broker)
    share = led / before
    without = (_replay_old_setup(watched, share) if len(volumes) == 1 else share) * after
    per_ratio = sum(load.size_bytes for load in then.shares.values()) * then.shares[broker].expected_share
    ends = (advice.predicted_ratio_low, advice.predicted_ratio, advice.predicted_ratio_high)
    gains = [0.0 if end is None else end - advice.share_ratio for end in ends]
    low, middle, high = (without + gain * per_ratio * after / before for gain in gains)
    return without, low, middle, high


def _replay_old_setup(watched: WatchedAdvice, share: float) -> float:
    then, now, topic = watched.then, watched.now, watched.advice.topic
    names = [
        name
        for (name, of), row in sorted(then.compared.items())
        if of == topic
        and row.get("is_as_in_use")
        and not row.get("is_baseline")
        and now.compared.get((name, topic), {}).get("is_as_in_use") is False
    ]
    return next((found for name in names if (found := now.placed.get((name, topic, watched.broker_id)))), share)


def _compare(promise: Promise, corrected: tuple[float, ...], watched: WatchedAdvice) -> Promise:
    """Decides the outcome: kept where the share is as predicted and the advice, not chance, explains it."""
    load, (without, low, ratio, high) = watched.now.shares[watched.broker_id], corrected
    fair, actual = load.expected_share, load.share_ratio or 0.0
    bar = min(BAR_SHARE, BAR_OF_FAIR * fair)
    chance = ((load.chance_ratio or 1.0) - 1) * fair
    error = (actual - ratio) * fair
    above, below = min(high - ratio, WIDEST_SHARE / fair), min(ratio - low, WIDEST_SHARE / fair)
    off = max(actual - ratio - above, ratio - below - actual, 0.0) * fair
    gain, gained = (without - ratio) * fair, (without - actual) * fair
    found = replace(
        promise,
        without_ratio=without,
        corrected_ratio=ratio,
        corrected_ratio_low=low,
        corrected_ratio_high=high,
        error_points=100 * error,
        bar_points=100 * bar,
    )
    if abs(gain) <= bar:
        return replace(found, reason="on this traffic it would have brought less than can be distinguished")
    if off <= bar and 2 * gained >= gain:
        return replace(found, outcome="kept", reason="the share is as predicted")
    if off <= chance:
        return replace(found, reason="the share is not as predicted, but within what chance alone does")
    said = "lower" if error < 0 else "higher"
    return replace(found, outcome="broken", reason=f"the share is {abs(100 * error):.1f} points {said} than predicted")
