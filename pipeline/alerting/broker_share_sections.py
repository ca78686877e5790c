"""Sections of a mail about a broker's share: impact, brokers, topics, causes, partitions, confidence, rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.alerting.content import Column, Picture, Section, Table
from pipeline.alerting.queries import broker_share_query, incident_span, topic_excess_query
from pipeline.charts.broker_share import render_broker_shares, shown_brokers
from pipeline.charts.share_over_windows import render_shares_over_windows
from pipeline.model.number_text import (
    format_bar,
    format_between,
    format_bytes,
    format_count,
    format_ms,
    format_name,
    format_percent,
    format_points,
    format_ratio,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pipeline.alerting.evidence import BrokerShareEvidence, TopicExcess
    from pipeline.model.load import BrokerLoad

MOST_TOPICS = 6
MOST_TREND = 12
_NAME = 48
_SAME_LATENCY_RATIO = 1.2


def said_when(evidence: BrokerShareEvidence) -> str:
    """The window the mail is about, as said in a sentence."""
    return format_between(evidence.window.start_ms, evidence.window.end_ms)


def counted_windows(count: int) -> str:
    """So many windows, in words."""
    return f"{count} window{'' if count == 1 else 's'}"


def impact_section(evidence: BrokerShareEvidence) -> Section | None:
    """What producers feel, how much room is left, when the disk is full; None where nothing of it is known."""
    said = [_latency(evidence)]
    if evidence.change.is_open:
        said += [_head_room(evidence), _disk(evidence)]
    known = tuple(text for text in said if text)
    return Section(title="What it means", text=known) if known else None


def _head_room(evidence: BrokerShareEvidence) -> str:
    """How far the cluster is from its fullest broker's capacity."""
    ratio = evidence.broker.share_ratio
    if not ratio:
        return ""
    said = (
        f"Head-room: as the load is spread now, the cluster can carry {format_percent(min(1.0, 1 / ratio))} of what its "
        "brokers could together; then this one is full."
    )
    if evidence.peak_ratio is not None:
        said += f" In its busiest moments it took {format_ratio(evidence.peak_ratio)} its fair part of the mean load."
    if evidence.idle_ratio is not None:
        said += f" Its request handlers were idle {format_percent(evidence.idle_ratio)} of the time."
    return said


def _disk(evidence: BrokerShareEvidence) -> str:
    hours = evidence.hours_to_full
    return "" if hours is None else f"At the pace of the last windows its disk is full in {hours:,.0f} h."


def _latency(evidence: BrokerShareEvidence) -> str:
    latency = evidence.latency
    if latency is None:
        return ""
    ratio = latency.ratio_to_peers
    waited = (
        f"Producers waited {format_ms(latency.broker_avg_ms)} on average for an answer of broker {evidence.broker_id}"
    )
    beside = f"{format_ms(latency.peers_avg_ms)} for the other brokers"
    worst = "" if latency.broker_max_ms is None else f" The longest wait for it was {format_ms(latency.broker_max_ms)}."
    if ratio is not None and ratio >= _SAME_LATENCY_RATIO:
        return f"{waited}, {format_ratio(ratio)} the {beside}.{worst}"
    return f"{waited}, {beside}: producers do not wait longer for it than for its peers.{worst}"


def trend_section(evidence: BrokerShareEvidence) -> Section | None:
    """How the broker's share went over the windows before; None where these are not known."""
    if not evidence.earlier:
        return None
    loads = (*evidence.earlier, *evidence.brokers)
    own = sorted(
        (load for load in loads if load.broker_id == evidence.broker_id), key=lambda load: load.window_start_ms
    )
    ratios = [
        "no traffic" if load.share_ratio is None else format_ratio(load.share_ratio) for load in own[-MOST_TREND:]
    ]
    said = f"Broker {evidence.broker_id}, share over fair share by window: {', '.join(ratios)}."
    png = render_shares_over_windows(
        loads,
        window_ms=evidence.window.duration_ms,
        failing={evidence.broker_id},
        limit_ratio=evidence.change.limit_value,
        failing_spans=[incident_span(evidence)],
    )
    return Section(
        title="How it came" if evidence.change.is_open else "How it went",
        text=(said,),
        picture=Picture(name="shares_over_windows", png=png, alt="Shares of all brokers over these windows"),
    )


def topics_section(evidence: BrokerShareEvidence) -> Section | None:
    """Topics by excess, the tail in one row; None where unknown."""
    if not evidence.topics:
        return None
    shown = evidence.topics[:MOST_TOPICS]
    rest = evidence.topics[MOST_TOPICS:]
    rows = [_topic_row(row) for row in shown]
    if rest:
        rows.append(
            (
                f"{len(rest)} other topic{'' if len(rest) == 1 else 's'}",
                format_bytes(sum(row.size_bytes for row in rest)),
                format_bytes(sum(row.fair_bytes for row in rest)),
                format_bytes(sum(row.excess_bytes for row in rest), sign=True),
                format_points(sum(row.excess_share for row in rest)),
            )
        )
    columns = (
        Column(title="topic"),
        Column(title="on broker", is_number=True),
        Column(title="fair", is_number=True),
        Column(title="excess", is_number=True),
        Column(title="points", is_number=True),
    )
    marked = frozenset({0}) if shown[0].excess_bytes > 0 else frozenset[int]()
    note = "Points: percentage points of the cluster's bytes; they sum to share less fair share."
    return Section(
        title="Topics that carry the excess", table=Table(columns=columns, rows=tuple(rows), marked=marked, note=note)
    )


