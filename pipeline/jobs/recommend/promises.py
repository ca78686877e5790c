"""Judges, window by window, the advice of the windows before (`gold.promises`), and reads how fast brokers answer."""

import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache

from pipeline.advice.candidate_effects import name_share
from pipeline.advice.carried_out import PromiseWindow, measure_progress
from pipeline.advice.following import BrokerAnswers
from pipeline.advice.promises import WATCHED_WINDOWS, WatchedAdvice, choose_watched, judge_promise, name_promise
from pipeline.evidence.incident import ALL_CLIENTS, KNOWN_LATENCY, ProduceLatency
from pipeline.measures.outages import is_slow
from pipeline.model.incident import ENDED, IncidentChange
from pipeline.model.number_text import format_percent
from pipeline.model.promise import Promise, PromiseScore, Recommendation, score_actions
from pipeline.model.verdict import BrokerLoad
from pipeline.model.window import TimeWindow, Windows
from pipeline.rules import BROKER_SHARE as SHARE_RULE
from pipeline.runs import RunContext
from pipeline.storage.predicates import format_datafusion_instant, format_datafusion_text
from pipeline.tables.broker_metrics import BROKER_METRICS, BROKER_REQUEST_TIMES
from pipeline.tables.bronze import CLUSTER_STATE
from pipeline.tables.gold import BROKER_SHARE, LATENCY, PARTITION_HEALTH
from pipeline.tables.health import HOT_KEYS, PROMISES, RECOMMENDATIONS, TOPIC_HEALTH
from pipeline.tables.incidents import ALERT_OUTBOX, INCIDENTS
from pipeline.tables.replay import BACK_TESTS, REPLAY_BROKERS, SCENARIO_COMPARISON
from pipeline.tables.silver import PRODUCER_NODES, PRODUCER_SESSIONS, SERVICE_MODELS
from pipeline.tables.values import values_of

_LOOK_BACK = 24  # windows, as far back as `gold.latency` itself compares
_IN_FLIGHT = 5  # requests that a producer has under way by default: those behind a delayed one wait for its end
_OTHER_VOLUME = 0.25  # a change of the bytes produced that is worth a word


def read_answers(run: RunContext, window: TimeWindow, broker_ids: Sequence[int]) -> dict[int, BrokerAnswers]:
    reach = (TimeWindow(max(0, window.start_ms - _LOOK_BACK * run.window_ms), window.end_ms),)
    by_broker: dict[int, dict[int, ProduceLatency]] = defaultdict(dict)
    for one in run.values(ProduceLatency, LATENCY, reach, where=KNOWN_LATENCY):
        by_broker[one.broker_id][one.window_start_ms] = one
    # mean time of Produce requests by broker and stage; the median where the exporter drops the mean
    stages: dict[int, dict[str, float]] = defaultdict(dict)
    times = run.tuples(BROKER_REQUEST_TIMES, (window,), "broker_id", "stage", "time_mean_ms", "time_p50_ms")
    for broker_id, stage, mean_ms, median_ms in times:
        time_ms = median_ms if mean_ms is None else mean_ms
        if broker_id is not None and time_ms is not None:
            stages[broker_id][stage] = time_ms
    idle, throttled = _read_idle(run, window), _read_throttled(run, window)
    answers = {}
    for broker_id in broker_ids:
        own = by_broker.get(broker_id, {}).get(window.start_ms)
        if own is None:
            continue
        since_ms, before_ms = find_beginning(by_broker[broker_id])
        others: dict[str, list[float]] = defaultdict(list)
        for other, spent in stages.items():
            if other != broker_id:
                for stage, ms in spent.items():
                    others[stage].append(ms)
        # a delay by a quota is no time of the broker's own
        own_ms = sum(ms for stage, ms in stages.get(broker_id, {}).items() if stage not in {"total", "throttle"})
        is_own = own_ms >= own.request_latency_avg_ms / 2
        answers[broker_id] = BrokerAnswers(
            latency_avg_ms=own.request_latency_avg_ms,
            ratio_to_peers=own.ratio_to_peers,
            since_ms=since_ms,
            is_since_first=since_ms is not None and before_ms is None,
            stages_ms=stages.get(broker_id, {}),
            peer_stages_ms={stage: statistics.median(found) for stage, found in others.items()},
            idle_ratios=idle.get(broker_id, {}),
            throttled_ms={} if is_own else throttled.get(broker_id, {}),
            changes=() if since_ms is None or before_ms is None else _find_changes(run, before_ms, since_ms),
        )
    return answers


