"""Charts of brokers: shares, why one is hot, latency, room."""

from collections.abc import Iterator, Sequence
from functools import partial
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
from pipeline.report.answers import AnswerRow, Chart, ChartColumn, Point, Rows, Scale, Words, format_words

_MINUS = "\N{MINUS SIGN}"
_SHOWN_BROKERS = 30
_TERMS = {"leaders": "leaders_term", "topic mix": "topic_mix_term", "partition skew": "partition_skew_term"}
_PARTS = {
    "· heavy keys": "heavy_keys_term", "· hash luck": "hash_luck_term", "· rack-aware producers": "rack_aware_term",
    "· neither": "remainder_term",
}  # fmt: skip  # a table: short fields share a line
format_share = partial(format_percent, digits=1)
BROKER = ChartColumn("broker", "broker_id", "broker {}".format)


def is_above(row: AnswerRow) -> bool:
    return bool(row["limit_value"]) and (row["share_ratio"] or 0.0) >= row["limit_value"]


def _say_shares(rows: Rows) -> str:
    above = [row for row in rows if is_above(row)]
    failing = [row for row in rows if row["verdict"] == "fail"]
    left_out = len(rows) - _SHOWN_BROKERS
    rest = f" The {_SHOWN_BROKERS} highest are drawn; {left_out} more are in the numbers." if left_out > 0 else ""
    if failing:
        return f"{_names(failing)} above the limit, long enough to fail.{rest}"
    if above:
        return f"{_names(above)} above the limit, not yet in enough windows to fail, or not beyond chance.{rest}"
    return f"Every broker is below its limit.{rest}"


def _names(rows: Rows) -> str:
    names = ", ".join(str(row["broker_id"]) for row in rows[:6]) + (" and others" if len(rows) > 6 else "")
    return f"Broker {names} is" if len(rows) == 1 else f"Brokers {names} are"


def _fair_times(name: str, row: AnswerRow) -> float | None:
    return None if row[name] is None else row["expected_share"] * row[name]


SHARES = Chart(
    name="shares", title="Brokers' shares of the bytes", says=_say_shares, most_rows=_SHOWN_BROKERS,
    columns=(
        BROKER,
        ChartColumn("share", "share", format_share),
        ChartColumn("ratio", "share_ratio", format_ratio),
        ChartColumn("chance", "chance_ratio", format_ratio),
        Words("verdict", "verdict", format_words),
        ChartColumn("bytes in", "size_bytes", format_bytes),
    ),
    marks=(
        Point("band", partial(_fair_times, "chance_ratio"), format_ratio, "chance reaches", "what chance alone reaches once in 1,000 windows", start="expected_share", shown="chance_ratio"),
        Point(lambda row: "hot" if is_above(row) else "bar", "share", format_share, "share", start=0.0),
        Point("fair", "expected_share", format_share, "fair share", legend="fair share"),
        Point("limit", partial(_fair_times, "limit_value"), format_ratio, legend="limit", shown="limit_value"),
    ),
    legend=(("bar", "share"),), is_marked=is_above,
)  # fmt: skip  # a table: a mark a line


def causes_of(broker: int, explained: Sequence[str] = ()) -> Chart:
    def say(rows: Rows) -> str:
        *steps, share = (row["end"] for row in rows if row["kind"] != "part")
        return (
            f"{_sum_up(steps)} % of the bytes: an excess of {format_points(share - steps[0])} points, split exactly "
            f"into leaders, topic mix and partition skew. {' '.join(explained)}"
        )

    return Chart(
        name="causes", says=say, select=lambda rows: tuple(_steps(broker, rows)),
        title=lambda rows: f"Why broker {broker} is {'above' if rows[-1]['end'] >= rows[0]['end'] else 'below'} its fair share",
        columns=(Words("term", "term"), ChartColumn("points", "text")),
        marks=(Point(lambda row: row["kind"], "end", start="start"),),
        legend=(("hot", "adds"), ("minus", "takes away"), ("part", "part of partition skew")),
        is_marked=lambda row: row["term"] == "its share",
    )  # fmt: skip  # a table: short fields share a line


def _steps(broker: int, rows: Rows) -> Iterator[AnswerRow]:
    row = next((row for row in rows if row["broker_id"] == broker), None)
    if row is None or row["leaders_term"] is None:
        return

    def bar(term: str, share: float) -> AnswerRow:
        return {"term": term, "text": format_share(share), "kind": "bar", "start": 0.0, "end": share}

    end = row["expected_share"]
    yield bar("fair share", end)
    terms = _TERMS | (_PARTS if all(row[name] is not None for name in _PARTS.values()) else {})
    for term, name in terms.items():
        if name == "rack_aware_term" and not row[name]:
            continue
        if term == next(iter(_PARTS)):  # the parts lead from where the last term begins
            end -= row["partition_skew_term"]
        start, end = end, end + row[name]
        kind = "part" if term in _PARTS else "hot" if row[name] >= 0 else "minus"
        yield {"term": term, "text": format_points(row[name]), "kind": kind, "start": start, "end": end}
    yield bar("its share", row["share"])