def _topic_row(row: TopicExcess) -> tuple[str, ...]:
    return (
        format_name(row.topic, _NAME),
        format_bytes(row.size_bytes),
        format_bytes(row.fair_bytes),
        format_bytes(row.excess_bytes, sign=True),
        format_points(row.excess_share),
    )


def brokers_section(evidence: BrokerShareEvidence) -> Section:
    """Every broker beside its fair share and what the first action would give it, as picture and table."""
    failing, is_open = {evidence.broker_id}, evidence.change.is_open
    limit_ratio = evidence.change.limit_value
    table = _brokers_table(evidence, shown_brokers(evidence.brokers, failing))
    png = render_broker_shares(evidence.brokers, failing=failing if is_open else set(), limit_ratio=limit_ratio)
    alt = "Share of bytes in: " + ", ".join(f"broker {row[0]} {row[1]}" for row in table.rows)
    return Section(
        title=f"Brokers, {said_when(evidence)}",
        picture=Picture(name="broker_shares", png=png, alt=alt),
        table=table,
    )


def _brokers_table(evidence: BrokerShareEvidence, shown: Sequence[BrokerLoad]) -> Table:
    is_advised = evidence.change.is_open and evidence.recommendations
    after = evidence.recommendations[0].broker_ratios if is_advised else {}
    highest = max((load.share or 0.0 for load in evidence.brokers), default=0.0) or 1.0
    columns = (
        Column(title="broker", is_number=True),
        Column(title="share", is_number=True),
        Column(title="fair", is_number=True),
        Column(title="ratio", is_number=True),
        Column(title="bytes in", is_number=True),
        *((Column(title="after 1.", is_number=True),) if after else ()),
        Column(title="", is_text_only=True),
    )
    rows = tuple(
        (
            str(load.broker_id),
            format_percent(load.share or 0.0, 1),
            format_percent(load.expected_share, 1),
            format_ratio(load.share_ratio or 0.0),
            format_bytes(load.size_bytes),
            *((_share_after(after, load),) if after else ()),
            format_bar((load.share or 0.0) / highest),
        )
        for load in shown
    )
    left_out = len(evidence.brokers) - len(shown)
    notes = (
        f"{left_out} other brokers are below these." if left_out else "",
        "After 1.: predicted share once action 1 is done." if after else "",
    )
    return Table(
        columns=columns,
        rows=rows,
        marked=frozenset(place for place, load in enumerate(shown) if load.broker_id == evidence.broker_id),
        note=" ".join(note for note in notes if note),
    )


def _share_after(ratios: Mapping[int, float], load: BrokerLoad) -> str:
    ratio = ratios.get(load.broker_id)
    return "" if ratio is None else format_percent(ratio * load.expected_share, 1)


def confidence_section(evidence: BrokerShareEvidence) -> Section:
    """Chance level, volume, completeness and the rule, for those who doubt."""
    said = []
    if evidence.chance_ratio is not None:
        said.append(f"Chance alone takes a broker to {format_ratio(evidence.chance_ratio)} once in a thousand windows.")
    records = sum(load.record_count for load in evidence.brokers)
    total = format_bytes(sum(load.size_bytes for load in evidence.brokers))
    units = evidence.broker.effective_unit_count
    counted = "" if units is None else f", worth {format_count(units)} independent batches"
    said.append(
        f"The window holds {format_count(records)} records, {total}{counted}, over {len(evidence.brokers)} brokers."
    )
    said += [_completeness(evidence)] if evidence.arrivals else []
    said.append(
        f"A broker fails when it is above limit, floor and chance in {evidence.k} of {evidence.n} windows, and is well "
        f"again after {counted_windows(evidence.k)} below {format_ratio(evidence.resolves_at)}."
    )
    return Section(title="How sure this is", text=(" ".join(said),))


def _completeness(evidence: BrokerShareEvidence) -> str:
    brought = ", ".join(
        f"{row.source} {format_count(row.arrived_count)} of {format_count(row.expected_count)}"
        for row in evidence.arrivals
    )
    lacking = any(row.arrived_count < row.expected_count for row in evidence.arrivals)
    return f"{'Not all' if lacking else 'Everything'} that was expected arrived: {brought}."


def rows_sections(evidence: BrokerShareEvidence) -> tuple[Section, ...]:
    """How to see the rows and how to have them judged again."""
    queries = [broker_share_query(evidence)]
    if evidence.change.is_open:
        queries.append(topic_excess_query(evidence))
    return (
        Section(title="See the rows", text=("Paste into `partition-health sql`:",), code="\n\n".join(queries)),
        Section(
            title="Do it again",
            text=("The same windows, measured and judged again; nobody is told twice:",),
            code=f"partition-health run --window {incident_span(evidence)}",
        ),
    )
