"""Rules about shares: load that no window shows, because its records bear times of other windows; forecasts; zones."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any

from pipeline.measures.chance import chance_p_value
from pipeline.model.number_text import format_between, format_count, format_name, format_percent, format_ratio
from pipeline.rules.rule import Appended, Rule, RuleInput, RuleMeasure, measure_broker
from pipeline.tables.bronze import BROKERS
from pipeline.tables.gold import BROKER_SHARE
from pipeline.tables.health import FORECAST

_LEAST_LATE = 0.05
"""Part of its fair share that a broker took late, from which all that it took beyond its share counts: a quarter of the rule's limit."""
_Share = tuple[int, float, float]  # a broker's id, its fair share and its effective unit count


def _late_load(rule: str, given: RuleInput) -> Iterator[RuleMeasure]:
    """How much more of its fair share a broker took by its logs' growth, which it may claim, than by records' times."""
    moments: dict[int, dict[int, Appended]] = defaultdict(dict)
    for one in given.appended():
        moments[one.at_ms][one.leader_id] = one
    brokers: dict[int, list[_Share]] = defaultdict(list)
    of_broker = ("window_start_ms", "broker_id", "expected_share", "effective_unit_count")
    for start_ms, broker_id, share, units in given.tuples(BROKER_SHARE, *of_broker) if moments else ():
        brokers[start_ms].append((broker_id, share or 0.0, units or 0.0))
    for at_ms, rows in sorted(moments.items()):
        start_ms = at_ms - at_ms % given.window_ms
        all_timely = sum(row.timely_bytes for row in rows.values())
        giants = {broker_id for broker_id, row in rows.items() if row.late_bytes > all_timely}
        ids = {broker_id for broker_id, *_ in brokers[start_ms]}
        views = {frozenset(giants - {one}): {one} for one in giants}
        for left_out, wanted in (views | {frozenset(giants): ids - giants, frozenset(): ids}).items():
            yield from _compare(
                rule, start_ms, rows, brokers[start_ms], given.limit_ratio, wanted=wanted, left_out=left_out
            )


def _compare(
    rule: str,
    start_ms: int,
    rows: Mapping[int, Appended],
    brokers: Sequence[_Share],
    limit_ratio: float,
    *,
    wanted: Collection[int],
    left_out: Collection[int],
) -> Iterator[RuleMeasure]:
    timely = {broker_id: row.timely_bytes for broker_id, row in rows.items() if broker_id not in left_out}
    # one that took less than records say, because they came early or it lies, makes no load of others
    appended = {broker_id: timely[broker_id] + max(0, rows[broker_id].late_bytes) for broker_id in timely}
    all_timely, all_appended = sum(timely.values()), sum(appended.values())
    of_all = 1.0 - sum(share for broker_id, share, _ in brokers if broker_id in left_out)
    of_units = all_timely / (sum(row.timely_bytes for row in rows.values()) or 1)
    for broker_id, whole_share, whole_units in brokers if all_timely and of_all > 0 else ():
        if not whole_share or broker_id not in wanted:
            continue
        share, units = whole_share / of_all, whole_units * of_units
        by_times = timely.get(broker_id, 0) / all_timely / share
        by_logs = appended.get(broker_id, 0) / all_appended / share
        first = next(iter(rows.values()))
        between = format_between(first.since_ms, first.at_ms)
        detail = f"took {format_ratio(by_logs)} its fair share of the bytes appended from {between}, "
        detail += f"and {format_ratio(by_times)} by record timestamps"
        if left_out:
            detail += f", without brokers that claim more late load than all timely load ({', '.join(map(str, sorted(left_out)[:3]))})"
        if by_logs > by_times and broker_id in rows:
            detail += f"; most of the difference is in {', '.join(rows[broker_id].partitions)}"
        # both are samples; a broker without a batch could have had one
        least = max(by_times, 1 / units / share) if units else 0.0
        chance = chance_p_value(by_logs, share, units / 2, true_ratio=least) if units else None
        late = max(0.0, by_logs - by_times)
        if (
            by_times < limit_ratio <= by_logs and late >= _LEAST_LATE
        ):  # neither the share by times nor late load alone is at its limit
            late = by_logs - 1.0
        measure = measure_broker(rule, start_ms, broker_id, late, detail)
        yield replace(measure, p_value=chance, is_enough=bool(units))


def _unread(rule: str, given: RuleInput) -> Iterator[RuleMeasure]:
    for one in (row for row in given.appended() if row.appended_count):
        detail = f"{format_count(one.unread_count)} of {one.appended_count:,} records were deleted or compacted before a run "
        detail += f"saw them, from {format_between(one.since_ms, one.at_ms)}"
        if one.unread:
            detail += f"; most are of {', '.join(one.unread)}"
        start_ms = one.at_ms - one.at_ms % given.window_ms
        yield measure_broker(rule, start_ms, one.leader_id, one.unread_count / one.appended_count, detail)


FORECAST_RULE = "share_forecast"


