"""Charts of brokers: shares, why one is hot, latency, room."""

from collections.abc import Callable, Sequence
from itertools import pairwise

from pipeline.model.number_text import (
    format_bytes,
    format_count,
    format_ms,
    format_name,
    format_percent,
    format_points,
    format_ratio,
)
from pipeline.report.answers import Answer, AnswerRow
from pipeline.report.marks import ChartRow, Legend, Mark, MarkKind, Scale, TableChart, scale_over

_MINUS = "\N{MINUS SIGN}"
_SHOWN_BROKERS = 30
NONE = "\N{EN DASH}"
_TERMS = (("leaders_term", "leaders"), ("topic_mix_term", "topic mix"), ("partition_skew_term", "partition skew"))
_PARTS = (("heavy_keys_term", "heavy keys"), ("hash_luck_term", "hash luck"), ("remainder_term", "neither"))


def known(value: float | None, write: Callable[[float], str]) -> str:
    """A number as text, a dash where it is not known."""
    return NONE if value is None else write(value)


def draw_shares(answer: Answer) -> TableChart:
    """Each broker's share with its fair share, its limit, and what chance reaches."""
    rows = answer.rows[:_SHOWN_BROKERS]
    scale = scale_over(
        [row["share"] for row in rows] + [row["expected_share"] * (row["limit_value"] or 1.0) for row in rows]
    )
    above = [row for row in rows if row["limit_value"] and (row["share_ratio"] or 0.0) >= row["limit_value"]]
    failing = [row for row in rows if row["verdict"] == "fail"]
    if failing:
        says = f"{_names(failing)} above the limit, long enough to fail."
    elif above:
        says = f"{_names(above)} above the limit, not yet in enough windows to fail, or not beyond chance."
    else:
        says = "Every broker is below its limit."
    return TableChart(
        answer=answer,
        title="Brokers' shares of the bytes",
        says=says + _left_out(answer),
        columns=("broker", "share", "ratio", "chance", "verdict", "bytes in"),
        texts=frozenset({4}),
        rows=[_share_row(row, scale, is_hot=row in above) for row in rows],
        legend=(
            Legend(kind="bar", text="share"),
            Legend(kind="fair", text="fair share"),
            Legend(kind="limit", text="limit"),
            Legend(kind="band", text="what chance alone reaches once in 1,000 windows"),
        ),
    )


def _names(rows: list[AnswerRow]) -> str:
    names = ", ".join(str(row["broker_id"]) for row in rows[:6]) + (" and others" if len(rows) > 6 else "")
    return f"Broker {names} is" if len(rows) == 1 else f"Brokers {names} are"


def _left_out(answer: Answer) -> str:
    rest = len(answer.rows) - _SHOWN_BROKERS
    return f" The {_SHOWN_BROKERS} highest are drawn; {rest} more are in the numbers." if rest > 0 else ""


def _share_row(row: AnswerRow, scale: Scale, *, is_hot: bool) -> ChartRow:
    share, fair = row["share"], row["expected_share"]
    marks = []
    if row["chance_ratio"] is not None:
        marks.append(
            scale.area("band", fair, fair * row["chance_ratio"], f"chance reaches {format_ratio(row['chance_ratio'])}")
        )
    if share is not None:
        marks.append(scale.area("hot" if is_hot else "bar", 0, share, f"share {format_percent(share, 1)}"))
    marks.append(scale.point("fair", fair, f"fair share {format_percent(fair, 1)}"))
    if row["limit_value"] is not None:
        marks.append(scale.point("limit", fair * row["limit_value"], f"limit {format_ratio(row['limit_value'])}"))
    return ChartRow(
        cells=(
            f"broker {row['broker_id']}",
            known(share, lambda value: format_percent(value, 1)),
            known(row["share_ratio"], format_ratio),
            known(row["chance_ratio"], format_ratio),
            (row["verdict"] or NONE).replace("_", " "),
            format_bytes(row["size_bytes"]),
        ),
        marks=tuple(marks),
        is_marked=is_hot,
    )