def find_beginning(latencies: Mapping[int, ProduceLatency]) -> tuple[int | None, int | None]:
    """The first window of those up to the newest in which a broker was slow, and the one before it; None for none."""
    since_ms = None
    for start_ms in sorted(latencies, reverse=True):
        if not is_slow(latencies[start_ms].request_latency_avg_ms, latencies[start_ms].ratio_to_peers):
            return since_ms, start_ms
        since_ms = start_ms
    return since_ms, None


def _read_idle(run: RunContext, window: TimeWindow) -> dict[int, dict[str, float]]:
    """How idle a broker's threads were; the least, where several sources report it."""
    idle: dict[int, dict[str, float]] = defaultdict(dict)
    names = {"request_handler_idle_ratio": "request handlers", "network_processor_idle_ratio": "network threads"}
    for broker_id, *ratios in run.tuples(BROKER_METRICS, (window,), "broker_id", *names):
        for name, ratio in zip(names.values(), ratios, strict=True):
            if broker_id is not None and ratio is not None:
                idle[broker_id][name] = min(ratio, idle[broker_id].get(name, 1.0))
    return idle


def _read_throttled(run: RunContext, window: TimeWindow) -> dict[int, dict[str, float]]:
    """By broker the longest delay by quotas of the clients that it is slow to, if that explains all of their waits."""
    longest: dict[str, float] = defaultdict(float)
    for client_id, longest_ms in run.tuples(PRODUCER_NODES, (window,), "client_id", "throttle_time_max_ms"):
        longest[client_id] = max(longest[client_id], longest_ms or 0.0)
    slow: dict[int, dict[str, float]] = defaultdict(dict)
    columns = ("broker_id", "client_id", "request_latency_avg_ms", "ratio_to_peers")
    for broker_id, client_id, latency_ms, ratio in run.tuples(LATENCY, (window,), *columns):
        if client_id != ALL_CLIENTS and is_slow(latency_ms, ratio):
            slow[broker_id][client_id] = latency_ms
    is_quota = {
        of: all(_IN_FLIGHT * longest[name] >= waits_ms for name, waits_ms in waits.items())
        for of, waits in slow.items()
    }
    return {of: {name: longest[name] for name in waits} for of, waits in slow.items() if is_quota[of]}


def _find_changes(run: RunContext, before_ms: int, since_ms: int) -> tuple[str, ...]:
    before, since = run.window_at(before_ms), run.window_at(since_ms)
    columns = ("topic", "partition", "leader_id")
    shares = [dict(run.tuples(BROKER_SHARE, (window,), "broker_id", "size_bytes")) for window in (before, since)]
    led = [run.tuples(PARTITION_HEALTH, (window,), *columns) for window in (before, since)]
    leaders = [{(topic, number): leader_id for topic, number, leader_id in found} for found in led]
    reasons = [f"broker {broker_id} was gone" for broker_id in sorted(shares[0].keys() - shares[1].keys())]
    reasons += [f"broker {broker_id} was new" for broker_id in sorted(shares[1].keys() - shares[0].keys())]
    if moved := sum(leaders[1].get(place, leader) != leader for place, leader in leaders[0].items()):
        reasons.append(f"leaders of {moved} partition{'' if moved == 1 else 's'} changed")
    sizes = [sum(of_broker.values()) for of_broker in shares]
    if sizes[0] and abs(sizes[1] / sizes[0] - 1) > _OTHER_VOLUME:
        change = sizes[1] / sizes[0] - 1
        reasons.append(f"{format_percent(abs(change))} {'more' if change > 0 else 'fewer'} bytes were produced")
    return tuple(reasons)


