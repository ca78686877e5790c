"""The zones of `partition-health what-if`: bytes and money between zones, and brokers' shares as a replay says them."""

import argparse
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from pipeline.advice.following import LeaderReplay, predict_following
from pipeline.advice.what_ifs import ZoneChange, ZoneState, ZoneWhatIf, describe_zones, price, work_out
from pipeline.cli.terminal import format_table, print_answer
from pipeline.codec.tools.reassignment_text import format_reassignment
from pipeline.config.replay import Candidate
from pipeline.jobs.recommend import load_doubts, load_placement
from pipeline.jobs.recommend.promises import find_keyed
from pipeline.jobs.replay import WindowReplay
from pipeline.jobs.score_health import load_zone_loads
from pipeline.measures.reassignment import BEST_FOUND
from pipeline.model.number_text import format_bytes, format_name, format_ratio
from pipeline.model.placement import PartitionMove, PlacementBroker
from pipeline.model.window import TimeWindow
from pipeline.runs import RunContext
from pipeline.storage.engines import running_engine

_AWARE = Candidate(name="rack aware", config={"partitioner.rack.aware": "true"})


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--zones",
        metavar="CHANGE",
        type=ZoneChange,
        choices=list(ZoneChange),
        help=f"bytes and money between zones if this changed, and a plan for it: {', '.join(ZoneChange)}",
    )


def run(run: RunContext, window: TimeWindow, args: argparse.Namespace) -> int:
    placed, found = load_placement(run, window)
    zones = run.cluster.zones
    brokers = [replace(one, rack=zones.brokers.get(one.broker_id, one.rack)) for one in found]
    loads = load_zone_loads(run, window)
    plan: Path | None = args.plan
    worked = work_out(args.zones, placed, brokers, loads, target_ratio=run.cluster.gate.resolves_at)
    worked, reasons = _replay(run, window, worked, brokers)
    write_plan(plan, worked.moves)
    document = {
        "window": str(window),
        "change": str(worked.change),
        "now": _describe_state(run, worked.now),
        "then": _describe_state(run, worked.then),
        "planned": _describe_state(run, worked.planned),
        "moved_partition_count": len(worked.moves),
        "moved_bytes": sum(move.moved_bytes for move in worked.moves),
        "is_cut": worked.is_cut,
        "notes": describe_zones(brokers, loads),
        "not_replayed": reasons,
    }
    print_answer(args, document, partial(format_zone_what_if, document, worked, run.cluster.gate.limit_ratio, plan))
    return 0


def says_window(window: object) -> str:
    return f"Traffic and state of window {window}, the newest that was judged.\n\n"


def write_plan(path: Path | None, moves: Iterable[PartitionMove]) -> None:
    if path is not None:
        reassignment = format_reassignment((move.topic, move.partition, move.new_replicas) for move in moves)
        path.write_text(reassignment + "\n", encoding="utf-8")


def _replay(
    run: RunContext, window: TimeWindow, worked: ZoneWhatIf, brokers: Sequence[PlacementBroker]
) -> tuple[ZoneWhatIf, list[str]]:
    """Ranges of the shares by simulating the window's own producers; and why there are none, where there are none."""
    if worked.change is ZoneChange.REPLICAS:
        return worked, []
    candidate = _AWARE if worked.change is ZoneChange.RACK_AWARE else None
    keyed = find_keyed(run, window)
    reasons: list[str] = []
    with running_engine(run.config.spark, app_name="what-if") as spark:
        replay = WindowReplay(spark, run, window).replay

        def rate(state: ZoneState) -> ZoneState:
            leaders = {(one.topic, one.partition): one.leader_id for one in state.partitions if one.topic not in keyed}
            topics = {topic for topic, _ in leaders}
            sizes: Counter[str] = Counter()
            for one in worked.now.partitions:
                sizes[one.topic] += one.load_bytes
            loaded = {topic for topic in topics if sizes[topic]}
            doubts = load_doubts(run, window, loaded, sizes)
            wanted = {place: leader for place, leader in leaders.items() if place[0] in loaded and not doubts.reason}
            told = replay(wanted, doubts.errors, candidate=candidate) if wanted else LeaderReplay({}, doubts.reason)
            if told.reason:
                reasons.append(told.reason)
                return state
            return replace(state, ranges=predict_following(state.partitions, brokers, told.shares))

        then = worked.then if candidate is None else rate(worked.then)
        return replace(worked, then=then, planned=rate(worked.planned)), sorted(set(reasons))


def _describe_state(run: RunContext, state: ZoneState) -> dict[str, Any]:
    cost = price(state.between.total, run.cluster.zones.price_per_gb, run.window_ms)
    return {
        "produced_between_zones_bytes": round(state.between.produce),
        "replicated_between_zones_bytes": round(state.between.replication),
        "cost_per_month": None if cost is None else round(cost, 2),
        "brokers": [
            {"broker_id": broker_id, "share_ratio": middle, "share_ratio_low": low, "share_ratio_high": high}
            for broker_id, ratio in sorted(state.ratios.items())
            for low, middle, high in [state.ranges.get(broker_id, (None, ratio, None))]
        ],
    }


