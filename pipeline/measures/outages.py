"""When brokers were out of the cluster, by answers, samples and batches' leader epochs; and when one is slow.

A broker is away by an answer of the cluster, or by two signs that come together: its metrics stay away while those of
others come, and meanwhile others begin to lead what it led. Either alone says nothing. Leader epochs say since when.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain, pairwise
from operator import itemgetter
from typing import NamedTuple


class LedSpan(NamedTuple):
    place: tuple[str, str, int]  # topic, topic id or "", partition
    leader_epoch: int
    leader_id: int  # `UNKNOWN` where nobody was asked in time
    first_ms: int  # timestamp of the first batch, UTC milliseconds
    last_ms: int  # of the last one


class SampleGap(NamedTuple):
    broker_id: int
    seen_ms: int  # its last sample before
    missed_ms: int  # the last sample of any other before its next
    back_ms: int | None  # its next sample


UNKNOWN = -1  # leader of an epoch that nobody was asked about
LEAST_MISSED = 3  # scrapes in a row that fail now and then by themselves: fewer are no gap


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """A broker was out of the cluster; instants in UTC milliseconds."""

    broker_id: int
    since_ms: int  # others lead its partitions from here on; `asked_ms` where leader epochs do not say
    asked_ms: int  # when the cluster was asked first and said that it is away; where only samples say so, `last_ms`
    last_ms: int  # ... and last, or the last sample of others that came without one of it
    # the first sign of it after that: an answer that names it, a batch that it led, or a sample of it
    back_ms: int | None = None
    by_samples: bool = False  # nobody asked the cluster then: its metrics stayed away, and others took over

    @property
    def is_dated(self) -> bool:
        return self.since_ms < self.asked_ms

    def known_ms(self, start_ms: int, end_ms: int) -> int:
        return max(0, min(self.last_ms, end_ms) - max(self.since_ms, start_ms))

    def told_ms(self, start_ms: int, end_ms: int) -> int:
        """The same; a window that holds the last answer counts up to its end, or up to the first sign of the broker."""
        if not start_ms <= self.last_ms < end_ms:
            return self.known_ms(start_ms, end_ms)
        until_ms = end_ms if self.back_ms is None else min(end_ms, self.back_ms)
        return until_ms - max(self.since_ms, start_ms)

    def covers(self, at_ms: int) -> bool:
        return self.since_ms < at_ms <= self.last_ms


def find_gaps(sampled: Mapping[int, Sequence[int]]) -> list[SampleGap]:
    """Finds where a broker's samples stay away while so many of another's come; instants of each broker, ascending."""
    instants_ms = sorted(set(chain(*sampled.values())))
    # so many samples of one broker in a row: its first and last; and the earliest last of those that begin at a place or later
    rows = sorted(row for times in sampled.values() for row in zip(times, times[LEAST_MISSED - 1 :], strict=False))
    ends_ms = [*accumulate((last_ms for _, last_ms in reversed(rows)), min)][::-1]
    gaps = []
    for broker_id, own in sorted(sampled.items()):
        for seen_ms, back_ms in zip(own, (*own[1:], None), strict=True):
            place = bisect_right(rows, seen_ms, key=itemgetter(0))
            if place < len(rows) and (back_ms is None or ends_ms[place] < back_ms):
                after = len(instants_ms) if back_ms is None else bisect_left(instants_ms, back_ms)
                gaps.append(SampleGap(broker_id, seen_ms, instants_ms[after - 1], back_ms))
    return gaps


def find_outages(
    observations: Iterable[tuple[int, int, bool]], led: Iterable[LedSpan] = (), gaps: Iterable[SampleGap] = ()
) -> list[Outage]:
    """Finds when brokers were away, by observations of broker, instant and whether it was away; all in any order.

    An outage goes from the broker's last sign before an answer that it is away to the last such answer without a sign
    between; what lies between its last sign and the first batch of a successor counts as neither.
    """
    asked: dict[int, list[tuple[int, bool]]] = defaultdict(list)
    for broker_id, at_ms, is_away in observations:
        asked[broker_id].append((at_ms, is_away))
    away_ms = {broker_id: sorted(at_ms for at_ms, is_away in of if is_away) for broker_id, of in asked.items()}
    spans: list[LedSpan] = []
    for span in sorted(led, reverse=True):
        answers_ms, last_ms = away_ms.get(span.leader_id, []), span.last_ms
        number = bisect_left(answers_ms, span.first_ms)
        if number < len(answers_ms) and answers_ms[number] < last_ms:
            # it goes past an answer that its leader is away: clients stamped ahead, it ended when the next began
            next_ms = spans[-1].first_ms if spans and spans[-1].place == span.place else span.first_ms
            last_ms = max(span.first_ms, min(answers_ms[number], next_ms))
        spans.append(span._replace(last_ms=last_ms))
    successors = _first_of_successors(spans)
    outages = [
        outage
        for broker_id, answers in sorted(asked.items())
        if any(is_away for _, is_away in answers)
        for outage in _outages_of(
            broker_id,
            sorted(answers),
            [span for span in spans if span.leader_id == broker_id],
            successors.get(broker_id, []),
        )
    ]
    for gap in sorted(gaps):
        seen = [at_ms for at_ms, is_away in asked.get(gap.broker_id, ()) if not is_away]
        taken_over = [*successors.get(gap.broker_id, []), *successors.get(UNKNOWN, [])]
        outage = _outage_in(gap, spans, taken_over, seen)
        own = [one for one in outages if one.broker_id == gap.broker_id]
        known = [one for one in own if one.since_ms <= gap.missed_ms and gap.seen_ms <= one.last_ms]
        if outage is not None and not known:
            outages.append(outage)
        elif outage is not None and len(known) == 1:  # samples and epochs say how long, where answers are few
            since_ms, last_ms = min(known[0].since_ms, outage.since_ms), max(known[0].last_ms, outage.last_ms)
            signs = [one.back_ms for one in (known[0], outage) if one.back_ms is not None and one.back_ms > last_ms]
            outages.remove(known[0])
            outages.append(replace(known[0], since_ms=since_ms, last_ms=last_ms, back_ms=min(signs, default=None)))
    return sorted(outages, key=lambda one: (one.broker_id, one.since_ms))


def find_absent(observations: Iterable[tuple[int, int, bool]], end_ms: int) -> set[int]:
    """Brokers that no answer places in the cluster by a moment: the last one before does not name them, or the first of all says that they are away."""
    answers: dict[int, dict[int, bool]] = defaultdict(dict)
    for broker_id, at_ms, is_away in observations:
        answers[at_ms][broker_id] = is_away
    last_ms = max((at_ms for at_ms in answers if at_ms <= end_ms), default=None)
    if last_ms is not None:
        return {broker_id for named in answers.values() for broker_id in named} - answers[last_ms].keys()
    return {broker_id for broker_id, is_away in answers[min(answers)].items() if is_away} if answers else set()


def _outage_in(
    gap: SampleGap, spans: Iterable[LedSpan], successors: Sequence[int], seen: Iterable[int]
) -> Outage | None:
    """The outage in a gap of samples; None where nobody took over, or where something says that the broker was there."""
    since_ms = min((at_ms for at_ms in successors if gap.seen_ms <= at_ms <= gap.missed_ms), default=None)
    if since_ms is None:
        return None
    own = [span for span in spans if span.leader_id == gap.broker_id]
    led = any(span.first_ms <= gap.missed_ms and span.last_ms > since_ms for span in own)
    if led or any(since_ms <= at_ms <= gap.missed_ms for at_ms in seen):
        return None
    signs = [*seen, *([] if gap.back_ms is None else [gap.back_ms]), *(span.first_ms for span in own)]
    back_ms = min((sign for sign in signs if sign > gap.missed_ms), default=None)
    return Outage(
        broker_id=gap.broker_id,
        since_ms=since_ms,
        asked_ms=gap.missed_ms,
        last_ms=gap.missed_ms,
        back_ms=back_ms,
        by_samples=True,
    )


def sum_known_ms(outages: Iterable[Outage], start_ms: int, end_ms: int) -> dict[int, int]:
    away_ms: dict[int, int] = {}
    for outage in outages:
        if known_ms := outage.known_ms(start_ms, end_ms):
            away_ms[outage.broker_id] = away_ms.get(outage.broker_id, 0) + known_ms
    return away_ms


def _outages_of(
    broker_id: int, answers: Sequence[tuple[int, bool]], own: Sequence[LedSpan], successors: Sequence[int]
) -> list[Outage]:
    """`successors`: when others began to lead what the broker had led."""
    outages: list[Outage] = []
    seen_ms: int | None = None  # the newest sign of the broker
    is_open = False
    for at_ms, is_away in answers:
        last_led_ms = max((min(span.last_ms, at_ms) for span in own if span.first_ms <= at_ms), default=None)
        seen_ms = max((one for one in (seen_ms, last_led_ms) if one is not None), default=None)
        if not is_away:
            seen_ms, is_open = at_ms, False
        elif is_open and (seen_ms is None or seen_ms <= outages[-1].last_ms):
            outages[-1] = replace(outages[-1], last_ms=at_ms)
        else:
            begun = (one for one in successors if one <= at_ms and (seen_ms is None or one >= seen_ms))
            since_ms = min(begun, default=at_ms)
            outages.append(Outage(broker_id=broker_id, since_ms=since_ms, asked_ms=at_ms, last_ms=at_ms))
            is_open = True
    signs = [at_ms for at_ms, is_away in answers if not is_away]
    signs += [sign for span in own for sign in (span.first_ms, span.last_ms)]
    return [replace(one, back_ms=min((sign for sign in signs if sign > one.last_ms), default=None)) for one in outages]


def _first_of_successors(spans: Iterable[LedSpan]) -> dict[int, list[int]]:
    successors: dict[int, list[int]] = defaultdict(list)
    for one, following in pairwise(sorted(spans)):
        if one.place == following.place and following.leader_id not in {one.leader_id, UNKNOWN}:
            successors[one.leader_id].append(following.first_ms)
    return successors


SLOW_RATIO = 1.5  # latency over that of its peers from which a broker is called slow
SLOWER_MS = 5.0  # and by so much: less is no reason for a producer's batches to grow


def is_slow(latency_avg_ms: float | None, ratio_to_peers: float | None) -> bool:
    """Whether a broker answers so much later than its peers that batches for it grow."""
    if latency_avg_ms is None or not ratio_to_peers:
        return False
    return ratio_to_peers >= SLOW_RATIO and latency_avg_ms - latency_avg_ms / ratio_to_peers >= SLOWER_MS