class PromiseLedger:
    def __init__(self, run: RunContext, windows: Windows) -> None:
        self._run = run
        own = {window.start_ms for window in windows}
        first_ms, last_ms = min(own), max(own)
        self._mailed = load_mailed(run, first_ms, last_ms)
        # the advice of the run's own windows that left in a message stays what people were sent
        told = {(start_ms, subject) for start_ms, subject, *_ in self._mailed if start_ms in own}
        sent = [run.window_at(start_ms) for start_ms in sorted({start_ms for start_ms, _ in told})]
        self._kept: dict[int, list[Recommendation]] = defaultdict(list)
        for one in run.values(Recommendation, RECOMMENDATIONS, sent):
            if (one.window_start_ms, one.subject) in told:
                self._kept[one.window_start_ms].append(replace(one, broker_ratios=dict(one.broker_ratios or {})))
        reach_ms = max(0, first_ms - WATCHED_WINDOWS * run.window_ms)
        older = {start_ms for start_ms, *_ in self._mailed if start_ms < reach_ms}
        reach = [*map(run.window_at, sorted(older)), *([TimeWindow(reach_ms, last_ms)] if reach_ms < last_ms else [])]
        advised = run.values(Recommendation, RECOMMENDATIONS, reach)
        self._advice = [one for one in advised if one.window_start_ms not in own]
        is_decided = "outcome IN ('kept', 'broken') OR carried_out_at IS NOT NULL"
        decided = run.values(Promise, PROMISES, where=is_decided)
        self._promises = [one for one in decided if one.window_start_ms not in own]
        self._read = cache(lambda start_ms: read_window(run, run.window_at(start_ms)))

    def judge(self, window: TimeWindow) -> tuple[list[Promise], dict[str, PromiseScore]]:
        run, start_ms = self._run, window.start_ms
        from_ms = start_ms - WATCHED_WINDOWS * run.window_ms
        before = [one for one in self._promises if one.window_start_ms < start_ms]
        # what people knew by the window's end, not what has left so far: a window judged again is judged as it was
        told = {
            (advised_ms, subject)
            for advised_ms, subject, left_ms, ended_ms in self._mailed
            if left_ms <= window.end_ms and (ended_ms is None or start_ms <= ended_ms)
        }
        mailed = {
            name_promise(one)
            for one in self._advice
            if one.window_start_ms < start_ms and (one.window_start_ms, one.subject) in told
        }
        advice = [it for it in self._advice if from_ms <= it.window_start_ms < start_ms or name_promise(it) in mailed]
        candidates = {candidate.name: candidate for candidate in run.config.candidates}
        first = {one.key: one.carried_out_ms for one in before if one.carried_out_ms is not None}
        watched = []
        for one in choose_watched(advice, before, mailed):
            then, now = self._read(one.window_start_ms), self._read(start_ms)
            progress = measure_progress(one, then, now, candidates)
            first_ms, is_mailed = first.get(name_promise(one)), name_promise(one) in mailed
            watched.append(
                WatchedAdvice(advice=one, then=then, now=now, progress=progress, first_ms=first_ms, is_mailed=is_mailed)
            )
        measured = [one for one in watched if one.broker_id in one.then.shares.keys() & one.now.shares.keys()]
        judged = [judge_promise(one, watched, candidates) for one in measured]
        scores = score_actions([*before, *judged])
        judged = [replace(one, **scores.get(one.action, PromiseScore())._asdict()) for one in judged]
        self._promises += judged
        return judged, scores

    def keep_sent(self, window: TimeWindow, advice: Sequence[Recommendation]) -> list[Recommendation]:
        """A window's advice, with what left in a message about a broker in place of what would be advised anew."""
        kept = self._kept.get(window.start_ms, [])
        sent = {one.subject for one in kept}
        return [*(one for one in advice if one.subject not in sent), *kept]

    def add(self, advice: Sequence[Recommendation]) -> None:
        self._advice += advice


