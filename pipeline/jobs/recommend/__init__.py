"""Recommends actions for brokers above their share; first judges earlier advice, as a kind that breaks its promises loses rank."""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from pipeline.advice import candidate_effects
from pipeline.advice.following import Doubts, HotBroker, LeaderReplay, list_new_leaders, move_partitions, weigh_doubts
from pipeline.advice.recommendations import CandidateEffect, plan_following, recommend
from pipeline.config.replay import IN_USE, Candidate
from pipeline.jobs.recommend.promises import PromiseLedger, find_keyed, read_answers
from pipeline.model.log_tree import KAFKA_TOPICS
from pipeline.model.number_text import format_name
from pipeline.model.placement import Brokers, Leaders, Partitions, PlacedPartition, PlacementBroker, read_least_in_sync
from pipeline.model.promise import Promise, PromiseScore, Recommendation
from pipeline.model.verdict import BrokerLoad, BrokerLoads
from pipeline.model.window import TimeWindow, Windows
from pipeline.partitioners.clients.java import CLIENT as JAVA
from pipeline.rules.brokers import DISK_COLUMNS, disk_fillings
from pipeline.runs import JobReport, Row, RunContext
from pipeline.storage.observations import asked_within_ms
from pipeline.storage.tables_on_disk import ensure_tables
from pipeline.tables import Table
from pipeline.tables.bronze import BROKERS, CLUSTER_STATE, WINDOW_STATUS
from pipeline.tables.gold import BROKER_SHARE, PARTITION_HEALTH
from pipeline.tables.health import PROMISES, RECOMMENDATIONS, TOPIC_HEALTH
from pipeline.tables.incidents import ALERT_OUTBOX, INCIDENTS
from pipeline.tables.replay import BACK_TESTS, REPLAY_BROKERS, SCENARIO_COMPARISON
from pipeline.tables.silver import PRODUCER_SESSIONS
from pipeline.tables.values import row_of, tuples_of
from pipeline.transforms.topic_health import list_fixed_topics

ReplayLeaders: TypeAlias = Callable[[Leaders, Mapping[str, float]], LeaderReplay]  # errors widen ranges
_FOLLOWING = 0.5
_NEXT_DISKS = """
    SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY broker_id ORDER BY window_start) AS place FROM later
        WHERE cardinality(log_dir_bytes) > 0 OR cardinality(log_dir_total_bytes) > 0)
    WHERE place = 1"""  # of a window that was read late nobody knows how full disks were: as a later run found them
_FULLEST = 0.9  # part of a disk that plans may fill: one that is full stops its broker


def run(run: RunContext, windows: Windows, replay_of: Callable[[TimeWindow], ReplayLeaders] | None = None) -> JobReport:
    """Replaces the windows' recommendations, if brokers are above and no record is missing; `replay_of` replays with a plan's leaders."""
    if not windows:
        return JobReport()
    # an older warehouse lacks columns of them
    ensure_tables(
        run.warehouse, (PROMISES, RECOMMENDATIONS, SCENARIO_COMPARISON, INCIDENTS, ALERT_OUTBOX, WINDOW_STATUS)
    )
    lacking = run.skipped_windows(windows)
    hot: dict[int, list[BrokerLoad]] = defaultdict(list)
    for one in run.values(BrokerLoad, BROKER_SHARE, windows):
        gate = run.cluster.gate.of_broker(one)
        is_above = (one.share_ratio or 0) >= gate.limit_ratio and (one.chance_p_value or 0) <= gate.chance_level
        if is_above and one.window_start_ms not in lacking:
            hot[one.window_start_ms].append(one)
    ledger = PromiseLedger(run, windows)
    promises: list[Promise] = []
    recommendations: list[Recommendation] = []
    for window in sorted(windows):
        judged, scores = ([], {}) if window.start_ms in lacking else ledger.judge(window)
        advice = _recommend(run, window, hot[window.start_ms], scores, replay_of) if window.start_ms in hot else []
        advice = ledger.keep_sent(window, advice)
        ledger.add(advice)
        promises += judged
        recommendations += advice
    ratios = ({str(at): ratio for at, ratio in one.broker_ratios.items()} for one in recommendations)
    rows = (
        row_of(one, RECOMMENDATIONS) | {"broker_ratios": by} for one, by in zip(recommendations, ratios, strict=True)
    )
    versions = run.replace(PROMISES, promises, windows)
    return JobReport(table_versions=versions | run.replace(RECOMMENDATIONS, rows, windows))


