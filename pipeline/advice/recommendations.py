"""Recommendations for a broker above its share, ranked by what is enough, then by what it costs; docs/MEASURES.md has the order."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType

from pipeline.advice.following import (
    CHECK_BROKER,
    Ends,
    HotBroker,
    check_broker,
    describe_ratios,
    move_partitions,
    predict_following,
)
from pipeline.codec.tools.reassignment_text import format_election, format_reassignment
from pipeline.measures.chance import NORMAL_REACH
from pipeline.measures.reassignment import BEST_FOUND, ReassignmentPlan, plan_election, plan_leaders, plan_replicas
from pipeline.measures.window_loads import fair_parts
from pipeline.measures.zone_plans import rate_brokers
from pipeline.model.number_text import format_bytes, format_ratio
from pipeline.model.placement import Brokers, Partitions
from pipeline.model.promise import PromiseScore, Recommendation

Scores = Mapping[str, PromiseScore]
_NONE: Scores = MappingProxyType({})
_Told = tuple[Recommendation, str]  # an action, and what is said of its effect
MOST_SHOWN = 8
MOST_ALIKE = 2
_UNSURE, _LAST = 3, 4
_NOT_PREDICTED = "Its effect is not predicted"
_OTHER_FAIR = 0.01  # by which fair shares differ where a broker stood for a part of the window, or left at its end
_WORTH = 0.1  # part of a broker's excess that an action has to take away to be advised
_PLANS = {
    "elect_preferred": (0, "elect preferred leaders", "The first replica of {} leads again; {}."),
    "move_leaders": (1, "hand over leadership", "Another in-sync replica leads {}; {}."),
    "move_replicas": (4, "move replicas", "Leaders or replicas of {} change; {}."),
}  # by kind: what it costs, as of `CandidateEffect`, its title, and what it does to so many partitions and copies


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateEffect:
    action: str  # `replay:` and the candidate's name in the configuration, or `rekey`
    topic: str
    title: str  # what would be done, in a few words
    # 1 a line of configuration, 2 a client upgrade, 3 another partitioner, 5 more partitions, 6 other keys, 7 lost order
    cost: int
    basis: str  # what the prediction rests on, up to the verb
    caveat: str  # what to know before; may be empty
    ratios: Mapping[int, Ends]  # share ratio of every broker with this topic so placed
    config_diff: str | None = None  # what changes in the producers' configuration; None where no setting does
    is_trusted: bool = True  # what its ratios rest on
    setting_count: int = 0  # settings that change: of two ways that cost alike the plainer comes first


def recommend(
    hot: HotBroker, partitions: Partitions, brokers: Brokers, effects: Sequence[CandidateEffect], scores: Scores = _NONE
) -> tuple[Recommendation, ...]:
    """At most eight actions for a broker, best first, doubted ones and broken kinds (`scores`) last; none that leaves it, or heats another."""
    hot = replace(hot, peak_ratio=max(hot.peak_ratio, *rate_brokers(partitions, brokers).values()))
    if hot.load_follows:
        partitions = [replace(one, is_pinned=one.topic not in hot.keyed) for one in partitions]
    plans, followed = _plans(hot, partitions, brokers), []
    if hot.load_follows:
        followed = plan_following(hot, partitions, brokers)
    elif hot.replayed is not None and not hot.replayed.reason:
        followed = _list_to_replay(plans, hot)
        plans = plans[: len(plans) - len(followed)]
    # what is said of a plan's effect comes last: until then it may turn out that it cannot be predicted
    found = [(0, (_PLANS[plan.kind][0], 0), *_of_plan(plan, hot)) for plan in plans]
    known = [(one, (one.cost, one.setting_count)) for one in effects if hot.broker_id in one.ratios]
    found += [(0 if one.is_trusted else _UNSURE, cost, _of_effect(one, hot), "") for one, cost in known]
    useful = [(max(it[0], _order(it[2], hot, scores)), *it[1:]) for it in found if _helps(it[2], hot)]
    useful += [
        (_order(row, hot, scores) if _helps(row, hot) else _LAST, (_PLANS[plan.kind][0], 0), row, said)
        for plan in followed
        for row, said in [_of_replayed(plan, hot, partitions, brokers)]
    ]
    if hot.load_follows:
        check = check_broker(hot)
        useful.append((_order(check, hot, scores), (0, 0), check, ""))
    own = fair_parts(brokers).get(hot.broker_id, 0.0)
    if hot.fair_share and abs(own / hot.fair_share - 1) > _OTHER_FAIR:
        changed = ": a broker came or went since the window began, so fair shares are others now."
        useful = [
            (_LAST, cost, replace(row, **describe_ratios({}, hot)), _NOT_PREDICTED + changed)
            if row.action in _PLANS and row.predicted_ratio is not None
            else (order, cost, row, said)
            for order, cost, row, said in useful
        ]
    useful.sort(key=lambda it: (it[0], not it[2].is_enough, it[1], round(it[2].predicted_ratio or 0, 3), it[2].action))
    alike: Counter[tuple[int, str]] = Counter()
    kept = []
    for _, (cost, _), row, said in useful:
        alike[cost, row.topic] += 1
        if alike[cost, row.topic] <= MOST_ALIKE:
            whole = replace(row, text=f"{row.text} {said}") if said else row
            kept.append(_with_score(_with_chance(whole, hot), scores.get(row.action, PromiseScore())))
    return tuple(replace(row, rank=rank) for rank, row in enumerate(kept[:MOST_SHOWN], start=1))


def _helps(row: Recommendation, hot: HotBroker) -> bool:
    return (row.predicted_ratio or 0.0) < hot.share_ratio - _WORTH * (hot.share_ratio - 1) and not _harms(row, hot)


def _harms(row: Recommendation, hot: HotBroker) -> bool:
    """Whether some broker would be hotter than the hottest is now."""
    peak = max(hot.share_ratio, hot.peak_ratio)
    return (row.predicted_peak_ratio or 0.0) > peak + _WORTH * (peak - 1)


def _order(row: Recommendation, hot: HotBroker, scores: Scores) -> int:
    if row.action == CHECK_BROKER:
        return 0 if hot.answers is not None and hot.answers.is_slow else 2
    if row.predicted_ratio is None:
        return _LAST
    return _UNSURE if scores.get(row.action, PromiseScore()).is_bad else 1


def plan_following(hot: HotBroker, partitions: Partitions, brokers: Brokers) -> list[ReassignmentPlan]:
    """The plan to replay, if it moves topics without keys: it would even the load out if that stayed with the partitions."""
    return _list_to_replay(_plans(hot, [replace(one, is_pinned=False) for one in partitions], brokers), hot)


def _list_to_replay(plans: Sequence[ReassignmentPlan], hot: HotBroker) -> list[ReassignmentPlan]:
    return [plan for plan in plans[-1:] if any(move.topic not in hot.keyed for move in plan.moves)]


def _of_replayed(plan: ReassignmentPlan, hot: HotBroker, partitions: Partitions, brokers: Brokers) -> _Told:
    """A plan whose load does not stay with the partitions, and what a replay with its leaders says of its effect, if anything."""
    row, _ = _of_plan(plan, hot)
    if hot.replayed is None or hot.replayed.reason:
        why = f" ({hot.replayed.reason})" if hot.replayed is not None else ""
        follows = "the load follows the broker, so producers of records without keys may load whatever it leads next."
        return replace(row, **describe_ratios({}, hot)), f"{_NOT_PREDICTED}{why}: {follows}"
    ratios = predict_following(move_partitions(partitions, plan.moves), brokers, hot.replayed.shares)
    found = replace(row, **describe_ratios(ratios, hot), is_replayed=True)
    peak = max(median for _, median, _ in ratios.values())
    why = "the load follows the broker" if hot.load_follows else "producers without keys choose among all partitions"
    said = f"The window was replayed with these leaders, because {why}: the highest broker would be at {format_ratio(peak)}."
    if not _helps(found, hot):
        follows = "the load follows broker" if hot.load_follows else "most of the load comes back to broker"
        stays = f"{follows} {hot.broker_id}, which stays at {format_ratio(ratios[hot.broker_id][1])}"
        stays = f"another broker is at {format_ratio(peak)}" if _harms(found, hot) else stays
        said = f"It does not help: replayed with these leaders {stays}."
        # nobody is to carry it out
        found = replace(found, reassignment_json=None, election_json=None, rollback_json=None)
    return found, said


def _with_chance(row: Recommendation, hot: HotBroker) -> Recommendation:
    """A figure that nothing drew gets the range of chance: nine times of ten two windows of so many batches differ by less."""
    ratio = row.predicted_ratio
    if ratio is None or row.predicted_ratio_high != row.predicted_ratio_low or not hot.unit_count or not hot.fair_share:
        return row
    share = min(1.0, ratio * hot.fair_share)
    width = NORMAL_REACH * math.sqrt(2 * share * (1 - share) / hot.unit_count) / hot.fair_share
    return replace(row, predicted_ratio_low=max(0.0, ratio - width), predicted_ratio_high=ratio + width)


def _with_score(row: Recommendation, score: PromiseScore) -> Recommendation:
    if not score.is_bad or row.predicted_ratio is None:
        return row
    judged = score.kept_count + score.broken_count
    broken = f"{score.broken_count} of {judged} promises of this kind were broken here"
    return replace(row, text=f"{row.text} It comes last: {broken}.")


def _plans(hot: HotBroker, partitions: Partitions, brokers: Brokers) -> list[ReassignmentPlan]:
    plans = []
    capped = partial(plan_replicas, max_moved_bytes=hot.max_moved_bytes)
    for make in (plan_election, plan_leaders, capped):
        plan = make(partitions, brokers, target_ratio=hot.target_ratio)
        if plan.moves:
            plans.append(plan)
        if plan.peak_ratio <= hot.target_ratio:
            break
    return plans


def _of_plan(plan: ReassignmentPlan, hot: HotBroker) -> _Told:
    """A plan, and what is said of its effect if the load stays with the partitions."""
    count, ratios = len(plan.moves), {broker_id: (ratio, ratio, ratio) for broker_id, ratio in plan.ratios.items()}
    partitions = f"{count} partition{'' if count == 1 else 's'}"
    costs = f"copies {format_bytes(plan.moved_bytes)}" if plan.moved_bytes else "copies nothing"
    _, title, does = _PLANS[plan.kind]
    found = f" {BEST_FOUND}" if plan.is_cut else ""
    stays = "It holds as far as producers of records without keys spread them as they did in this window."
    if all(move.topic in hot.keyed for move in plan.moves):
        stays = "Keys keep the load of these partitions on them, as it was in this window."
    is_election, moves = plan.kind == "elect_preferred", plan.moves
    after = ((move.topic, move.partition, move.new_replicas) for move in moves)
    before = ((move.topic, move.partition, move.replicas) for move in moves)
    row = Recommendation(
        action=plan.kind,
        title=f"{title} of {partitions}",
        text=f"{does.format(partitions, costs)}{found}",
        topic=moves[0].topic if len({move.topic for move in moves}) == 1 else "",
        **describe_ratios(ratios, hot),
        moved_bytes=plan.moved_bytes,
        moved_partition_count=count,
        reassignment_json=None if is_election else format_reassignment(after),
        election_json=format_election((move.topic, move.partition) for move in moves),
        rollback_json=None if is_election else format_reassignment(before),
    )
    return row, f"The highest broker would be at {format_ratio(plan.peak_ratio)}. {stays}"


def _of_effect(effect: CandidateEffect, hot: HotBroker) -> Recommendation:
    predicted = describe_ratios(effect.ratios, hot)
    caveat = f" {effect.caveat}" if effect.caveat else ""
    return Recommendation(
        action=effect.action,
        title=effect.title,
        text=f"{effect.basis} the highest broker at {format_ratio(predicted['predicted_peak_ratio'])}.{caveat}",
        topic=effect.topic,
        config_diff=effect.config_diff,
        **predicted,
    )