def _share_forecast(rule: str, given: RuleInput) -> Iterator[RuleMeasure]:
    """The highest share ratio within a week, by the low end of its range; not judged without a good enough back-test."""
    highest: dict[tuple[int, str], list[Any]] = {}
    names = ("is_trusted", "value_low", "value", "value_high", "highest_at", "reason", "back_test_coverage_ratio")
    for start_ms, subject, measure, *row in given.tuples(FORECAST, "window_start_ms", "subject", "measure", *names):
        if measure == "share_ratio" and row[1] is not None:
            key = (start_ms, subject)
            highest[key] = max(row, highest.get(key, row), key=itemgetter(0, 1))
    for (start_ms, subject), (is_trusted, *ends, at, reason, covered) in sorted(highest.items()):
        low, ratio, high = map(format_ratio, ends)
        tested = f"in the back-test {covered or 0:.0%} of the hours were in such ranges"
        detail = f"will have {ratio} [{low}, {high}] its fair share on {at:%A %d %B %H:%M} UTC; {reason or tested}"
        yield RuleMeasure(start_ms, rule, subject, ends[0], detail, is_enough=is_trusted)


def _zone_share(rule: str, given: RuleInput) -> Iterator[RuleMeasure]:
    """Part of the bytes that brokers of a zone carry over their part of the capacity; none where fewer than two are known."""
    known = {
        (start_ms, broker_id): given.broker_zones.get(broker_id, rack)
        for start_ms, broker_id, rack in given.tuples(BROKERS, "window_start_ms", "broker_id", "rack")
    }
    zones: dict[tuple[int, str], list[tuple[float, float, float | None]]] = defaultdict(list)
    of_broker = ("window_start_ms", "broker_id", "share", "expected_share", "effective_unit_count")
    for start_ms, broker_id, part, expected, units in given.tuples(BROKER_SHARE, *of_broker):
        zone = known.get((start_ms, broker_id))
        if zone and part is not None:
            zones[start_ms, zone].append((part, expected, units))
    counts = Counter(start_ms for start_ms, _ in zones)
    for (start_ms, zone), rows in sorted(zones.items()):
        share, fair = sum(part for part, _, _ in rows), sum(expected for _, expected, _ in rows)
        if counts[start_ms] > 1 and fair > 0:
            units, subject = rows[0][2], f"zone {format_name(zone)}"
            chance = chance_p_value(share / fair, fair, units) if units and fair < 1 else None
            detail = f"carries {format_percent(share)} of the bytes with {format_percent(fair)} of the capacity"
            yield RuleMeasure(start_ms, rule, subject, share / fair, detail, p_value=chance, is_enough=bool(units))


SHARE_RULES = (
    Rule(
        name="late_load", measure=_late_load, limit=0.2, k=3, n=4,
        meaning="a broker takes records whose timestamps lie in other windows",
        advice="Find who writes them: a backfill, a mirror, or a client with a wrong clock. With "
        "`message.timestamp.type=LogAppendTime` a topic's records count when they come.",
        doc="bytes with timestamps of other windows that a broker took, as part of its fair share: growth of the logs that it leads "
        "between two runs, by sizes and end offsets, minus the bytes of these windows, if chance does not explain the rest. If they lift the broker over "
        "`gate.limit_ratio`, all bytes above its fair share count. Not measured in recordings and sampled clusters",
        format=format_percent, needs_all_records=True, severity="critical",
    ),
    Rule(
        name="unread_records", measure=_unread, limit=0.2, k=3, n=4,
        meaning="a broker deletes or compacts records before a run sees them, so its load is not known",
        advice="Find who writes records that are older than the topic's retention, or lengthen the retention. On a compacted "
        "topic set `min.compaction.lag.ms` longer than the time between two runs.",
        doc="part of a broker's records that were deleted or compacted before a run could read them, although the windows between two runs were read completely. "
        "These records count neither in shares nor in `late_load`. Not measured in recordings and sampled clusters",
        format=format_percent, needs_all_records=True, severity="critical",
    ),
    Rule(
        name=FORECAST_RULE, measure=_share_forecast, limit=1.2, k=1, n=1,
        meaning="a broker will carry more than its share within a week",
        advice="Look at which topics are busy at that hour, and move leaders or replicas before it.",
        doc="highest share ratio forecast for the next seven days (`gold.forecast`), at the low end of its range, if the back-test is good "
        "enough for a warning. The limit is `gate.limit_ratio` unless you set another",
        format=format_ratio,
    ),
    Rule(
        name="zone_share", measure=_zone_share, limit=1.3, meaning="a zone carries more than its part of the capacity",
        advice="`partition-health what-if --zones rack-aware --plan plan.json` predicts the effect of moving leaders. Or add brokers to the zone.",
        doc="a zone's part of the bytes divided by its part of the capacity, if at least two zones are known (`zones.brokers`, else `broker.rack`)",
        format=format_ratio, needs_all_records=True,
    ),
)  # fmt: skip  # a table: short fields share a line