def _recommend(
    run: RunContext,
    window: TimeWindow,
    hot: BrokerLoads,
    scores: Mapping[str, PromiseScore],
    replay_of: Callable[[TimeWindow], ReplayLeaders] | None,
) -> list[Recommendation]:
    # the others have no fair share
    shares = [one for one in run.values(BrokerLoad, BROKER_SHARE, (window,)) if one.expected_share]
    partitions, brokers = load_placement(run, window)
    sizes = sum_topics(run, window)
    of_topic = ("topic", "topic_id", "heavy_key_count", "top_key_ratio", "best_peak_to_mean")
    replayed = _load_replayed(run, window)
    fixed = list_fixed_topics(run.load(CLUSTER_STATE, (window,), ("topic", "configs", "state_source")), KAFKA_TOPICS)
    effects = _effects(run, window, replayed, shares, sizes, fixed=fixed) + candidate_effects.find_rekeyings(
        shares,
        run.tuples(PARTITION_HEALTH, (window,), "topic", "topic_id", "leader_id", "heavy_keys_bytes"),
        [row for row in run.tuples(TOPIC_HEALTH, (window,), *of_topic) if row[0] not in fixed],
    )
    answers = read_answers(run, window, [one.broker_id for one in hot])
    keyed = find_keyed(run, window)
    # what the replay says of brokers' shares if none were slow, under the first candidate that asks that alone
    alone = (Candidate(name=one.name, brokers_alike=True, topics=one.topics) for one in run.config.candidates)
    name = next((one.name for one, only in zip(run.config.candidates, alone, strict=True) if one == only), None)
    alike = [row for row in replayed[0] if row["candidate"] == name and row["share"] is not None]
    doubts = load_doubts(run, window, {row["topic"] for row in alike}, sizes, name or "")
    healed = candidate_effects.predict_healed(shares, alike, doubts, topic_bytes=sizes)
    brokers_above = [
        HotBroker(
            broker_id=one.broker_id,
            window_start_ms=window.start_ms,
            share_ratio=one.share_ratio or 0.0,
            target_ratio=run.cluster.gate.of_broker(one).resolves_at,
            load_follows=follows_broker(one),
            keyed=keyed,
            answers=answers.get(one.broker_id),
            healed=healed,
            max_moved_bytes=run.cluster.max_moved_bytes,
            fair_share=one.expected_share,
            peak_ratio=max(each.share_ratio or 0.0 for each in shares),
            unit_count=one.effective_unit_count,
        )
        for one in hot
    ]
    if replay_of is not None:

        def replay(leaders: Leaders) -> LeaderReplay:
            doubts = load_doubts(run, window, {topic for topic, _ in leaders}, sizes)
            return LeaderReplay({}, doubts.reason) if doubts.reason else replay_of(window)(leaders, doubts.errors)

        brokers_above = _replay_plans(replay, brokers_above, partitions, brokers)
    return [one for broker in brokers_above for one in recommend(broker, partitions, brokers, effects, scores)]


def _replay_plans(
    replay: Callable[[Leaders], LeaderReplay], hot: Sequence[HotBroker], partitions: Partitions, brokers: Brokers
) -> list[HotBroker]:
    """Replays the plan that moves topics without keys, one a window: that of the broker furthest above its share."""
    replayed: dict[frozenset[tuple[tuple[str, int], int]], LeaderReplay] = {}
    results: dict[int, LeaderReplay] = {}
    for broker in sorted(hot, key=lambda one: -one.share_ratio):
        for plan in plan_following(broker, partitions, brokers):
            leaders = list_new_leaders(partitions, move_partitions(partitions, plan.moves), broker.keyed)
            key = frozenset(leaders.items())
            if not replayed:
                replayed[key] = replay(leaders) if leaders else LeaderReplay({})
            results[broker.broker_id] = replayed.get(key, LeaderReplay({}, "the plan for another broker was replayed"))
    return [replace(one, replayed=results.get(one.broker_id)) for one in hot]


