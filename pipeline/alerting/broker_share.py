"""The mail about a broker that carries more than its share, and the one when it no longer does."""

from collections.abc import Sequence
from dataclasses import replace

from pipeline.alerting.actions import action_attachments, actions_section, execute_section, format_predicted
from pipeline.alerting.brief import WITHDRAWN
from pipeline.alerting.causes import NAME_LENGTH, causes_section, keys_section, name_cause, partitions_section
from pipeline.alerting.content import Content, Figure, MailColumn, MailSection, MailTable, Picture, number_columns
from pipeline.alerting.evidence import BrokerShareEvidence, TopicExcess
from pipeline.alerting.incident_mail import BADGES, STATES, describe_incident
from pipeline.alerting.promises import promises_section
from pipeline.alerting.queries import broker_share_query, topic_excess_query
from pipeline.charts.broker_share import render_broker_shares, shown_brokers
from pipeline.charts.share_over_windows import render_shares_over_windows
from pipeline.model.number_text import (
    format_bar,
    format_between,
    format_bytes,
    format_clock,
    format_count,
    format_ms,
    format_name,
    format_percent,
    format_points,
    format_ratio,
    format_span,
)

MOST_TOPICS = 6
MOST_TREND = 12
_SAME_LATENCY_RATIO = 1.2
_VERBS = {
    "new": "carries",
    "worse": "now carries",
    "continuing": "still carries",
    "resolved": "is back to",
    "withdrawn": "carries",
}


def describe_broker_share(evidence: BrokerShareEvidence) -> Content:
    """Words, tables and pictures of a mail about a broker's share.

    Returns:
        The content; names from the outside are harmless on one line, no list grows without bound.

    Raises:
        ValueError: if the broker is not among the window's brokers or has no share there.
    """
    change, fair, limit = evidence.change, evidence.broker.expected_share, format_ratio(evidence.change.limit_value)
    share, ratio = evidence.share
    actions = evidence.recommendations if change.is_open else ()
    figures = [
        Figure(label="share of bytes in", value=format_percent(share, 1)),
        Figure(label="fair share", value=format_percent(fair, 1)),
    ]
    why: tuple[MailSection | None, ...] = ()
    if change.is_open:
        headline = _headline_open(evidence)
        why = (
            _topics_section(evidence),
            causes_section(evidence),
            partitions_section(evidence),
            keys_section(evidence),
        )
        figures.append(Figure(label=f"of its share, limit {limit}", value=format_ratio(ratio)))
    else:
        headline = _headline_resolved(evidence)
        if change.peak_value is not None:
            figures.append(Figure(label="at the peak", value=format_ratio(change.peak_value)))
    brokers = _brokers_section(evidence)
    return describe_incident(
        evidence,
        badge=BADGES[change.state],
        subject_line=(
            f"[{BADGES[change.state]}] {format_name(evidence.cluster, 60)} broker {evidence.broker_id} "
            f"{_VERBS[change.state]} {format_percent(share)} of bytes in, fair share {format_percent(fair)} "
            f"({format_ratio(ratio)}, limit {limit})"
        ),
        title=f"broker {evidence.broker_id}",
        headline=headline,
        figures=tuple(figures),
        sections=(
            _impact_section(evidence),
            promises_section(evidence.promises, is_open=change.is_open),
            actions_section(actions, expected_share=fair),
            replace(brokers, picture=None),
            *why,
            execute_section(actions),
            _trend_section(evidence),
            _confidence_section(evidence),
            *_rows_sections(evidence),
        ),
        shown=(replace(brokers, table=None),),
        attachments=action_attachments(actions),
    )


def _headline_open(evidence: BrokerShareEvidence) -> str:
    (share, ratio), change, fair = evidence.share, evidence.change, evidence.broker.expected_share
    said = (
        f"Broker {evidence.broker_id} of cluster {format_name(evidence.cluster)} carried {format_percent(share, 1)} of "
        f"the bytes produced from {_format_window(evidence)}; {format_percent(fair, 1)} would be fair. It has been above "
        f"the limit of {format_ratio(change.limit_value)} since {format_clock(change.since_ms)}, in "
        f"{evidence.above_count} of the last {evidence.gate.n} windows, and is now at {format_ratio(ratio)}. "
        f"{STATES[change.state]}"
    )
    if cause := name_cause(evidence):
        said += f" The cause: {cause}."
    for first in evidence.recommendations[:1]:
        predicted = "" if first.predicted_ratio is None else f" (share then {format_predicted(first, fair)})"
        said += f" First thing to do: {first.title.replace('`', '')}{predicted}."
    return said


