"""Charts of topics, partitions and keys, and of the replay: observed, back-test and candidates side by side, and what to do."""

import math
from collections import Counter, defaultdict
from collections.abc import Callable
from functools import partial
from typing import Any

from pipeline.model.number_text import format_bytes, format_ms, format_name, format_percent, format_points, format_ratio
from pipeline.model.promise import Trust
from pipeline.report.answers import (
    UNKNOWN,
    Answer,
    AnswerRow,
    Chart,
    ChartColumn,
    Point,
    Rows,
    Scale,
    Words,
    format_known,
    format_words,
)
from pipeline.report.brokers import format_share

_STEPS = 8
_SHOWN_TOPICS = 15
short_name = partial(format_name, limit=60)
TOPIC = Words("topic", "topic", short_name)
PARTITION = Words("partition", lambda row: f"{short_name(row['topic'])}-{row['partition']}", str)


def topics_of(broker: int, expected_share: float) -> Chart:
    def select(rows: Rows) -> Rows:
        total = sum(row["size_bytes"] for row in rows)
        drawn = [row | {"points": row["excess_bytes"] / total, "place": at} for at, row in enumerate(rows) if total]
        return drawn if len(drawn) <= _SHOWN_TOPICS else (*drawn[: _SHOWN_TOPICS - 5], *drawn[-5:])

    def say(rows: Rows) -> str:
        left_out = rows[-1]["place"] + 1 - len(rows)
        between = f" {left_out} topics in between are in the numbers." if left_out else ""
        what = "Bytes of each topic on this broker above the broker's fair part, in percentage points of the cluster's bytes"
        return f"{what}; all topics together make its excess.{between}"

    return Chart(
        name="topics", says=say, select=select, title=f"Topics that make broker {broker} hotter or cooler",
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


def partitions_of(broker: int) -> Chart:
    signed = partial(format_bytes, sign=True)
    return Chart(
        name="hot_partitions", values={"broker": f"{broker}"}, key="topic",
        title=f"Hottest partitions of broker {broker}",
        says="The last three columns add up to the bytes above the mean of the topic's partitions, where these were split.",
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
    title = "Where the bytes are: topic by partition"
    counts = f"{len(answer.rows):,} partitions of {len(rows):,} topics"
    says = f"{counts}, the topics first that add most to broker {broker}, whose {led:,} partitions are framed."
    says += " The number in a cell is the leader."
    return {"answer": answer, "title": title, "says": says, "rows": rows, "steps": steps}


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


HOT_KEYS = Chart(
    name="hot_keys", title="Heaviest keys",
    says=lambda rows: (
        f"{heavy} of them have more bytes than a partition's fair part of their topic: no hash can spread them."
        if (heavy := sum(row["is_heavy"] for row in rows))
        else "None of them has more bytes than a partition's fair part of its topic."
    ),
    columns=(
        Words("key", "key", str),
        ChartColumn("of its topic", "topic_ratio", format_share),
        ChartColumn("bytes", "size_bytes", format_bytes),
        PARTITION,
        ChartColumn("leader", "leader_id"),
    ),
    marks=(Point(lambda row: "hot" if row["is_heavy"] else "bar", "topic_ratio", start=0.0),),
    legend=(("hot", "more than a partition's fair part: heavy"), ("bar", "part of its topic's bytes")), is_marked="is_heavy",
    key="topic",
)  # fmt: skip  # a table: short fields share a line


def ranged(title: str, name: str, write: Callable[[float], str]) -> ChartColumn:
    """A column of predictions with their ranges, the range where it is wider than the digits shown."""

    def write_row(row: AnswerRow) -> str | None:
        value, low, high = row[name], row[f"{name}_low"], row[f"{name}_high"]
        if value is None or low is None or high is None or write(low) == write(high):
            return None if value is None else write(value)
        parts = write(value), f"[{write(low)} to {write(high)}]"  # a line breaks only between the two
        return " ".join(part.replace(" ", "\N{NO-BREAK SPACE}") for part in parts)

    return ChartColumn(title, write_row)


def _if_trusted(trust: str, column: ChartColumn) -> ChartColumn:
    return ChartColumn(column.title, lambda r: column.text(r) if r[trust] in {None, Trust.TRUSTED} else "unknown", str)


def _prediction(name: str, observed: str, write: Callable[[float], str]) -> tuple[Point, ...]:
    return (
        Point("range", f"{name}_high", legend="range: nine real runs of ten lie in it", start=f"{name}_low"),
        Point("observed", observed, write, legend="observed"),
        Point("dot", name, write, "predicted", legend="predicted"),
    )


EVEN = Point("fair", 1.0, legend="even: 1.00x")


def _plain(name: str, row: AnswerRow) -> str:
    return str(row[name]).replace("`", "")


def yes_or_no(value: object) -> str:
    return "yes" if value else "no"


ADVICE = Chart(
    name="advice", title="What to do, and the effect of each action",
    says="Share ratio that the broker would have had in this window after each action; best first.",
    columns=(
        Words("action", lambda row: f"{row['rank']}. {_plain('title', row)}", str),
        ranged("ratio after", "predicted_ratio", format_ratio),
        Words("enough", "is_enough", yes_or_no),
        ChartColumn("copies", "moved_bytes", lambda moved: format_bytes(moved) if moved else "nothing"),
    ),
    marks=(EVEN, *_prediction("predicted_ratio", "share_ratio", format_ratio)),
    is_marked=lambda row: row["is_enough"] and row["rank"] == 1, key="topic",
    group=lambda row: f"{row['subject']}, now at {format_ratio(row['share_ratio'])}", note=partial(_plain, "text"),
)  # fmt: skip  # a table: short fields share a line


def _say_promises(rows: Rows) -> str:
    counts = Counter(row["outcome"] for row in rows)
    return (
        f"{counts['kept']} of {counts['kept'] + counts['broken']} promises that can be judged were kept; "
        f"{counts['not_carried_out']} were not carried out. Promised: share over fair share on the traffic of the window "
        "that judges, volumes and other topics as they are."
    )


KEPT_PROMISES = Chart(
    name="promises", title="Results of earlier advice", says=_say_promises,
    columns=(
        Words("action", lambda row: f"{row['subject']}: {_plain('title', row)}", str),
        ranged("promised", "corrected_ratio", format_ratio),
        ChartColumn("without", "without_ratio", format_ratio),
        ChartColumn("it is", "actual_ratio", format_ratio),
        Words("outcome", "outcome", format_words),
        Words("its kind so far", lambda row: f"{row['kept_count']} kept, {row['broken_count']} broken"),
    ),
    marks=(
        EVEN,
        *_prediction("corrected_ratio", "actual_ratio", format_ratio),
        Point("limit", "without_ratio", format_ratio, "without", legend="without the advice"),
    ),
    is_marked=lambda row: row["outcome"] == "broken", key="topic", note="reason",
)  # fmt: skip  # a table: short fields share a line


def _say_replay(rows: Rows) -> str:
    baselines = [row for row in rows if row["is_baseline"]]
    return (
        f"Bytes of a topic's highest broker divided by the mean broker's, for the {len(baselines)} topics with most bytes. The current setup is "
        f"predicted as well: that back-test can be trusted for {sum(row['trust'] == Trust.TRUSTED for row in baselines)} of "
        f"{len(baselines)} topics."
    )


REPLAY = Chart(
    name="replay", title="Observed, back-test, candidates", says=_say_replay,
    scale=lambda values: Scale(1.0, max([1.02 * value for value in values] + [1.1])),
    columns=(
        Words("candidate", lambda row: "back-test" if row["is_baseline"] else short_name(row["candidate"])),
        ranged("highest broker", "peak", format_ratio),
        ChartColumn("keys moved", "keys_moved_ratio", format_percent),
        _if_trusted("latency_trust", ranged("median latency", "latency_p50_ms", format_ms)),
        _if_trusted("batches_trust", ChartColumn("records per batch", "records_per_batch", "{:.1f}".format)),
        Words("trust", "trust", lambda trust: yes_or_no(trust == Trust.TRUSTED)),
    ),
    marks=(*_prediction("peak", "observed_peak", format_ratio),), is_marked="is_baseline", key="topic",
    group=lambda row: f"{short_name(row['topic'])}: observed {format_known(row['observed_peak'], format_ratio)}",
    note=lambda row: row["trust"] if row["is_baseline"] and row["trust"] != Trust.TRUSTED else None,
)  # fmt: skip  # a table: short fields share a line
BACK_TESTS = Chart(
    name="back_tests", title="Can these predictions be trusted?",
    says=lambda rows: (
        f"Back-tests of {sum(bool(row['is_trusted']) for row in rows)} of {len(rows)} topics hold: the share of the broker "
        "predicted worst is within its bar."
    ),
    select=lambda rows: [row for row in rows if row["observed_share"] is not None and row["predicted_share"] is not None],
    columns=(
        TOPIC,
        ranged("predicted", "predicted_share", format_share),
        ChartColumn("observed", "observed_share", format_share),
        ChartColumn("error, points", "share_error_points", "{:.1f}".format),
        ChartColumn("may be", "share_bar_points", "{:.1f}".format),
        Words("current partitioner", lambda row: f"{row['partitioner'] or 'unknown'} ({row['partitioner_source']})"),
        Words("trusted", "is_trusted", yes_or_no),
    ),
    marks=_prediction("predicted_share", "observed_share", format_share), key="topic",
    note=lambda row: None if row["is_trusted"] else row["trust"],
)  # fmt: skip  # a table: short fields share a line