def format_zone_what_if(document: Mapping[str, Any], worked: ZoneWhatIf, limit: float, plan: Path | None) -> str:
    heads = {"now": "now", "planned": "with the plan"}
    if worked.change is ZoneChange.RACK_AWARE:
        heads = {"now": "now", "then": "rack-aware", "planned": "with the plan too"}
    states = [document[name] for name in heads]
    rows: list[tuple[str, ...]] = [
        ("produced between zones", *(format_bytes(one["produced_between_zones_bytes"]) for one in states)),
        ("replicated between zones", *(format_bytes(one["replicated_between_zones_bytes"]) for one in states)),
    ]
    if states[0]["cost_per_month"] is not None:
        rows.append(("money a month", *(f"{one['cost_per_month']:,.2f}" for one in states)))
    numbered = zip(*(state["brokers"] for state in states), strict=True)
    rows += [(f"broker {each[0]['broker_id']}", *map(_format_share, each)) for each in numbered]
    table = format_table(("", *heads.values()), rows, right=frozenset({1, 2, 3}))
    lines = [_say_change(document, worked, limit, plan), *document["notes"]]
    lines += [f"Shares are spread evenly, not replayed: {format_name(one, 300)}." for one in document["not_replayed"]]
    return says_window(document["window"]) + table + "\n" + "\n".join(lines) + "\n"


def _format_share(row: Mapping[str, Any]) -> str:
    told = format_ratio(row["share_ratio"])
    if row["share_ratio_low"] is None:
        return told
    return f"{told} ({row['share_ratio_low']:.2f} to {row['share_ratio_high']:.2f})"


def _say_change(document: Mapping[str, Any], worked: ZoneWhatIf, limit: float, plan: Path | None) -> str:
    shown = worked.then if worked.change is ZoneChange.RACK_AWARE else worked.planned
    then = document["then" if worked.change is ZoneChange.RACK_AWARE else "planned"]
    what = {
        ZoneChange.RACK_AWARE: "Rack-aware producers",
        ZoneChange.LEADERS: "Leaders near their producers",
        ZoneChange.REPLICAS: "Replicas in other racks",
    }[worked.change]
    name, noun = ("replication", "replicated") if worked.change is ZoneChange.REPLICAS else ("produce", "produced")
    before, after = getattr(worked.now.between, name), getattr(shown.between, name)
    sentence = f"{what} {_compare(before, after)} the bytes {noun} between zones"
    if then["cost_per_month"] is not None and then["cost_per_month"] != document["now"]["cost_per_month"]:
        saved = document["now"]["cost_per_month"] - then["cost_per_month"]
        money = f"{abs(saved):,.0f}" if abs(saved) >= 10 else f"{abs(saved):,.2f}"
        sentence += f" (about {money} {'less' if saved >= 0 else 'more'} a month)"
    broker_id, peak = shown.peak
    was = worked.now.ratios.get(broker_id, 0.0)
    verb = "rises" if peak > was + 0.005 else "falls" if peak < was - 0.005 else "stays"
    fails = f", above its limit of {format_ratio(limit)}" if peak >= limit else ""
    sentence += f"; the highest broker is {broker_id}, which {verb} {'at' if verb == 'stays' else 'to'} {format_ratio(peak)}{fails}"
    return f"{sentence}. {_say_plan(document, worked, plan)}"


def _say_plan(document: Mapping[str, Any], worked: ZoneWhatIf, plan: Path | None) -> str:
    if not worked.moves:
        is_aware = worked.change is ZoneChange.RACK_AWARE
        return "Leaders may stay." if is_aware else "No plan of leaders or replicas helps."
    where = f" in {plan}" if plan is not None else " (--plan FILE writes it)"
    copied = format_bytes(document["moved_bytes"]) if document["moved_bytes"] else "nothing"
    count = f"{len(worked.moves):,} partition{'' if len(worked.moves) == 1 else 's'}"
    told = f"The plan{where} changes {count} and copies {copied}"
    if worked.change is ZoneChange.RACK_AWARE:
        broker_id, peak = worked.planned.peak
        told += f"; with it the highest broker is {broker_id} at {format_ratio(peak)}"
    return f"{told}. {BEST_FOUND}" if worked.is_cut else f"{told}."


def _compare(before: float, after: float) -> str:
    if before <= 0:
        return "add" if after > 0 else "do not change"
    part = after / before - 1
    return f"save {-part:.0%} of" if part < 0 else f"add {part:.0%} to" if part > 0 else "do not change"