def _headline_resolved(evidence: BrokerShareEvidence) -> str:
    (share, ratio), span, k = evidence.share, evidence.span, evidence.gate.k
    peak = evidence.change.peak_value
    if evidence.change.state == "withdrawn":
        return (
            f"Broker {evidence.broker_id} of cluster {format_name(evidence.cluster)}: {WITHDRAWN}. It carries "
            f"{format_percent(share, 1)} of the bytes produced, where {format_percent(evidence.broker.expected_share, 1)} is "
            f"fair ({format_ratio(ratio)}); an incident needs {k} of {_format_windows(evidence.gate.n)} above the limit."
        )
    return (
        f"Broker {evidence.broker_id} of cluster {format_name(evidence.cluster)} recovered: "
        f"{format_percent(share, 1)} of the bytes produced, where {format_percent(evidence.broker.expected_share, 1)} "
        f"is fair ({format_ratio(ratio)}), and below {format_ratio(evidence.gate.resolves_at)} for "
        f"{_format_windows(k)}{' in a row' if k > 1 else ''}. The incident began at {format_clock(span.start_ms)}"
        + (f" and peaked at {format_ratio(peak)}." if peak is not None else ".")
        + f" It is resolved as of {format_clock(span.end_ms)}, {format_span(span.duration_ms)} later."
    )


def _format_window(evidence: BrokerShareEvidence) -> str:
    return format_between(evidence.window.start_ms, evidence.window.end_ms)


def _format_windows(count: int) -> str:
    return f"{count} window{'' if count == 1 else 's'}"


def _impact_section(evidence: BrokerShareEvidence) -> MailSection | None:
    """Describes producers' latency, head-room and the time until the disk is full; None where nothing is known."""
    said = [_describe_latency(evidence)]
    if evidence.change.is_open:
        said.append(_describe_head_room(evidence))
        if evidence.hours_to_full is not None:
            said.append(f"At the pace of the last windows its disk is full in {evidence.hours_to_full:,.0f} h.")
    known = tuple(text for text in said if text)
    return MailSection(title="What it means", text=known) if known else None


def _describe_head_room(evidence: BrokerShareEvidence) -> str:
    """How far the cluster is from its fullest broker's capacity."""
    _, ratio = evidence.share
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


def _describe_latency(evidence: BrokerShareEvidence) -> str:
    latency = evidence.latency
    if latency is None:
        return ""
    waited = f"Producers waited {format_ms(latency.request_latency_avg_ms)} on average for an answer of broker {evidence.broker_id}"
    peers = f"{format_ms(latency.peers_avg_ms)} for the other brokers"
    worst = latency.request_latency_max_ms
    longest = "" if worst is None else f" The longest wait for it was {format_ms(worst)}."
    if latency.ratio_to_peers >= _SAME_LATENCY_RATIO:
        return f"{waited}, {format_ratio(latency.ratio_to_peers)} the {peers}.{longest}"
    return f"{waited}, {peers}: producers do not wait longer for it than for its peers.{longest}"


def _trend_section(evidence: BrokerShareEvidence) -> MailSection | None:
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
    png = render_shares_over_windows(
        loads,
        window_ms=evidence.window_ms,
        failing={evidence.broker_id},
        limit_ratio=evidence.change.limit_value,
        failing_spans=[evidence.span],
    )
    return MailSection(
        title="Shares over time",
        text=(f"Broker {evidence.broker_id}, share over fair share by window: {', '.join(ratios)}.",),
        picture=Picture(name="shares_over_windows", png=png, alt="Shares of all brokers over these windows"),
    )


def _topics_section(evidence: BrokerShareEvidence) -> MailSection | None:
    """Topics by excess, the tail in one row; None where unknown."""
    shown, rest = evidence.topics[:MOST_TOPICS], evidence.topics[MOST_TOPICS:]
    if not shown:
        return None
    groups: list[tuple[str, Sequence[TopicExcess]]] = [(format_name(row.topic, NAME_LENGTH), [row]) for row in shown]
    if rest:
        groups.append((f"{len(rest)} other topic{'' if len(rest) == 1 else 's'}", rest))
    rows = tuple(
        (
            name,
            format_bytes(sum(row.size_bytes for row in group)),
            format_bytes(sum(row.fair_bytes for row in group)),
            format_bytes(sum(row.excess_bytes for row in group), sign=True),
            format_points(sum(row.excess_share for row in group)),
        )
        for name, group in groups
    )
    table = MailTable(
        columns=(MailColumn("topic"), *number_columns("on broker", "fair", "excess", "points")),
        rows=rows,
        marked=frozenset({0} if shown[0].excess_bytes > 0 else ()),
        note="Points: percentage points of the cluster's bytes; they sum to share less fair share.",
    )
    return MailSection(title="Topics that carry the excess", table=table)


