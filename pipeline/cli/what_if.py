"""`partition-health what-if`: shares and head-room after a change of brokers, traffic or placement."""

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import ByteSize, TypeAdapter

from pipeline.advice.what_ifs import (
    ClusterChange,
    PlacedCluster,
    change_cluster,
    describe_places,
    is_predicted,
    pin_following,
    plan_even,
)
from pipeline.cli.options import add_config_option, add_json_option
from pipeline.cli.text_table import format_table
from pipeline.codec.tools.reassignment_text import format_reassignment, parse_reassignment
from pipeline.config.what_if import WhatIf
from pipeline.config_file import load_config
from pipeline.errors import ConfigError, NothingUsableError
from pipeline.jobs.recommend import find_keyed, follows_broker, load_placement
from pipeline.measures.reassignment import ReassignmentPlan
from pipeline.model.number_text import format_bytes, format_name, format_percent, format_ratio
from pipeline.model.placement import PlacementBroker
from pipeline.model.window import TimeWindow, milliseconds_of
from pipeline.report.answers import Asker
from pipeline.runs import RunContext, plan_runs
from pipeline.tables.gold import BROKER_SHARE

_MOST_NAMED = 5


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = f"{__doc__} Based on the newest judged window; nothing is changed."
    add_config_option(parser)
    parser.add_argument(
        "--cluster", metavar="NAME", help="which cluster of the configuration; needed where there are several"
    )
    several: dict[str, Any] = {"action": "append", "default": []}
    parser.add_argument("--add-broker", metavar="ID[:RACK]", type=_new_broker, help="one more broker", **several)
    parser.add_argument("--lose-broker", metavar="ID", type=int, help="a broker that is gone", **several)
    parser.add_argument("--lose-rack", metavar="RACK", help="a rack whose brokers are gone", **several)
    parser.add_argument(
        "--resize-broker", metavar="ID=FACTOR", type=_factor(int), help="a broker of another size", **several
    )
    parser.add_argument(
        "--grow", metavar="TOPIC=FACTOR", type=_factor(str), help="a topic with more traffic, or less", **several
    )
    parser.add_argument("--reassignment", metavar="FILE", type=Path, help="JSON as kafka-reassign-partitions reads it")
    parser.add_argument(
        "--plan", metavar="FILE", type=Path, help="write the reassignment that evens the load out to FILE"
    )
    parser.add_argument(
        "--max-moved",
        metavar="SIZE",
        type=_size,
        help="most bytes that the plan may copy, such as 500GiB (default: max_moved_bytes)",
    )
    parser.add_argument("--configured", action="store_true", help="each of the cluster's what_ifs in the configuration")
    add_json_option(parser)


def _size(text: str) -> int:
    return TypeAdapter(ByteSize).validate_python(text)


def _new_broker(text: str) -> PlacementBroker:
    number, _, rack = text.partition(":")
    return PlacementBroker(broker_id=int(number), rack=rack or None)


def _factor(kind: Callable[[str], Any]) -> Callable[[str], tuple[Any, float]]:
    def read(text: str) -> tuple[Any, float]:
        name, _, factor = text.rpartition("=")
        if float(factor) <= 0:
            raise ValueError(text)
        return kind(name), float(factor)

    return read


def run(args: argparse.Namespace) -> int:
    config = load_config(args.config)
    if args.cluster is None and len(config.clusters) > 1:
        raise ConfigError(f"say which cluster: --cluster {' or '.join(config.clusters)}")
    now_ms = time.time_ns() // 1_000_000  # the command line is where the clock is read
    window_ms = milliseconds_of(config.window)
    span = TimeWindow(now_ms - window_ms, now_ms)
    (run,) = plan_runs(config, span, run_id="what-if", now_ms=now_ms, cluster=args.cluster)
    window, now, follows = _load_newest(run)
    target = run.cluster.gate.resolves_at
    max_moved_bytes = run.cluster.max_moved_bytes if args.max_moved is None else args.max_moved

    def work_out(change: ClusterChange) -> tuple[PlacedCluster, ReassignmentPlan]:
        then = change_cluster(now, change)
        return then, plan_even(then, target_ratio=target, max_moved_bytes=max_moved_bytes)

    if args.configured:
        found = [(name, *work_out(_change_of(change))) for name, change in run.cluster.what_ifs.items()]
        documents = [{"name": name, **_describe(now, then, plan, follows)} for name, then, plan in found]
        as_json = json.dumps({"window": str(window), "what_ifs": documents}, indent=2) + "\n"
        sys.stdout.write(as_json if args.json else _says_window(window) + _as_table(documents))
        return 0
    then, plan = work_out(_read_change(args))
    if args.plan is not None:
        moves = ((move.topic, move.partition, move.new_replicas) for move in plan.moves)
        args.plan.write_text(format_reassignment(moves) + "\n", encoding="utf-8")
    document = {"window": str(window), **_describe(now, then, plan, follows)}
    text = json.dumps(document, indent=2) + "\n"
    sys.stdout.write(text if args.json else _says_window(window) + _as_text(document, then, plan, target))
    return 0


