"""Shares and usable capacity after a change of brokers, traffic or placement.

Based on the newest judged window; nothing is changed.
"""

import argparse
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import ByteSize, TypeAdapter, ValidationError

from pipeline.advice.following import Ends, LeaderReplay, sum_carried
from pipeline.advice.what_ifs import ClusterChange, Following, Foreseen, PlacedCluster, foresee, pin_following
from pipeline.cli import what_if_zones
from pipeline.cli.terminal import add_config_option, add_json_option, format_table, print_answer, print_error
from pipeline.cli.what_if_zones import says_window, write_plan
from pipeline.codec.tools.reassignment_text import parse_reassignment
from pipeline.config.section import format_problems
from pipeline.config.sections import WhatIf
from pipeline.config.yaml_file import read_text
from pipeline.config_file import load_config
from pipeline.errors import ConfigError, NothingUsableError
from pipeline.jobs.recommend import follows_broker, load_doubts, load_placement, sum_topics
from pipeline.jobs.recommend.promises import find_keyed
from pipeline.jobs.replay import WindowReplay
from pipeline.measures.reassignment import BEST_FOUND
from pipeline.measures.window_loads import fair_parts
from pipeline.model.number_text import format_bytes, format_name, format_percent, format_ratio, format_span, join_names
from pipeline.model.placement import PlacementBroker
from pipeline.model.verdict import BrokerLoad, Verdict
from pipeline.model.window import TimeWindow, milliseconds_of
from pipeline.report.answers import ask_newest
from pipeline.runs import RunContext, plan_runs
from pipeline.storage.engines import running_engine
from pipeline.storage.tables_on_disk import ensure_measures
from pipeline.tables.gold import BROKER_SHARE, VERDICTS
from pipeline.verdicts.rules import find_doubt


def add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add_config_option(parser)
    add("--cluster", metavar="NAME", help="which cluster of the configuration; needed where there are several")
    several: dict[str, Any] = {"action": "append", "default": []}
    add("--add-broker", metavar="ID[:RACK]", help="add this broker", **several)
    add("--lose-broker", metavar="ID", type=int, help="this broker is lost", **several)
    add("--lose-rack", metavar="RACK", help="all brokers of this rack are lost", **several)
    add("--resize-broker", metavar="ID=FACTOR", help="multiply the capacity of this broker", **several)
    add("--grow", metavar="TOPIC=FACTOR", help="multiply the traffic of this topic", **several)
    add("--reassignment", metavar="FILE", type=Path, help="JSON as kafka-reassign-partitions reads it")
    add("--plan", metavar="FILE", type=Path, help="write the reassignment that evens the load out to FILE")
    add(
        "--max-moved",
        metavar="SIZE",
        type=TypeAdapter(ByteSize).validate_python,
        help="most bytes that the plan may copy, such as 500GiB (default: max_moved_bytes)",
    )
    what_if_zones.add_options(parser)
    add("--configured", action="store_true", help="compute each of the what_ifs in the configuration")
    add_json_option(parser)


def _read_change(args: argparse.Namespace) -> WhatIf:
    brokers = {number: rack for number, _, rack in (text.partition(":") for text in args.add_broker)}
    sizes = {number: factor for number, _, factor in (text.rpartition("=") for text in args.resize_broker)}
    growth = {topic: factor for topic, _, factor in (text.rpartition("=") for text in args.grow)}
    asked = {"add_brokers": brokers, "lose_brokers": args.lose_broker, "lose_racks": args.lose_rack}
    try:
        return WhatIf.model_validate(
            {**asked, "resize_brokers": sizes, "grow": growth, "reassignment": args.reassignment}
        )
    except ValidationError as error:
        raise ConfigError(format_problems(error, WhatIf)) from error


def run(args: argparse.Namespace) -> int:
    config, asked = load_config(args.config), _read_change(args)
    if args.cluster is None and len(config.clusters) > 1:
        raise ConfigError(f"say which cluster: --cluster {' or '.join(config.clusters)}")
    now_ms = time.time_ns() // 1_000_000  # the command line is where the clock is read
    span = TimeWindow(now_ms - milliseconds_of(config.window), now_ms)
    (run,) = plan_runs(config, span, run_id="what-if", now_ms=now_ms, cluster=args.cluster)
    newest = ask_newest(run, run.now_ms)
    if newest is None:
        raise NothingUsableError(f"no window of cluster {run.cluster_name} was judged: run `partition-health run`")
    ensure_measures(run.warehouse)
    target, window = run.cluster.gate.resolves_at, (newest.window)
    if (not_judged := explain_doubt(run, window)) is not None:
        print_error(f"window {window}: {not_judged}; shares may be others than those below")
    if args.zones is not None:
        return what_if_zones.run(run, window, args)
    now, follows = _load_cluster(run, window)
    max_moved_bytes = run.cluster.max_moved_bytes if args.max_moved is None else args.max_moved
    following = Following(keyed=find_keyed(run, window), replay=partial(_replay, run, window)) if follows else None

    def work_out(change: ClusterChange) -> Foreseen:
        return foresee(now, change, target_ratio=target, max_moved_bytes=max_moved_bytes, following=following)

    if args.configured:
        changes = [(name, work_out(_change_of(change))) for name, change in run.cluster.what_ifs.items()]
        documents = [
            {"name": name, "not_judged": not_judged, **describe_what_if(now, one, follows)} for name, one in changes
        ]
        print_answer(
            args, {"window": str(window), "what_ifs": documents}, lambda: says_window(window) + as_table(documents)
        )
        return 0
    foreseen = work_out(_change_of(asked))
    write_plan(args.plan, foreseen.plan.moves)
    document = {"window": str(window), "not_judged": not_judged, **describe_what_if(now, foreseen, follows)}
    print_answer(args, document, lambda: says_window(window) + format_what_if(document, foreseen, target))
    return 0


