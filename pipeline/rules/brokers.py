"""Rules about brokers, producers and consumer groups: leaders, latency, quotas, disks, balance.

ZooKeeper's controller tolerated 10 % of leaders that are not preferred; KRaft ignores that setting and elects for any.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import pairwise
from typing import Any

from pipeline.measures.outages import Outage
from pipeline.model.number_text import format_clock, format_name, format_percent, format_ratio, format_span, join_names
from pipeline.model.window import HOUR_MS
from pipeline.rules.rule import Rule, RuleInput, RuleMeasure, measure_broker, measure_column
from pipeline.tables.broker_metrics import BROKER_REQUEST_TIMES
from pipeline.tables.bronze import BROKERS
from pipeline.tables.gold import LATENCY
from pipeline.tables.health import GROUP_BALANCE
from pipeline.tables.silver import PARTITION_TRAFFIC, PRODUCER_NODES

DISK_RULE = "disk_hours_to_full"
EVENT_RULES = ("broker_away", "leaders_moved", "throttled", "failed_sends")
"""Rules about what happened to brokers and producers, shown in every mail and verdict about a window."""
_NAMED = 5
DISK_MAPS = ("log_dir_bytes", "log_dir_total_bytes", "log_dir_usable_bytes")
DISK_COLUMNS = ("broker_id", *DISK_MAPS)  # of `bronze.brokers`
HISTORY_WINDOWS = 24
HISTORY_MS = 2 * HOUR_MS  # of short windows: a trend of so long reaches the rule's limit of 48 h
MOST_LATER = 1.5  # times another broker of the same volume may say that it is full, by what it saw
SAME_VOLUME = 0.001  # part of a volume by which two brokers that are asked seconds apart may see its room differ

_Pairs = Sequence[tuple[str, int]] | None  # a map, as tables have it
Disk = tuple[int, str]  # broker and disk
Fillings = dict[int, tuple[int, int]]  # by window's start: bytes used, bytes in all


def _assignment_skew(rule: str, given: RuleInput) -> Iterator[RuleMeasure]:
    """How evenly members of a consumer group read all of its topics."""
    groups: dict[tuple[int, str], list[list[Any]]] = defaultdict(list)
    of_topic = ("topic", "member_count", "idle_member_count", "group_busiest_to_mean", "group_busiest_to_mean_under")
    for start_ms, group_id, *of in given.tuples(GROUP_BALANCE, "window_start_ms", "group_id", *of_topic):
        groups[start_ms, group_id].append(of)
    for (start_ms, group_id), ((topic, reading, idle, now, under), *others) in sorted(groups.items()):
        if reading + idle > 1:
            told = ", ".join(f"{name} {value:.2f}" for name, value in under or ())
            detail = (
                f"the busiest of {reading + idle} members reads {now or 0:.2f} times their mean of what was written; "
                f"under the assignors: {told or 'not known'}"
            )
            named = "" if others else topic
            yield RuleMeasure(start_ms, rule, f"group {group_id}", now, detail, named, is_enough=now is not None)


def _leaders_moved(rule: str, given: RuleInput) -> Iterator[RuleMeasure]:
    led: dict[tuple[int, str, str, int], list[tuple[int, int]]] = defaultdict(list)
    carriers: dict[int, set[int]] = defaultdict(set)
    columns = ("window_start_ms", "topic", "topic_id", "partition", "leader_epoch", "leader_id")
    for *place, epoch, leader_id in given.tuples(PARTITION_TRAFFIC, *columns):
        if leader_id >= 0:
            carriers[place[0]].add(leader_id)
            led[tuple(place)].append((epoch, leader_id))
    moved: dict[tuple[int, int], list[str]] = {(at, broker): [] for at, ids in carriers.items() for broker in ids}
    for (start_ms, topic, _, partition), terms in sorted(led.items()):
        for (_, before), (_, after) in pairwise(sorted(terms)):
            if before != after:
                moved[start_ms, before].append(f"{topic}-{partition}")
    for (start_ms, broker_id), names in sorted(moved.items()):
        detail = "led the same partitions throughout"
        if names:
            count = f"{len(names):,} partition{'' if len(names) == 1 else 's'}"
            detail = f"led {count} that another broker led later in the window: {join_names(names, _NAMED)}"
        yield measure_broker(rule, start_ms, broker_id, float(len(names)), detail)


def _broker_away(rule: str, given: RuleInput) -> Iterator[RuleMeasure]:
    """Seconds of a window in which a broker was out of the cluster; of a live one as far as answers and leader epochs say."""
    columns = ("window_start_ms", "broker_id", "away_ms", "is_fenced", "observed_ms")
    for start_ms, broker_id, known_ms, is_fenced, asked_ms in given.tuples(BROKERS, *columns):
        away_ms, span_ms = known_ms, (start_ms, start_ms + given.window_ms)
        outages = [one for one in given.outages if one.broker_id == broker_id and one.told_ms(*span_ms)]
        if away_ms is None and is_fenced is None and not outages:
            continue
        detail = "in the cluster"
        if away_ms:
            detail = f"out of the cluster for {format_span(away_ms)} of the window"
        elif away_ms is None and outages:
            away_ms = sum(one.told_ms(*span_ms) for one in outages)
            detail = _describe_outage(outages[0], away_ms, span_ms[1])
        elif away_ms is None and is_fenced:
            asked = "" if asked_ms is None else f" at {format_clock(asked_ms)}"
            away_ms, detail = given.window_ms, f"not in the cluster when it was asked{asked}"
        yield measure_broker(rule, start_ms, broker_id, (away_ms or 0) / 1000, detail)


def _describe_outage(outage: Outage, away_ms: int, end_ms: int) -> str:
    """Since when a broker was away, for how long of a window, and behind a semicolon how that is known and when it was back."""
    asked = f"away when asked at {format_clock(outage.asked_ms)}"
    if outage.by_samples:
        asked = f"its metrics stayed away up to {format_clock(outage.last_ms)} at least"
    detail = f"away since {format_clock(outage.since_ms)}" if outage.is_dated else asked
    detail += f" ({format_span(max(1, round(away_ms / 1000)) * 1000)} of the window)"
    if outage.is_dated:
        detail += f"; others lead its partitions since then, {asked}"
    if outage.back_ms is not None and outage.back_ms <= end_ms:
        detail += f"{',' if outage.is_dated else ';'} back by {format_clock(outage.back_ms)}"
    return detail


def _throttled(rule: str, given: RuleInput) -> Iterator[RuleMeasure]:
    for (start_ms, client_id), rows in _by_client(given, "throttle_time_avg_ms", "throttle_time_max_ms").items():
        if known := [(average, longest or 0.0) for average, longest in rows if average is not None]:
            average, longest = (max(times) for times in zip(*known, strict=True))
            at_most = f", {longest:,.0f} ms at most" if longest > average else ""
            detail = f"quotas delay its produce requests by {average:,.0f} ms on average{at_most}"
            yield RuleMeasure(start_ms, rule, f"client {format_name(client_id)}", average, detail)
    slowest: dict[tuple[int, int], float] = {}
    times = given.tuples(BROKER_REQUEST_TIMES, "window_start_ms", "broker_id", "stage", "time_mean_ms")
    for start_ms, broker_id, stage, mean_ms in times:
        if stage == "throttle" and broker_id is not None and mean_ms is not None:
            slowest[start_ms, broker_id] = max(mean_ms, slowest.get((start_ms, broker_id), 0.0))
    for (start_ms, broker_id), average in sorted(slowest.items()):
        detail = f"its quotas delay produce requests by {average:,.0f} ms on average"
        yield measure_broker(rule, start_ms, broker_id, average, detail)


def _failed_sends(rule: str, given: RuleInput) -> Iterator[RuleMeasure]:
    columns = ("instance", "error_rate_per_s", "covered_ms", "source")
    for (start_ms, client_id), rows in _by_client(given, *columns).items():
        counts: dict[str, float] = {}
        for instance, rate, covered_ms, source in rows:
            if rate is not None and source != "librdkafka_statistics":
                lost = rate * (covered_ms or given.window_ms) / 1000
                counts[instance] = max(lost, counts.get(instance, 0.0))
        if counts:
            count = sum(counts.values())
            detail = f"about {count:,.0f} records were not delivered: they expired, were refused, or too large"
            yield RuleMeasure(start_ms, rule, f"client {format_name(client_id)}", count, detail)


def _by_client(given: RuleInput, *names: str) -> dict[tuple[int, str], list[list[Any]]]:
    by_subject: dict[tuple[int, str], list[list[Any]]] = defaultdict(list)
    for start_ms, client_id, *metrics in given.tuples(PRODUCER_NODES, "window_start_ms", "client_id", *names):
        by_subject[start_ms, client_id].append(metrics)
    return dict(sorted(by_subject.items()))


def _hours_to_full(rule: str, given: RuleInput) -> Iterator[RuleMeasure]:
    """Hours until the first disk of a broker is full; a volume that several brokers report is judged of the first one.

    A disk is the volume of a log directory as the broker reports it, else all of its disks by the configuration.
    """
    from pipeline.measures.disks import NO_END_HOURS, hours_to_full

    disks: dict[Disk, Fillings] = defaultdict(dict)
    history = max(HISTORY_WINDOWS, -(-HISTORY_MS // given.window_ms))
    for start_ms, *of_broker in given.tuples(BROKERS, "window_start_ms", *DISK_COLUMNS, history_windows=history):
        for name, filling in disk_fillings(given.disk_bytes, *of_broker):
            disks[of_broker[0], name][start_ms] = filling
    find_shared = cache(partial(_find_shared, disks))  # of few: a broker may name other directories in each window
    soonest: dict[tuple[int, int], tuple[float, Disk, str]] = {}
    for disk, by_window in sorted(disks.items()):
        for start_ms in sorted(by_window.keys() & set(given.starts_ms)):
            first_ms = start_ms - history * given.window_ms  # however many windows a run measures
            known = sorted(at_ms for at_ms in by_window if first_ms <= at_ms <= start_ms)
            used, total = by_window[start_ms]
            ends_ms = [at_ms + given.window_ms for at_ms in known]
            hours = hours_to_full(ends_ms, [by_window[at_ms][0] for at_ms in known], total)
            if hours is not None:
                pace = f", and at this pace all of it in {hours:.0f} h" if 0 < hours < NO_END_HOURS else ""
                detail = f"{disk[1]} is {used / total:.0%} full{pace}"
                fullest = (hours, disk, detail)
                soonest[start_ms, disk[0]] = min(fullest, soonest.get((start_ms, disk[0]), fullest))
    for (start_ms, broker_id), (hours, disk, detail) in soonest.items():
        first, *others = find_shared(disk)
        *more, last = [*map(str, others)] or [""]
        who = f"brokers {', '.join(more)} and {last} report" if more else f"broker {last} reports"
        also = f"; {who} the same volume" if others and broker_id == first else ""
        told = soonest.get((start_ms, first))
        # a broker may say that it has another's volume, and nothing of when that is full
        is_own = broker_id == first or told is None or told[0] > MOST_LATER * hours or hours == NO_END_HOURS
        named = also if is_own else f", the volume of broker {first}"
        yield replace(measure_broker(rule, start_ms, broker_id, hours, f"{detail}{named}"), is_enough=is_own)


def _format_hours(hours: float) -> str:
    from pipeline.measures.disks import NO_END_HOURS

    return f"{hours:.0f} h" if hours < NO_END_HOURS else "no end in sight"


def _find_shared(disks: Mapping[Disk, Fillings], disk: Disk) -> list[int]:
    """The brokers that report the volume of a disk, ascending: of one size, and always with the same room left."""
    own, alike = disks[disk], {disk[0]}
    for (broker_id, _), other in disks.items():
        pairs = [] if broker_id in alike else [(own[at_ms], other[at_ms]) for at_ms in own.keys() & other.keys()]
        is_same = (size == total and abs(used - its) <= SAME_VOLUME * size for (used, size), (its, total) in pairs)
        if pairs and all(is_same):
            alike.add(broker_id)
    return sorted(alike)


def disk_fillings(
    disk_bytes: Mapping[int, int], broker_id: int, held: _Pairs, totals: _Pairs, usable: _Pairs
) -> Iterator[tuple[str, tuple[int, int]]]:
    if broker_id in disk_bytes:
        if used := sum(size for _, size in held or ()):
            yield "the room that disk_bytes gives its replicas", (used, disk_bytes[broker_id])
        return
    for path, total in totals or ():
        if total:
            yield path, (total - dict(usable or ())[path], total)


BROKER_RULES = (
    Rule(
        name="broker_away", measure=_broker_away, limit=1, k=1, n=1, meaning="a broker is out of the cluster",
        advice="Look at its process and its log; others lead its partitions meanwhile and carry its load.",
        doc="seconds of the window in which a broker was out of the cluster (fenced), by the metadata log. A live cluster does not show this log. "
        "There an outage begins when, by leader epochs, other brokers lead its partitions. It ends with the cluster's last answer that the broker is "
        "away; in the window of that answer it lasts until the broker is seen again, or to the window's end. Without such an answer "
        "it counts only if the broker's metrics are missing while other brokers take over",
        format="{:,.0f} s".format,
    ),
    Rule(
        name="leaders_moved", measure=_leaders_moved, limit=1, k=1, n=1,
        meaning="partitions it led were led by others later in the window",
        advice="Shares of such a window mix two placements: see whether a broker stopped, or leaders were elected or moved.",
        doc="partitions that a broker led in the window until another broker took over, by the leader epochs of their batches",
    ),
    Rule(
        name="throttled", measure=_throttled, limit=1, k=1, n=1, meaning="a quota delays what producers send",
        advice="See `kafka-configs --describe --entity-type clients` (and `users`): raise the quota, or send less. A producer "
        "whose records wait longer than `delivery.timeout.ms` drops them.",
        doc="mean delay of produce requests by quotas, in milliseconds: `produce-throttle-time-avg` of a client, or the mean of "
        "`ThrottleTimeMs` of a broker",
        format="{:,.0f} ms".format,
    ),
    Rule(
        name="failed_sends", measure=_failed_sends, limit=1, k=1, n=1, meaning="a producer could not deliver records",
        advice="Its log names the exception. `TimeoutException`: it sends more than brokers or its quota take.",
        doc="records that a Java producer failed to send in the window (from the rate of `record-error-total`)",
    ),
    Rule(
        name="preferred_leader", limit=0.10, meaning="partitions are not led by their preferred leaders",
        measure=measure_column(
            BROKERS, "preferred_leader_imbalance_ratio",
            "{preferred_leader_imbalance_ratio:.0%} of the partitions it should lead are led by others "
            "(KRaft knows no limit on this)",
        ),
        advice="`kafka-leader-election --election-type preferred --all-topic-partitions` copies nothing.",
        doc="part of a broker's preferred partitions that other brokers lead. KRaft ignores "
        "`leader.imbalance.per.broker.percentage` (10 %)",
        format=format_percent, needs_all_records=True,
    ),
    Rule(
        name="latency_to_peers", limit=3.0, k=3, n=4, meaning="producers wait longer for a broker than for its peers",
        measure=measure_column(
            LATENCY, "ratio_to_peers",
            "requests wait {request_latency_avg_ms:.1f} ms, {ratio_to_peers:.2f} times the other brokers'",
        ),
        advice="Look at its disk, its network, and the share it carries.",
        doc="mean produce latency of a broker divided by the median of the other brokers", format=format_ratio,
    ),
    Rule(
        name="latency_to_history", limit=3.0, k=3, n=4, meaning="producers wait longer for a broker than they did",
        measure=measure_column(
            LATENCY, "ratio_to_history",
            "requests wait {request_latency_avg_ms:.1f} ms, {ratio_to_history:.2f} times its own of the windows before",
        ),
        advice="Look at what changed on it.",
        doc="mean produce latency of a broker divided by its own median over up to 24 earlier windows",
        format=format_ratio,
    ),
    Rule(
        name=DISK_RULE, measure=_hours_to_full, limit=48, meaning="a disk is full, or will be soon",
        advice="Shorten retention, move replicas, or add disks.",
        doc="hours until the first volume of a broker is full, by the median slope of the last 24 windows, or of two hours if that is longer. The time is shorter if a volume that is three quarters full grew in each window of the last hour (or of the last three windows) to sizes never seen before. "
        "The rule needs an hour of observation and looks ahead at most 24 times the time observed. A volume that does not fill in that time is `ok` once "
        "two hours were observed. A volume that is 99.9 % full counts as 0 hours. Its size is `disk_bytes` if that names the broker, else the size that a live broker reports "
        "(`DescribeLogDirs`, from Kafka 3.3 on). A volume that several brokers report is judged once",
        format=_format_hours, is_falling=True, severity="critical",
    ),
    Rule(
        name="assignment_skew", measure=_assignment_skew, limit=1.5,
        meaning="a consumer reads far more than the others of its group",
        advice="Try the assignor with the lowest figure.",
        doc="bytes of a consumer group's busiest member divided by the mean of its members. The verdict names the value under each of Kafka's assignors",
        format=format_ratio, needs_all_records=True,
    ),
)  # fmt: skip  # a table: short fields share a line
