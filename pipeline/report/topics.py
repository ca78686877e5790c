"""Charts of topics: what adds to a broker's excess, the heat map of partitions, the heaviest keys."""

import math
from collections import defaultdict
from functools import partial
from typing import Any

from pipeline.model.number_text import format_bytes, format_name, format_points, format_ratio
from pipeline.report import queries
from pipeline.report.answers import UNKNOWN, Answer, AnswerRow, ChartColumn, Point, Rows, TableChart, Words
from pipeline.report.brokers import format_share

_STEPS = 8
_SHOWN_TOPICS = 15
short_name = partial(format_name, limit=60)
TOPIC = Words("topic", "topic", short_name)
PARTITION = Words("partition", lambda row: f"{short_name(row['topic'])}-{row['partition']}", str)


def topics_of(broker: int, expected_share: float) -> TableChart:
    def select(rows: Rows) -> Rows:
        total = sum(row["size_bytes"] for row in rows)
        drawn = [row | {"points": row["excess_bytes"] / total, "place": at} for at, row in enumerate(rows) if total]
        return drawn if len(drawn) <= _SHOWN_TOPICS else (*drawn[: _SHOWN_TOPICS - 5], *drawn[-5:])

    def say(rows: Rows) -> str:
        left_out = rows[-1]["place"] + 1 - len(rows)
        return (
            "What a topic's bytes on this broker are above its fair part, in points of the cluster's bytes; over all topics "
            "they sum to its excess." + (f" {left_out} topics in between are in the numbers." if left_out else "")
        )

    return TableChart(
        name="topics", sql=queries.TOPICS, says=say, select=select, title=f"Topics that make broker {broker} what it is",
        values={"broker": f"{broker}", "expected_share": f"{expected_share!r}"},
        columns=(
            TOPIC,
            ChartColumn("points", "points", format_points),
            ChartColumn("on this broker", "own_bytes", format_bytes),
            ChartColumn("in the cluster", "size_bytes", format_bytes),
        ),
        marks=(Point(lambda row: "hot" if row["points"] >= 0 else "minus", "points", start=0.0), Point("fair", 0.0)),
        legend=(("hot", "adds"), ("minus", "takes away")), key="topic",
    )  # fmt: skip  # a table: short fields share a line


def partitions_of(broker: int) -> TableChart:
    """The partitions that a broker leads with most bytes above their topic's mean, and what makes them so."""
    signed = partial(format_bytes, sign=True)
    return TableChart(
        name="hot_partitions", sql=queries.HOT_PARTITIONS, values={"broker": f"{broker}"}, key="topic",
        title=f"Hottest partitions of broker {broker}",
        says="What is above the mean of a topic's partitions is the sum of the last three, where it was split.",
        columns=(
            PARTITION,
            ChartColumn("over mean", "ratio_to_mean", format_ratio),
            ChartColumn("bytes", "size_bytes", format_bytes),
            ChartColumn("heavy keys", "heavy_keys_bytes", signed),
            ChartColumn("hash luck", "hash_luck_bytes", signed),
            ChartColumn("neither", "remainder_bytes", signed),
        ),
        marks=(Point("bar", "ratio_to_mean", start=0.0, legend="bytes over the mean"), Point("fair", 1.0)),
    )  # fmt: skip  # a table: short fields share a line


def draw_heat_map(answer: Answer, topics: Answer, broker: int) -> dict[str, Any]:
    """The map as the page lays it out: colour by bytes, in the order in which `topics` adds to the broker's excess."""
    by_topic: dict[str, list[AnswerRow]] = defaultdict(list)
    for row in answer.rows:
        by_topic[row["topic"]].append(row)
    total = sum(row["size_bytes"] for row in topics.rows)
    excess = {row["topic"]: row["excess_bytes"] for row in topics.rows}
    order = sorted(by_topic, key=lambda topic: (-excess.get(topic, 0.0), topic))
    largest = max((row["size_bytes"] for row in answer.rows), default=0) or 1
    rows = [
        {
            "topic": short_name(topic),
            "key": topic,
            "points": format_points(excess.get(topic, 0.0) / total) if total else UNKNOWN,
            "size": format_bytes(sum(row["size_bytes"] for row in by_topic[topic])),
            "cells": [_cell(row, largest, broker) for row in by_topic[topic]],
        }
        for topic in order
    ]
    # a square root: partitions of a hundredth of the largest still differ from empty ones
    steps = [format_bytes(largest * (step / _STEPS) ** 2) for step in range(1, _STEPS + 1)]
    led = sum(row["leader_id"] == broker for row in answer.rows)
    return {
        "answer": answer,
        "title": "Where the bytes are: topic by partition",
        "says": f"{len(answer.rows):,} partitions of {len(rows):,} topics, the topics first that add most to broker {broker}, "
        f"whose {led:,} partitions are framed. The number in a cell is the leader.",
        "rows": rows,
        "steps": steps,
    }


def _cell(row: AnswerRow, largest: int, broker: int) -> dict[str, Any]:
    size = row["size_bytes"]
    ratio = "" if row["ratio_to_mean"] is None else f", {format_ratio(row['ratio_to_mean'])} the topic's mean"
    leader = "no leader" if row["leader_id"] < 0 else f"leader {row['leader_id']}"
    return {
        "step": 0 if size <= 0 else max(1, math.ceil(_STEPS * math.sqrt(size / largest))),
        "leader": "" if row["leader_id"] < 0 else str(row["leader_id"]),
        "title": f"{PARTITION.text(row)}: {format_bytes(size)}, {leader}{ratio}",
        "is_own": row["leader_id"] == broker,
    }


HOT_KEYS = TableChart(
    name="hot_keys", sql=queries.HOT_KEYS, title="Heaviest keys",
    says=lambda rows: (
        f"{heavy} of them hold more than a partition's part of their topic: no hash spreads these."
        if (heavy := sum(row["is_heavy"] for row in rows))
        else "None of them holds more than a partition's part of its topic."
    ),
    columns=(
        Words("key", "key", str),
        ChartColumn("of its topic", "topic_ratio", format_share),
        ChartColumn("bytes", "size_bytes", format_bytes),
        PARTITION,
        ChartColumn("leader", "leader_id"),
    ),
    marks=(Point(lambda row: "hot" if row["is_heavy"] else "bar", "topic_ratio", start=0.0),),
    legend=(("hot", "more than a partition's part: heavy"), ("bar", "part of its topic's bytes")), is_marked="is_heavy",
    key="topic",
)  # fmt: skip  # a table: short fields share a line