def _replay(
    run: RunContext, window: TimeWindow, leaders: Mapping[tuple[str, int], int], racks: Mapping[int, str]
) -> LeaderReplay:
    """Replays the window with other leaders; an engine starts only where the back-test says that it is worth it."""
    sizes = sum_topics(run, window)
    doubts = load_doubts(run, window, {topic for topic, _ in leaders}, sizes)
    if doubts.reason:
        return LeaderReplay({}, doubts.reason)
    with running_engine(run.config.spark, app_name=run.run_id) as spark:
        return WindowReplay(spark, run, window).replay(leaders, doubts.errors, racks)


def explain_doubt(run: RunContext, window: TimeWindow) -> str | None:
    """Why the newest window may not tell today's shares: something lacks, or it is older than the freshness of its sources."""
    age_ms, config = run.as_of_ms - window.end_ms, run.config
    is_old = age_ms > milliseconds_of(config.window + config.grace + run.cluster.freshness)
    old = f"it ended {format_span(age_ms)} ago, and no later window was judged" if is_old else None
    return find_doubt(run.values(Verdict, VERDICTS, (window,))) or old


def _load_cluster(run: RunContext, window: TimeWindow) -> tuple[PlacedCluster, tuple[int, ...]]:
    partitions, brokers = load_placement(run, window)
    cluster = PlacedCluster(partitions=tuple(partitions), brokers=tuple(brokers))
    gate, loads = run.cluster.gate, run.values(BrokerLoad, BROKER_SHARE, (window,))
    above = [one for one in loads if (one.share_ratio or 0.0) >= gate.of_broker(one).resolves_at]
    follows = tuple(sorted(one.broker_id for one in above if follows_broker(one)))
    return (pin_following(cluster, find_keyed(run, window)) if follows else cluster), follows


def _change_of(given: WhatIf) -> ClusterChange:
    path = given.reassignment
    return ClusterChange(
        added=tuple(PlacementBroker(broker_id=one, rack=rack or None) for one, rack in given.add_brokers.items()),
        lost=frozenset(given.lose_brokers),
        lost_racks=frozenset(given.lose_racks),
        sizes=given.resize_brokers,
        growth=given.grow,
        replicas={} if path is None else parse_reassignment(read_text(path), path=path),
    )


def describe_what_if(now: PlacedCluster, foreseen: Foreseen, follows: tuple[int, ...]) -> dict[str, Any]:
    then, plan, loads, ratios = foreseen.then, foreseen.plan, now.loads, now.ratios
    parts = fair_parts(then.brokers)
    total = sum_carried(then.partitions, parts, foreseen.replayed)
    changed_sizes = {one: round(ratio * parts[one] * total) for one, (_, ratio, _) in foreseen.ratios.items()}
    then_ratios = [ratio for _, ratio, _ in foreseen.ratios.values()]
    return {
        "load_follows": list(follows),
        "is_replayed": foreseen.is_replayed,
        "not_predicted": foreseen.reason,
        "brokers": [
            {
                "broker_id": broker_id,
                "size_bytes": loads.get(broker_id),
                "share_ratio": ratios.get(broker_id),
                "changed_size_bytes": changed_sizes.get(broker_id),
                **_name_ends("changed_share_ratio", foreseen.ratios.get(broker_id)),
                **_name_ends("planned_share_ratio", foreseen.planned.get(broker_id)),
            }
            for broker_id in sorted({*ratios, *then.ratios})
        ],
        "head_room_ratio": _head_room(ratios.values()),
        "changed_head_room_ratio": _head_room(then_ratios) if then_ratios else None,
        "moved_bytes": then.moved_bytes,
        "leaderless": [f"{one.topic}-{one.partition}" for one in then.leaderless],
        "below_min_isr": [f"{one.topic}-{one.partition}" for one in then.below_min_isr],
        "plan": {
            "kind": plan.kind,
            "moved_partition_count": len(plan.moves),
            "moved_bytes": plan.moved_bytes,
            "peak_ratio": foreseen.peak,
            "is_cut": plan.is_cut,
        },
    }


def _name_ends(name: str, ends: Ends | None) -> dict[str, float | None]:
    low, median, high = ends or (None, None, None)
    return {name: median, f"{name}_low": low, f"{name}_high": high}


def _head_room(ratios: Iterable[float]) -> float:
    """Returns the part of all brokers' capacity in use when the fullest broker is full."""
    return min(1.0, 1 / (max(ratios) or 1.0))


