"""When brokers were out of the cluster, as it shows when it is asked now and then, and by the leader epochs of batches.

That a broker is away is known from an answer of the cluster alone: leaders also move for other reasons. Leader epochs say
since when: others led its partitions from a moment on, and it led nothing after it.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple


class LedSpan(NamedTuple):
    """Batches of a partition that bear one leader epoch."""

    place: tuple[str, str, int]  # topic, topic id or "", partition
    leader_epoch: int
    leader_id: int
    first_ms: int  # timestamp of the first batch, UTC milliseconds
    last_ms: int  # of the last one


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """A broker was out of the cluster; instants in UTC milliseconds."""

    broker_id: int
    since_ms: int  # others lead its partitions from here on; `asked_ms` where leader epochs do not say
    asked_ms: int  # when the cluster was asked first and said that it is away
    last_ms: int  # ... and last
    back_ms: int | None = None  # the first sign of it after that: an answer that names it, or a batch that it led

    @property
    def is_dated(self) -> bool:
        """Leader epochs say when it began."""
        return self.since_ms < self.asked_ms

    def known_ms(self, start_ms: int, end_ms: int) -> int:
        """For how long of a span it was away at least: up to the last answer."""
        return max(0, min(self.last_ms, end_ms) - max(self.since_ms, start_ms))

    def told_ms(self, start_ms: int, end_ms: int) -> int:
        """The same; a window that holds the last answer counts up to its end, or up to the first sign of the broker."""
        if not start_ms <= self.last_ms < end_ms:
            return self.known_ms(start_ms, end_ms)
        until_ms = end_ms if self.back_ms is None else min(end_ms, self.back_ms)
        return until_ms - max(self.since_ms, start_ms)

    def covers(self, at_ms: int) -> bool:
        """Whether it was away just before a moment, such as a window's end."""
        return self.since_ms < at_ms <= self.last_ms


def find_outages(observations: Iterable[tuple[int, int, bool]], led: Iterable[LedSpan] = ()) -> list[Outage]:
    """Finds when brokers were out of the cluster.

    An outage goes from the last sign of a broker before an answer that it is away to the last such answer without a sign
    of it between; what lies between its last sign and the first batch of a successor counts as neither.

    Args:
        observations: Broker, instant, and whether it was away then, in any order.
        led: What leader epochs say, in any order.

    >>> spans = [LedSpan(("t", "", 0), 7, 2, 0, 12), LedSpan(("t", "", 0), 8, 1, 14, 40)]
    >>> find_outages([(2, 5, False), (2, 20, True), (2, 30, True), (2, 35, False)], spans)
    [Outage(broker_id=2, since_ms=14, asked_ms=20, last_ms=30, back_ms=35)]
    """
    spans = list(led)
    successors = _first_of_successors(spans)
    asked: dict[int, list[tuple[int, bool]]] = defaultdict(list)
    for broker_id, at_ms, is_away in observations:
        asked[broker_id].append((at_ms, is_away))
    return [
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


def sum_known_ms(outages: Iterable[Outage], start_ms: int, end_ms: int) -> dict[int, int]:
    """For how long of a span each broker was away at least; without those that were not."""
    away_ms: dict[int, int] = {}
    for outage in outages:
        known_ms = outage.known_ms(start_ms, end_ms)
        if known_ms:
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
    """By broker, the first batches of those that led partitions next."""
    successors: dict[int, list[int]] = defaultdict(list)
    for one, following in pairwise(sorted(spans)):
        if one.place == following.place and one.leader_id != following.leader_id:
            successors[one.leader_id].append(following.first_ms)
    return successors