def _sum_up(steps: Sequence[float]) -> str:
    """The sum from the first step to the last; rounded so that what is written adds up.

    >>> _sum_up([1 / 3, 1 / 3, 0.3386]).replace("\N{MINUS SIGN}", "-")
    '33.33 + 0.00 + 0.53 = 33.86'
    """
    shown = [round(10_000 * step) for step in steps]
    terms = [after - before for before, after in pairwise(shown)]
    written = "".join(f" {_MINUS if term < 0 else '+'} {abs(term) / 100:.2f}" for term in terms)
    return f"{shown[0] / 100:.2f}{written} = {shown[-1] / 100:.2f}"


def _say_latency(rows: Rows) -> str:
    slowest = rows[0]
    says = f"Producers wait {format_ms(slowest['request_latency_avg_ms'])} on average for broker {slowest['broker_id']}"
    ratio = slowest["ratio_to_peers"]
    return f"{says}, {format_ratio(ratio)} what they wait for its peers." if ratio else f"{says}."


def _mean_over(name: str, row: AnswerRow) -> float | None:
    return row["request_latency_avg_ms"] / row[name] if row[name] else None


LATENCY = Chart(
    name="latency", title="How long producers wait for each broker", says=_say_latency,
    select=lambda rows: [row for row in rows if row["request_latency_avg_ms"] is not None], most_rows=_SHOWN_BROKERS,
    columns=(
        BROKER,
        ChartColumn("mean", "request_latency_avg_ms", format_ms),
        ChartColumn("longest", "request_latency_max_ms", format_ms),
        ChartColumn("to peers", "ratio_to_peers", format_ratio),
        ChartColumn("to its history", "ratio_to_history", format_ratio),
    ),
    marks=(
        Point("bar", "request_latency_avg_ms", format_ms, "mean", legend="mean request latency", start=0.0),
        Point("peers", partial(_mean_over, "ratio_to_peers"), format_ms, legend="median of its peers"),
        Point("history", partial(_mean_over, "ratio_to_history"), format_ms, legend="its own windows before"),
    ),
)  # fmt: skip  # a table: short fields share a line


def _say_room(rows: Rows) -> str:
    carried = format_percent(min(1.0, 1 / max(row["share_ratio"] for row in rows)))
    says = f"As the load is spread now, the cluster can carry {carried} of its brokers' total capacity"
    says += f"; then broker {rows[0]['broker_id']} is full."
    if full := [row["hours_to_full"] for row in rows if row["hours_to_full"] is not None]:
        says += f" The first disk is full in {format_count(min(full))} h."
    if ahead := [row for row in rows if row["highest_ratio"] is not None]:
        highest = max(ahead, key=lambda row: row["highest_ratio"])
        broker, ratio = highest["broker_id"], format_ratio(highest["highest_ratio"])
        says += f" The highest forecast for the next seven days is broker {broker} at {ratio} its fair share."
    return says


def _carried(row: AnswerRow) -> float:
    return min(1.0, 1.0 / float(row["share_ratio"]))


ROOM = Chart(
    name="room", title="Usable capacity", says=_say_room,
    select=lambda rows: [row for row in rows if row["share_ratio"]], most_rows=_SHOWN_BROKERS,
    scale=lambda _: Scale(0.0, 1.04),
    columns=(
        BROKER,
        ChartColumn("can carry", _carried, format_percent),
        ChartColumn("busiest moment", "peak_ratio", format_ratio),
        ChartColumn("handlers idle", "request_handler_idle_ratio", format_percent),
        ChartColumn("network idle", "network_processor_idle_ratio", format_percent),
        ChartColumn("disk full in", "hours_to_full", "{:,.0f} h".format),
        ChartColumn("next 7 days", "highest_ratio", format_ratio),
    ),
    marks=(
        Point("bar", _carried, legend="part of all brokers' capacity that is reached when this one is full", start=0.0),
        Point("fair", 1.0),
    ),
)  # fmt: skip  # a table: short fields share a line


def _say_waiting(rows: Rows) -> str:
    throttled = sum(bool(row["throttle_time_ms"]) for row in rows)
    blocked = sum(bool(row["buffer_blocked_ratio"]) for row in rows)
    if throttled or blocked:
        return f"Of these {len(rows)} producers {throttled} are throttled by a quota, {blocked} wait for buffer memory."
    return "No producer is throttled, none waits for buffer memory."


def _format_wait(waited_ms: float) -> str:
    return format_ms(waited_ms) if waited_ms else "none"


WAITING = Chart(
    name="waiting", title="What delays producers", says=_say_waiting,
    columns=(
        Words("client", "client_id"),
        ChartColumn("in the queue", "queue_time_ms", _format_wait),
        ChartColumn("throttled", "throttle_time_ms", _format_wait),
        ChartColumn("waits for memory", "buffer_blocked_ratio", format_percent),
        ChartColumn("retries", "retries_per_s", "{:.3g}/s".format),
        ChartColumn("errors", "errors_per_s", "{:.3g}/s".format),
    ),
    marks=(Point("bar", "queue_time_ms", legend="mean time of a batch in the producer's queue", start=0.0),),
    is_marked=lambda row: row["throttle_time_ms"] or row["buffer_blocked_ratio"],
    key=lambda row: format_name(row["client_id"]),
)  # fmt: skip  # a table: short fields share a line