def _load_newest(run: RunContext) -> tuple[TimeWindow, PlacedCluster, tuple[int, ...]]:
    """The newest judged window, its cluster, and the brokers above their share that load follows."""
    every = TimeWindow(0, run.now_ms)
    asker = Asker(warehouse=run.warehouse, cluster=run.cluster_name, period=every, window=every)
    start_ms = asker.find_newest()
    if start_ms is None:
        raise NothingUsableError(f"no window of cluster {run.cluster_name} was judged; `partition-health run` does it")
    window = run.window_at(start_ms)
    partitions, brokers = load_placement(run, window)
    cluster = PlacedCluster(partitions=tuple(partitions), brokers=tuple(brokers))
    follows = tuple(
        sorted(
            row["broker_id"]
            for row in run.rows(BROKER_SHARE, (window,))
            if (row["share_ratio"] or 0.0) >= run.cluster.gate.of_topic(row["excess_topic"] or "").resolves_at
            and follows_broker(row)
        )
    )
    return window, (pin_following(cluster, find_keyed(run, window)) if follows else cluster), follows


def _says_window(window: TimeWindow) -> str:
    return f"Traffic and state of window {window}, the newest that was judged.\n\n"


def _read_change(args: argparse.Namespace) -> ClusterChange:
    return ClusterChange(
        added=tuple(args.add_broker),
        lost=frozenset(args.lose_broker),
        lost_racks=frozenset(args.lose_rack),
        sizes=dict(args.resize_broker),
        growth=dict(args.grow),
        replicas=_read_replicas(args.reassignment),
    )


def _change_of(given: WhatIf) -> ClusterChange:
    return ClusterChange(
        added=tuple(PlacementBroker(broker_id=one, rack=rack or None) for one, rack in given.add_brokers.items()),
        lost=frozenset(given.lose_brokers),
        lost_racks=frozenset(given.lose_racks),
        sizes=given.resize_brokers,
        growth=given.grow,
        replicas=_read_replicas(given.reassignment),
    )


def _read_replicas(path: Path | None) -> dict[tuple[str, int], tuple[int, ...]]:
    return {} if path is None else parse_reassignment(path.read_text(encoding="utf-8"), path=path)


def _describe(
    now: PlacedCluster, then: PlacedCluster, plan: ReassignmentPlan, follows: tuple[int, ...]
) -> dict[str, Any]:
    """What changes; what nobody can predict is None: partitions whose load follows a broker get another leader."""
    is_known = is_predicted(now, then)
    loads, ratios = (now.loads, then.loads if is_known else {}), (now.ratios, then.ratios if is_known else {})
    return {
        "load_follows": list(follows),
        "brokers": [
            {
                "broker_id": broker_id,
                "size_bytes": loads[0].get(broker_id),
                "share_ratio": ratios[0].get(broker_id),
                "changed_size_bytes": loads[1].get(broker_id),
                "changed_share_ratio": ratios[1].get(broker_id),
                "planned_share_ratio": plan.ratios.get(broker_id) if is_known else None,
            }
            for broker_id in sorted({*now.ratios, *then.ratios})
        ],
        "head_room_ratio": _head_room(now),
        "changed_head_room_ratio": _head_room(then) if is_known else None,
        "moved_bytes": then.moved_bytes,
        "leaderless": [f"{one.topic}-{one.partition}" for one in then.leaderless],
        "plan": {
            "kind": plan.kind,
            "moved_partition_count": len(plan.moves),
            "moved_bytes": plan.moved_bytes,
            "peak_ratio": plan.peak_ratio if is_known else None,
        },
    }


def _head_room(cluster: PlacedCluster) -> float:
    """Returns the part of all brokers' capacity in use when the fullest broker is full."""
    return min(1.0, 1 / (max(cluster.ratios.values()) or 1.0))