def load_placement(run: RunContext, window: TimeWindow) -> tuple[list[PlacedPartition], list[PlacementBroker]]:
    brokers_then = _observed_next(run, BROKERS, window, ("broker_id",), "is_fenced")
    registered = {row["broker_id"]: row for row in brokers_then}
    reach = TimeWindow(window.start_ms, window.end_ms + asked_within_ms(run.window_ms))
    disks = tuples_of(run.query(_NEXT_DISKS, (reach,), later=BROKERS), *DISK_COLUMNS)
    rooms = {
        # a replica may come to any of them
        of_broker[0]: max(0, min(round(_FULLEST * total) - used for used, total in fillings.values()))
        for of_broker in disks
        if (fillings := dict(disk_fillings(run.cluster.disk_bytes, *of_broker)))
    }
    brokers = [
        PlacementBroker(
            broker_id=broker_id,
            rack=known.get("rack"),
            capacity=capacity,
            is_fenced=_is_gone(known) if known else bool(registered),
            takes_replicas=known.get("takes_replicas") is not False,
            doubt=known.get("doubt") or "",
            free_bytes=rooms.get(broker_id),
        )
        for broker_id, capacity in sorted(run.tuples(BROKER_SHARE, (window,), "broker_id", "capacity"))
        for known in [registered.get(broker_id, {})]
    ]
    of_replica = ("topic", "topic_id", "partition", "replica_id")
    replicas = _observed_next(run, CLUSTER_STATE, window, of_replica, "is_in_sync")
    loads = run.tuples(PARTITION_HEALTH, (window,), "topic", "topic_id", "partition", "size_bytes")
    return place_partitions(loads, replicas), brokers


def _observed_next(run: RunContext, table: Table, window: TimeWindow, key: Sequence[str], name: str) -> list[Row]:
    """A window's rows; what is of a moment (who is in sync, who is away) is that of the next observation after it, if any."""
    places = ", ".join(key)
    sql = (
        f"SELECT {places}, first_value({name} ORDER BY window_start) AS observed FROM later "  # noqa: S608 - declared names
        f"WHERE {name} IS NOT NULL GROUP BY {places}"
    )
    reach = TimeWindow(window.end_ms, window.end_ms + asked_within_ms(run.window_ms))
    later = run.query(sql, (reach,), later=table)
    observed = {tuple(place): value for *place, value in tuples_of(later, *key, "observed")}
    rows = run.rows(table, (window,))
    return [row | {name: observed.get(tuple(row[part] for part in key), row[name])} for row in rows]


def _is_gone(broker: Row) -> bool:
    """A broker that is fenced, or whose disk was found while others are registered and it is not."""
    is_registered = broker.get("state_source") != "log_directories" or bool(broker.get("doubt"))
    return bool(broker.get("is_fenced")) or (not is_registered and broker.get("takes_replicas") is False)


def follows_broker(load: BrokerLoad) -> bool:
    """Whether most of what a broker has above its fair share is neither keys nor their luck, nor how leaders are spread."""
    if load.share is None or load.remainder_term is None:
        return False
    excess = load.share - load.expected_share
    return excess > 0 and load.remainder_term > _FOLLOWING * excess


def place_partitions(loads: Iterable[tuple[Any, ...]], state: Sequence[Row]) -> list[PlacedPartition]:
    """Replicas as a reassignment will leave them, with their partitions' load; by name where no topic id is known."""
    carried = {tuple(place): size for *place, size in loads}
    by_name = {(topic, number): size for (topic, topic_id, number), size in carried.items() if not topic_id}
    replicas: dict[tuple[str, str, int], list[Row]] = defaultdict(list)
    for row in state:
        if row["reassignment"] != "removing":
            replicas[row["topic"], row["topic_id"], row["partition"]].append(row)
    return [
        PlacedPartition(
            topic=key[0],
            partition=key[2],
            replicas=tuple(row["replica_id"] for row in rows),
            leader_id=rows[0]["leader_id"],
            in_sync=tuple(
                row["replica_id"]
                for row in rows
                if (row["reassignment"] != "adding" if row["is_in_sync"] is None else row["is_in_sync"])
            ),
            load_bytes=carried.get(key, 0) + (by_name.get((key[0], key[2]), 0) if key[1] else 0),
            size_bytes=max((row["size_bytes"] or 0) for row in rows),
            is_sized=any(row["size_bytes"] is not None for row in rows),
            least_in_sync=read_least_in_sync(rows[0].get("configs") or ()),
        )
        for key, unordered in sorted(replicas.items())
        for rows in [sorted(unordered, key=lambda row: row["replica_position"])]
    ]


