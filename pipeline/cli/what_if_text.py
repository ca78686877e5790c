"""What `what-if` prints for people."""

from collections.abc import Callable
from typing import Any

from pipeline.advice.what_ifs import Foreseen, PlacedCluster, describe_places
from pipeline.cli.terminal import format_table
from pipeline.measures.reassignment import BEST_FOUND
from pipeline.model.number_text import format_bytes, format_name, format_percent, format_ratio, join_names

_MOST_NAMED = 5


def says_window(window: object) -> str:
    return f"Traffic and state of window {window}, the newest that was judged.\n\n"


def as_table(documents: list[dict[str, Any]]) -> str:
    rows = [
        (
            format_name(one["name"]),
            _known(max(highest, default=None), format_ratio),
            format_percent(one["head_room_ratio"]),
            _known(one["changed_head_room_ratio"], format_percent),
            format_bytes(one["moved_bytes"]),
            f"{len(one['leaderless']):,}",
            format_bytes(one["plan"]["moved_bytes"]),
            _known(one["plan"]["peak_ratio"], format_ratio),
        )
        for one in documents
        for highest in [[b["changed_share_ratio"] for b in one["brokers"] if b["changed_share_ratio"] is not None]]
    ]
    head = ("what if", "highest", "usable now", "then", "copied", "leaderless", "the plan copies", "highest")
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
    before = format_percent(document["head_room_ratio"])
    is_known = document["changed_head_room_ratio"] is not None
    after = f"{format_percent(document['changed_head_room_ratio'])} then" if is_known else "not predicted then"
    lines = [f"Usable: {before} of all brokers' capacity now, {after}."]
    if document["load_follows"]:
        lines.append(_describe_following(document, then))
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
    shown = join_names([*map(format_name, topics)], _MOST_NAMED)
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