def as_table(documents: list[dict[str, Any]]) -> str:
    rows = [
        (
            format_name(one["name"]),
            _known(max(highest, default=None), format_ratio),
            format_percent(one["head_room_ratio"]),
            _known(one["changed_head_room_ratio"], format_percent),
            format_bytes(one["moved_bytes"]),
            f"{len(one['leaderless']):,}",
            f"{len(one['below_min_isr']):,}",
            format_bytes(one["plan"]["moved_bytes"]),
            _known(one["plan"]["peak_ratio"], format_ratio),
        )
        for one in documents
        for highest in [[b["changed_share_ratio"] for b in one["brokers"] if b["changed_share_ratio"] is not None]]
    ]
    head = ("what if", "highest", "usable now", "then", "copied", "leaderless", "below ISR", "plan copies", "highest")
    return format_table(head, rows, right=frozenset(range(1, len(head)))) + "\n"


def _known(value: float | None, write: Callable[[Any], str]) -> str:
    return "-" if value is None else write(value)


def format_what_if(document: dict[str, Any], foreseen: Foreseen, target: float) -> str:
    then, plan = foreseen.then, foreseen.plan
    rows = [
        (
            f"broker {row['broker_id']}",
            _known(row["size_bytes"], format_bytes),
            _known(row["share_ratio"], format_ratio),
            _known(row["changed_size_bytes"], format_bytes),
            _with_range(row, "changed_share_ratio"),
            _with_range(row, "planned_share_ratio"),
        )
        for row in document["brokers"]
    ]
    head = ("", "bytes now", "ratio", "bytes then", "ratio", "by plan")
    before, head_room = format_percent(document["head_room_ratio"]), document["changed_head_room_ratio"]
    after = "not predicted then" if head_room is None else f"{format_percent(head_room)} then"
    lines = [f"Usable: {before} of all brokers' capacity now, {after}."]
    if document["load_follows"]:
        lines.append(_describe_following(document, then))
    if then.moved_bytes:
        lines.append(f"The reassignment copies {format_bytes(then.moved_bytes)}.")
    below = "Below min.insync.replicas, so that acks=all is refused"
    for said, named in ("Nobody leads", document["leaderless"]), (below, document["below_min_isr"]):
        lines += [f"{said}: {format_name(join_names(named, 8), 600)}."] if named else []
    hurt = {(one.topic, one.partition) for one in then.hurt} - {(one.topic, one.partition) for one in then.leaderless}
    if hurt:
        stay = len(hurt - {(move.topic, move.partition) for move in plan.moves})
        left = f", {stay:,} of them stay: no live broker may or can take them" if stay else ""
        lines.append(f"Brokers that are gone hold replicas of {len(hurt):,} partitions; the plan replaces them{left}.")
    if doubt := next((broker.doubt for broker in then.brokers if broker.doubt), ""):
        lines.append(f"Replicas stay where they are, racks are not known for sure: {format_name(doubt, 300)}.")
    copies = format_bytes(plan.moved_bytes) if plan.moved_bytes else "nothing"
    peak = document["plan"]["peak_ratio"]
    if not plan.moves:
        helps = "No move of leaders or replicas would help."
        if document["load_follows"] and document["not_predicted"]:
            helps = "There is no plan whose effect can be predicted."
        lines.append("Nothing needs to move." if peak is not None and peak <= target else helps)
    else:
        brings = "what it brings is not predicted"
        if peak is not None:
            brings = f"the highest broker is then at {format_ratio(peak)}"
        plan_text = f"The plan moves {len(plan.moves)} partitions and copies {copies}; {brings}"
        lines.append(f"{plan_text}, the aim is {format_ratio(target)}." + (f" {BEST_FOUND}" if plan.is_cut else ""))
        lines.append("Until preferred leaders are elected after it (kafka-leader-election), present leaders go on.")
    return format_table(head, rows, right=frozenset(range(1, len(head)))) + "\n" + "\n".join(lines) + "\n"


def _with_range(row: dict[str, Any], name: str) -> str:
    low, ratio, high = (row[f"{name}{end}"] for end in ("_low", "", "_high"))
    return "-" if ratio is None else format_ratio(ratio) + (f" [{low:.2f}, {high:.2f}]" if high > low else "")


def _describe_following(document: dict[str, Any], cluster: PlacedCluster) -> str:
    topics = sorted({one.topic for one in cluster.partitions if one.is_pinned and one.load_bytes})
    shown = join_names([*map(format_name, topics)], 5)
    names = " and ".join(str(broker_id) for broker_id in document["load_follows"])
    follows = "most of what it has above its share comes with the broker, not with partitions"
    text = f"Load follows broker {names}: {follows}."
    if document["is_replayed"]:
        text += (
            f" So the window was replayed with the new leaders of topics without keys ({shown}); a new broker is taken to "
            "be as fast as the one in the middle."
        )
    if document["not_predicted"]:
        text += (
            f" What topics without keys ({shown}) would bring to other leaders is not predicted: "
            f"{document['not_predicted']}."
        )
    return text
