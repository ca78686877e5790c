"""Charts of topics: what adds to a broker's excess, the heat map of partitions, the heaviest keys."""

import math
from collections import defaultdict
from dataclasses import dataclass

from pipeline.model.number_text import format_bytes, format_name, format_percent, format_points, format_ratio
from pipeline.report.answers import Answer, AnswerRow
from pipeline.report.brokers import NONE, known
from pipeline.report.marks import ChartRow, Legend, Scale, TableChart, scale_over

NAME_LENGTH = 60
_STEPS = 8
_SHOWN_TOPICS = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatCell:
    """A partition: how dark, what it stands for, whether the broker concerned leads it."""

    step: int
    leader: str
    title: str
    is_own: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatRow:
    """A topic: its partitions in order."""

    topic: str
    key: str
    points: str
    size: str
    cells: tuple[HeatCell, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatMap:
    """Partitions by topic, those topics first that add most to the excess of a broker."""

    answer: Answer
    title: str
    says: str
    broker: int
    rows: tuple[HeatRow, ...]
    steps: tuple[str, ...]


def draw_topics(answer: Answer, broker: int) -> TableChart | None:
    """Draws what each topic adds to the broker's excess or takes from it; None without traffic."""
    total = sum(row["size_bytes"] for row in answer.rows)
    if not total:
        return None
    both = answer.rows if len(answer.rows) <= _SHOWN_TOPICS else (*answer.rows[: _SHOWN_TOPICS - 5], *answer.rows[-5:])
    shares = [row["excess_bytes"] / total for row in both]
    scale = Scale(min([*shares, 0.0]), max([*shares, 0.0]) * 1.04)
    rows = [
        ChartRow(
            cells=(
                format_name(row["topic"], NAME_LENGTH),
                format_points(share),
                format_bytes(row["own_bytes"]),
                format_bytes(row["size_bytes"]),
            ),
            marks=(scale.area("hot" if share >= 0 else "minus", 0.0, share), scale.point("fair", 0.0)),
            key=row["topic"],
        )
        for row, share in zip(both, shares, strict=True)
    ]
    rest = len(answer.rows) - len(both)
    return TableChart(
        answer=answer,
        title=f"Topics that make broker {broker} what it is",
        says="What a topic's bytes on this broker are above its fair part, in points of the cluster's bytes; over all topics "
        "they sum to its excess." + (f" {rest} topics in between are in the numbers." if rest else ""),
        columns=("topic", "points", "on this broker", "in the cluster"),
        rows=rows,
        legend=(Legend(kind="hot", text="adds"), Legend(kind="minus", text="takes away")),
    )


def draw_heat_map(answer: Answer, topics: Answer, broker: int) -> HeatMap:
    """The map: colour by bytes, in the order in which `topics` adds to the broker's excess."""
    by_topic: dict[str, list[AnswerRow]] = defaultdict(list)
    for row in answer.rows:
        by_topic[row["topic"]].append(row)
    total = sum(row["size_bytes"] for row in topics.rows)
    excess = {row["topic"]: row["excess_bytes"] for row in topics.rows}
    order = sorted(by_topic, key=lambda topic: (-excess.get(topic, 0.0), topic))
    largest = max((row["size_bytes"] for row in answer.rows), default=0) or 1
    rows = tuple(
        HeatRow(
            topic=format_name(topic, NAME_LENGTH),
            key=topic,
            points=format_points(excess.get(topic, 0.0) / total) if total else NONE,
            size=format_bytes(sum(row["size_bytes"] for row in by_topic[topic])),
            cells=tuple(_cell(row, largest, broker) for row in by_topic[topic]),
        )
        for topic in order
    )
    # a square root: partitions of a hundredth of the largest still differ from empty ones
    steps = tuple(format_bytes(largest * (step / _STEPS) ** 2) for step in range(1, _STEPS + 1))
    led = sum(row["leader_id"] == broker for row in answer.rows)
    return HeatMap(
        answer=answer,
        title="Where the bytes are: topic by partition",
        says=f"{len(answer.rows):,} partitions of {len(rows):,} topics, the topics first that add most to broker {broker}, "
        f"whose {led:,} partitions are framed. The number in a cell is the leader.",
        broker=broker,
        rows=rows,
        steps=steps,
    )


def _cell(row: AnswerRow, largest: int, broker: int) -> HeatCell:
    size = row["size_bytes"]
    ratio = "" if row["ratio_to_mean"] is None else f", {format_ratio(row['ratio_to_mean'])} the topic's mean"
    leader = "no leader" if row["leader_id"] < 0 else f"leader {row['leader_id']}"
    return HeatCell(
        step=0 if size <= 0 else max(1, math.ceil(_STEPS * math.sqrt(size / largest))),
        leader="" if row["leader_id"] < 0 else str(row["leader_id"]),
        title=f"{format_name(row['topic'], NAME_LENGTH)}-{row['partition']}: {format_bytes(size)}, {leader}{ratio}",
        is_own=row["leader_id"] == broker,
    )


def draw_hot_keys(answer: Answer) -> TableChart | None:
    """The heaviest keys by their pseudonyms; None where keys were not read."""
    if not answer.rows:
        return None
    heavy = [row for row in answer.rows if row["is_heavy"]]
    scale = scale_over([row["topic_ratio"] for row in answer.rows])
    return TableChart(
        answer=answer,
        title="Heaviest keys",
        says=f"{len(heavy)} of them hold more than a partition's part of their topic: no hash spreads these."
        if heavy
        else "None of them holds more than a partition's part of its topic.",
        columns=("key", "of its topic", "bytes", "partition", "leader"),
        texts=frozenset({3}),
        rows=[
            ChartRow(
                cells=(
                    row["key"],
                    format_percent(row["topic_ratio"], 1),
                    format_bytes(row["size_bytes"]),
                    f"{format_name(row['topic'], NAME_LENGTH)}-{row['partition']}",
                    known(row["leader_id"], lambda leader: f"{leader}"),
                ),
                marks=(scale.area("hot" if row["is_heavy"] else "bar", 0, row["topic_ratio"]),),
                is_marked=row["is_heavy"],
                key=row["topic"],
            )
            for row in answer.rows
        ],
        legend=(
            Legend(kind="hot", text="more than a partition's part: heavy"),
            Legend(kind="bar", text="part of its topic's bytes"),
        ),
    )