def load_doubts(
    run: RunContext, window: TimeWindow, topics: Collection[str], sizes: Mapping[str, int], candidate: str = IN_USE
) -> Doubts:
    rows = run.tuples(SCENARIO_COMPARISON, (window,), "candidate", "topic", "trust")
    trust = {topic: trust for name, topic, trust in rows if name == candidate}
    tested = dict(run.tuples(BACK_TESTS, (window,), "topic", "share_error_points"))
    return weigh_doubts(topics, trust, tested, sizes)


def sum_topics(run: RunContext, window: TimeWindow) -> Counter[str]:
    sizes: Counter[str] = Counter()
    for topic, size in run.tuples(PARTITION_HEALTH, (window,), "topic", "size_bytes"):
        sizes[topic] += size
    return sizes


_Placed = tuple[list[Row], dict[tuple[str, str], Row]]


def _load_replayed(run: RunContext, window: TimeWindow) -> _Placed:
    """What the replay says of brokers, without candidates changed since, and its comparisons by candidate and topic."""
    now = {one.name: one for one in run.config.candidates}
    compared = {(row["candidate"], row["topic"]): row for row in run.rows(SCENARIO_COMPARISON, (window,))}
    told = ((name, row.get("definition")) for (name, _), row in compared.items() if name in now)
    changed = {name for name, definition in told if not now[name].was_replayed_as(definition)}
    rows = [row for row in run.rows(REPLAY_BROKERS, (window,)) if row["candidate"] not in changed]
    ids = defaultdict(set)  # of a topic that was made anew in the window no id is all of it
    for row in rows:
        ids[row["topic"]].add(row["topic_id"])
    return [row for row in rows if len(ids[row["topic"]]) == 1], compared


def _effects(
    run: RunContext, window: TimeWindow, replayed: _Placed, shares: BrokerLoads, sizes: Counter[str], *, fixed: set[str]
) -> list[CandidateEffect]:
    rows, compared = replayed
    candidates = {candidate.name: candidate for candidate in run.config.candidates}
    placed: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        if not row["is_baseline"] and row["candidate"] in candidates and row["share"] is not None:
            placed[row["candidate"], row["topic"]].append(row)
    clients: dict[str, Counter[str]] = defaultdict(Counter)
    for topic, client, count in run.tuples(PRODUCER_SESSIONS, (window,), "topic", "client", "record_count"):
        clients[topic][client] += count
    effects = []
    for (name, topic), own in sorted(placed.items()):
        comparison, known = compared.get((name, topic), {}), clients[topic]
        baseline = comparison.get("baseline") or ""
        others = (known.total() - known[JAVA] - known[""]) / max(1, known.total())
        described = candidate_effects.describe_candidate(
            candidates[name], topic, comparison, has_fixed_count=topic in fixed, other_ratio=others
        )
        if described is not None:
            title, cost, caveat = described
            ratios = candidate_effects.predict_ratios(shares, own, topic_bytes=sizes[topic])
            effects.append(
                CandidateEffect(
                    action=f"replay:{name}",
                    topic=topic,
                    title=title,
                    cost=cost,
                    basis=f"The replay of the window's own traffic of {format_name(topic)} puts",
                    caveat=caveat,
                    ratios=ratios,
                    is_trusted=candidate_effects.WITH_CARE not in caveat,
                    config_diff=candidate_effects.format_config_diff(candidates[name], topic, title, baseline),
                    setting_count=len(candidate_effects.list_settings(candidates[name], baseline)),
                )
            )
    return effects