def draw_causes(answer: Answer, broker: int) -> TableChart | None:
    """How a broker comes from its fair share to its share, term by term; None where it was not split."""
    row = next((row for row in answer.rows if row["broker_id"] == broker), None)
    if row is None or row["leaders_term"] is None:
        return None
    fair, share = row["expected_share"], row["share"]
    steps = [fair]
    for name, _ in _TERMS:
        steps.append(steps[-1] + row[name])
    parts = [steps[-2]]
    for name, _ in _PARTS:
        if row[name] is not None:
            parts.append(parts[-1] + row[name])
    scale = scale_over([*steps, *parts, share])
    rows = [ChartRow(cells=("fair share", format_percent(fair, 1)), marks=(scale.area("bar", 0, fair),))]
    for (name, label), start in zip(_TERMS, steps, strict=False):
        rows.append(_step_row(label, row[name], start, scale))
    if len(parts) == len(_PARTS) + 1:
        for (name, label), start in zip(_PARTS, parts, strict=False):
            rows.append(_step_row(f"· {label}", row[name], start, scale, is_part=True))
    rows.append(
        ChartRow(cells=("its share", format_percent(share, 1)), marks=(scale.area("bar", 0, share),), is_marked=True)
    )
    return TableChart(
        answer=answer,
        title=f"Why broker {row['broker_id']} is {'above' if share >= fair else 'below'} its fair share",
        says=f"{_sum_up(steps)} % of the bytes: an excess of {format_points(share - fair)} points, split exactly into "
        "leaders, topic mix and partition skew.",
        columns=("term", "points"),
        rows=rows,
        legend=(
            Legend(kind="hot", text="adds"),
            Legend(kind="minus", text="takes away"),
            Legend(kind="part", text="part of partition skew"),
        ),
    )


def _sum_up(steps: Sequence[float]) -> str:
    """The sum from the first step to the last; rounded so that what is written adds up.

    >>> _sum_up([1 / 3, 1 / 3, 0.3386]).replace("\N{MINUS SIGN}", "-")
    '33.33 + 0.00 + 0.53 = 33.86'
    """
    shown = [round(10_000 * step) for step in steps]
    terms = [after - before for before, after in pairwise(shown)]
    written = "".join(f" {_MINUS if term < 0 else '+'} {abs(term) / 100:.2f}" for term in terms)
    return f"{shown[0] / 100:.2f}{written} = {shown[-1] / 100:.2f}"


def _step_row(label: str, term: float, start: float, scale: Scale, *, is_part: bool = False) -> ChartRow:
    kind: MarkKind = "part" if is_part else "hot" if term >= 0 else "minus"
    return ChartRow(
        cells=(label, format_points(term)),
        marks=(scale.area(kind, start, start + term, f"{label} {format_points(term)} points"),),
    )


def draw_latency(answer: Answer) -> TableChart | None:
    """How long producers wait for each broker, next to its peers and to its own history; None where nobody reports it."""
    rows = [row for row in answer.rows if row["request_latency_avg_ms"] is not None][:_SHOWN_BROKERS]
    if not rows:
        return None
    scale = scale_over([*(row["request_latency_avg_ms"] for row in rows), *(_over(row, "peers") for row in rows)])
    slowest = rows[0]
    says = f"Producers wait {format_ms(slowest['request_latency_avg_ms'])} on average for broker {slowest['broker_id']}"
    if slowest["ratio_to_peers"]:
        says += f", {format_ratio(slowest['ratio_to_peers'])} what they wait for its peers"
    return TableChart(
        answer=answer,
        title="How long producers wait for each broker",
        says=f"{says}.",
        columns=("broker", "mean", "longest", "to peers", "to its history"),
        rows=[_latency_row(row, scale) for row in rows],
        legend=(
            Legend(kind="bar", text="mean request latency"),
            Legend(kind="peers", text="median of its peers"),
            Legend(kind="history", text="its own windows before"),
        ),
    )


def _over(row: AnswerRow, what: str) -> float | None:
    """The latency that a broker's is compared with."""
    ratio = row[f"ratio_to_{what}"]
    return row["request_latency_avg_ms"] / ratio if ratio else None