def load_mailed(run: RunContext, first_ms: int, last_ms: int) -> list[tuple[int, str, int, int | None]]:
    """Whose advice on shares left in mails about open incidents: window, broker, when it left, and the window of the end."""
    states = ", ".join(format_datafusion_text(state) for state in sorted(ENDED))
    ended = f"state IN ({states}) AND merged_into IS NULL AND window_start < {format_datafusion_instant(first_ms)}"
    over = f"SELECT incident_id FROM changes WHERE {ended}"  # noqa: S608 - our own words
    sql = f"SELECT * FROM changes WHERE rule = '{SHARE_RULE}' AND incident_id NOT IN ({over})"  # noqa: S608
    sql += f" ORDER BY window_start, state IN ({states})"
    changed = run.query(sql, (TimeWindow(0, last_ms + run.window_ms),), changes=INCIDENTS)
    changes = {one.incident_id: one for one in values_of(IncidentChange, changed)}
    if not changes:
        return []
    names = ", ".join(format_datafusion_text(name) for name in sorted(changes))
    told = f"delivered_at IS NOT NULL AND incident_id IN ({names})"
    columns = ("incident_id", "window_start_ms", "state", "delivered_ms")
    return [
        (start_ms, changes[incident_id].subject, left_ms, _find_end(changes, incident_id))
        for incident_id, start_ms, state, left_ms in run.tuples(ALERT_OUTBOX, None, *columns, where=told)
        if state not in ENDED
    ]


def _find_end(changes: Mapping[str, IncidentChange], incident_id: str) -> int | None:
    last = changes.get(incident_id)
    if last is None or last.is_open:
        return None
    return last.window_start_ms if last.merged_into is None else _find_end(changes, last.merged_into)


def find_keyed(run: RunContext, window: TimeWindow) -> frozenset[str]:
    """Topics placed by keys in a window: their load stays with the partitions, whoever leads them."""
    return frozenset(topic for (topic,) in run.tuples(TOPIC_HEALTH, (window,), "topic", where="placement = 'keys'"))


def read_window(run: RunContext, window: TimeWindow) -> PromiseWindow:
    windows = (window,)
    partitions = list(run.tuples(PARTITION_HEALTH, windows, "topic", "partition", "size_bytes", "leader_id"))
    replicas: dict[tuple[str, int], dict[int, int]] = defaultdict(dict)
    columns = ("topic", "partition", "replica_position", "replica_id")
    for topic, number, position, replica_id in run.tuples(CLUSTER_STATE, windows, *columns):
        replicas[topic, number][position] = replica_id
    sessions, heavy = defaultdict(list), defaultdict(set)
    for row in run.rows(PRODUCER_SESSIONS, windows):
        sessions[row["topic"]].append(row)
    for topic, key in run.tuples(HOT_KEYS, windows, "topic", "key", where="is_heavy"):
        heavy[topic].add(key)
    # of each producer session's client, where metrics name one and all that bear its `client.id` agree
    told: dict[str, set[str]] = defaultdict(set)
    for client_id, version in run.tuples(PRODUCER_NODES, windows, "client_id", "client_version"):
        if version:
            told[client_id].add(version)
    clients = run.tuples(SERVICE_MODELS, windows, "producer_id", "producer_epoch", "client_id")
    sole = {name: next(iter(versions)) for name, versions in told.items() if len(versions) == 1}
    times = run.tuples(LATENCY, windows, "broker_id", "client_id", "request_latency_avg_ms", "ratio_to_peers")
    return PromiseWindow(
        start_ms=window.start_ms,
        shares={one.broker_id: one for one in run.values(BrokerLoad, BROKER_SHARE, windows) if one.expected_share},
        loads={(topic, number): size for topic, number, size, _ in partitions},
        leaders={(topic, number): leader_id for topic, number, _, leader_id in partitions},
        replicas={place: tuple(by[at] for at in sorted(by)) for place, by in replicas.items()},
        keyed=find_keyed(run, window),
        sessions=sessions,
        client_versions={tuple(key): sole[name or ""] for *key, name in clients if (name or "") in sole},
        heavy_keys={topic: frozenset(keys) for topic, keys in heavy.items()},
        compared={(row["candidate"], row["topic"]): row for row in run.rows(SCENARIO_COMPARISON, windows)},
        placed={
            (row["candidate"], row["topic"], row["broker_id"]): row[name_share(row)]
            for row in run.rows(REPLAY_BROKERS, windows)
            if row["share"] is not None
        },
        back_tests={row["topic"]: row for row in run.rows(BACK_TESTS, windows)},
        slow={broker_id: is_slow(*of) for broker_id, client_id, *of in times if client_id == ALL_CLIENTS},
    )