def _as_table(documents: list[dict[str, Any]]) -> str:
    """A row for each what-if of the configuration."""
    rows = [
        (
            format_name(one["name"]),
            _known(_highest(one), format_ratio),
            format_percent(one["head_room_ratio"]),
            _known(one["changed_head_room_ratio"], format_percent),
            format_bytes(one["moved_bytes"]),
            f"{len(one['leaderless']):,}",
            format_bytes(one["plan"]["moved_bytes"]),
            _known(one["plan"]["peak_ratio"], format_ratio),
        )
        for one in documents
    ]
    head = ("what if", "highest", "head-room now", "then", "copied", "leaderless", "the plan copies", "highest")
    return format_table(head, rows, right=frozenset(range(1, len(head)))) + "\n"


def _highest(document: dict[str, Any]) -> float | None:
    """The highest share ratio after the change; None where it is not predicted."""
    return max(
        (row["changed_share_ratio"] for row in document["brokers"] if row["changed_share_ratio"] is not None),
        default=None,
    )


def _known(value: float | None, write: Callable[[Any], str]) -> str:
    return "-" if value is None else write(value)


def _as_text(document: dict[str, Any], then: PlacedCluster, plan: ReassignmentPlan, target: float) -> str:
    shown: dict[str, Callable[[Any], str]] = {
        "size_bytes": format_bytes,
        "share_ratio": format_ratio,
        "changed_size_bytes": format_bytes,
        "changed_share_ratio": format_ratio,
        "planned_share_ratio": format_ratio,
    }
    rows = [
        (
            f"broker {row['broker_id']}",
            *(_known(row[name], write) for name, write in shown.items()),
        )
        for row in document["brokers"]
    ]
    head = ("", "bytes now", "ratio", "bytes then", "ratio", "by plan")
    before = format_percent(document["head_room_ratio"])
    is_known = document["changed_head_room_ratio"] is not None
    after = f"{format_percent(document['changed_head_room_ratio'])} then" if is_known else "not predicted then"
    lines = [f"Head-room: {before} of all brokers' capacity now, {after}."]
    if document["load_follows"]:
        lines.append(_describe_following(document["load_follows"], then))
    if then.moved_bytes:
        lines.append(f"The reassignment copies {format_bytes(then.moved_bytes)}.")
    if then.leaderless:
        lines.append(f"Nobody leads: {format_name(describe_places(then.leaderless), 600)}.")
    hurt = {(one.topic, one.partition) for one in then.hurt} - {(one.topic, one.partition) for one in then.leaderless}
    if hurt:
        stay = len(hurt - {(move.topic, move.partition) for move in plan.moves})
        left = f", {stay:,} of them stay: no live broker may or can take them" if stay else ""
        lines.append(f"Brokers that are gone hold replicas of {len(hurt):,} partitions; the plan replaces them{left}.")
    doubt = next((broker.doubt for broker in then.brokers if broker.doubt), "")
    if doubt:
        lines.append(f"Replicas stay where they are, racks are not known for sure: {format_name(doubt, 300)}.")
    copies = format_bytes(plan.moved_bytes) if plan.moved_bytes else "nothing"
    if not plan.moves:
        even = max(then.ratios.values()) <= target
        helps = "No move of leaders or replicas would help."
        if document["load_follows"]:
            helps = "There is no plan whose effect can be predicted."
        lines.append("Nothing needs to move." if even and is_known else helps)
    else:
        highest = _known(document["plan"]["peak_ratio"], format_ratio)
        lines.append(
            f"The plan moves {len(plan.moves)} partitions and copies {copies}; "
            + (f"the highest broker is then at {highest}" if is_known else "what it brings is not predicted")
            + f", the aim is {format_ratio(target)}."
        )
    return format_table(head, rows, right=frozenset(range(1, len(head)))) + "\n" + "\n".join(lines) + "\n"


def _describe_following(brokers: list[int], cluster: PlacedCluster) -> str:
    """Why partitions stay where they are."""
    topics = sorted({one.topic for one in cluster.partitions if one.is_pinned and one.load_bytes})
    shown = ", ".join(format_name(topic) for topic in topics[:_MOST_NAMED])
    more = f" and {len(topics) - _MOST_NAMED} more" if len(topics) > _MOST_NAMED else ""
    names = " and ".join(str(broker_id) for broker_id in brokers)
    return (
        f"Load follows broker {names}: most of what it has above its share comes with the broker, not with partitions. What "
        f"topics without keys ({shown}{more}) would bring to other leaders is not predicted, so the plan leaves them where "
        "they are."
    )