def _latency_row(row: AnswerRow, scale: Scale) -> ChartRow:
    mean = row["request_latency_avg_ms"]
    marks: list[Mark] = [scale.area("bar", 0, mean, f"mean {format_ms(mean)}")]
    kinds: tuple[MarkKind, ...] = ("peers", "history")
    for kind in kinds:
        other = _over(row, kind)
        if other is not None:
            marks.append(scale.point(kind, other, f"{kind} {format_ms(other)}"))
    return ChartRow(
        cells=(
            f"broker {row['broker_id']}",
            format_ms(mean),
            known(row["request_latency_max_ms"], format_ms),
            known(row["ratio_to_peers"], format_ratio),
            known(row["ratio_to_history"], format_ratio),
        ),
        marks=tuple(marks),
    )


def draw_room(answer: Answer) -> TableChart | None:
    """Draws each broker's spare capacity: the cluster's head-room, its handlers' time, its disk."""
    rows = [row for row in answer.rows if row["share_ratio"]][:_SHOWN_BROKERS]
    if not rows:
        return None
    carried = min(1.0, 1 / max(row["share_ratio"] for row in rows))
    full = [row["hours_to_full"] for row in rows if row["hours_to_full"] is not None]
    says = (
        f"As the load is spread now, the cluster can carry {format_percent(carried)} of what its brokers could together; "
        f"then broker {rows[0]['broker_id']} is full."
    )
    if full:
        says += f" The first disk is full in {format_count(min(full))} h."
    ahead = [row for row in rows if row["highest_ratio"] is not None]
    if ahead:
        highest = max(ahead, key=lambda row: row["highest_ratio"])
        says += (
            f" Of the next seven days' forecasts the highest is broker {highest['broker_id']} at "
            f"{format_ratio(highest['highest_ratio'])} its fair share."
        )
    scale = scale_over([1.0])
    return TableChart(
        answer=answer,
        title="Head-room",
        says=says,
        columns=(
            "broker",
            "can carry",
            "busiest moment",
            "handlers idle",
            "network idle",
            "disk full in",
            "next 7 days",
        ),
        rows=[
            ChartRow(
                cells=(
                    f"broker {row['broker_id']}",
                    format_percent(min(1.0, 1 / row["share_ratio"])),
                    known(row["peak_ratio"], format_ratio),
                    known(row["request_handler_idle_ratio"], format_percent),
                    known(row["network_processor_idle_ratio"], format_percent),
                    known(row["hours_to_full"], lambda hours: f"{hours:,.0f} h"),
                    known(row["highest_ratio"], format_ratio),
                ),
                marks=(scale.area("bar", 0, min(1.0, 1 / row["share_ratio"])), scale.point("fair", 1.0)),
            )
            for row in rows
        ],
        legend=(Legend(kind="bar", text="part of all brokers' capacity that is reached when this one is full"),),
    )


def draw_waiting(answer: Answer) -> TableChart | None:
    """Draws why producers wait: throttling, a full buffer, retries; None without producers' metrics."""
    if not answer.rows:
        return None
    throttled = [row for row in answer.rows if row["throttle_time_ms"]]
    blocked = [row for row in answer.rows if row["buffer_blocked_ratio"]]
    says = f"{len(throttled)} producers are throttled by a quota, {len(blocked)} wait for buffer memory."
    scale = scale_over([row["queue_time_ms"] for row in answer.rows])
    return TableChart(
        answer=answer,
        title="What holds producers up",
        says=says if throttled or blocked else "No producer is throttled, none waits for buffer memory.",
        columns=("client", "in the queue", "throttled", "waits for memory", "retries", "errors"),
        rows=[
            ChartRow(
                cells=(
                    format_name(row["client_id"]),
                    known(row["queue_time_ms"], _waiting_text),
                    known(row["throttle_time_ms"], _waiting_text),
                    known(row["buffer_blocked_ratio"], format_percent),
                    known(row["retries_per_s"], lambda rate: f"{rate:.3g}/s"),
                    known(row["errors_per_s"], lambda rate: f"{rate:.3g}/s"),
                ),
                marks=() if row["queue_time_ms"] is None else (scale.area("bar", 0, row["queue_time_ms"]),),
                is_marked=bool(row["throttle_time_ms"] or row["buffer_blocked_ratio"]),
                key=format_name(row["client_id"]),
            )
            for row in answer.rows
        ],
        legend=(Legend(kind="bar", text="mean time of a batch in the producer's queue"),),
    )


def _waiting_text(waited_ms: float) -> str:
    return format_ms(waited_ms) if waited_ms else "none"