def _brokers_section(evidence: BrokerShareEvidence) -> MailSection:
    """Every broker with its fair share and what the first action would give it, as picture and table."""
    failing, is_open = {evidence.broker_id}, evidence.change.is_open
    shown = shown_brokers(evidence.brokers, failing)
    after = evidence.recommendations[0].broker_ratios if is_open and evidence.recommendations else {}
    highest = max((load.share or 0.0 for load in evidence.brokers), default=0.0) or 1.0
    rows = tuple(
        (
            str(load.broker_id),
            format_percent(load.share or 0.0, 1),
            format_percent(load.expected_share, 1),
            format_ratio(load.share_ratio or 0.0),
            format_bytes(load.size_bytes),
            *([_format_share(after.get(load.broker_id), load.expected_share)] if after else ()),
            format_bar((load.share or 0.0) / highest),
        )
        for load in shown
    )
    left_out = len(evidence.brokers) - len(shown)
    notes = (
        f"{left_out} other brokers are below these." if left_out else "",
        "After 1.: predicted share once action 1 is done." if after else "",
    )
    png = render_broker_shares(
        evidence.brokers, failing=failing if is_open else set(), limit_ratio=evidence.change.limit_value
    )
    alt = "Share of bytes in: " + ", ".join(f"broker {row[0]} {row[1]}" for row in rows)
    titles = ("broker", "share", "fair", "ratio", "bytes in", *(("after 1.",) if after else ()))
    return MailSection(
        title=f"Brokers, {_format_window(evidence)}",
        picture=Picture(name="broker_shares", png=png, alt=alt),
        table=MailTable(
            columns=(*number_columns(*titles), MailColumn("", is_text_only=True)),
            rows=rows,
            marked=frozenset(at for at, load in enumerate(shown) if load.broker_id in failing),
            note=" ".join(note for note in notes if note),
        ),
    )


def _format_share(ratio: float | None, expected_share: float) -> str:
    return "" if ratio is None else format_percent(ratio * expected_share, 1)


def _confidence_section(evidence: BrokerShareEvidence) -> MailSection:
    """Chance level, volume, completeness and the rule, for those who doubt."""
    said, gate, units = [], evidence.gate, evidence.broker.effective_unit_count
    if evidence.chance_ratio is not None:
        said.append(f"Chance alone takes a broker to {format_ratio(evidence.chance_ratio)} once in a thousand windows.")
    records = format_count(sum(load.record_count for load in evidence.brokers))
    total = format_bytes(sum(load.size_bytes for load in evidence.brokers))
    counted = "" if units is None else f", worth {format_count(units)} independent batches"
    said.append(f"The window holds {records} records, {total}{counted}, over {len(evidence.brokers)} brokers.")
    counts = [(row.source, row.arrived_count, row.expected_count or 0) for row in evidence.source_statuses]
    if counts:
        lacking = any(arrived < expected for _, arrived, expected in counts)
        brought = ", ".join(f"{source} {format_count(here)} of {format_count(of)}" for source, here, of in counts)
        said.append(f"{'Not all' if lacking else 'Everything'} that was expected arrived: {brought}.")
    said.append(
        f"A broker fails when it is above limit, floor and chance in {gate.k} of {gate.n} windows, and recovers "
        f"after {_format_windows(gate.k)} below {format_ratio(gate.resolves_at)}."
    )
    return MailSection(title="How sure this is", text=(" ".join(said),))


def _rows_sections(evidence: BrokerShareEvidence) -> tuple[MailSection, ...]:
    """How to see the rows and how to have them judged again."""
    queries = [broker_share_query(evidence)]
    if evidence.change.is_open:
        queries.append(topic_excess_query(evidence))
    return (
        MailSection(
            title="See the rows", text=(f"Paste into `{evidence.command('sql')}`:",), code="\n\n".join(queries)
        ),
        MailSection(
            title="Do it again",
            text=("The same windows, measured and judged again; nothing is reported twice:",),
            code=f"{evidence.command('run')} --window {evidence.span}",
        ),
    )
