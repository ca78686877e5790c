"""The Spark SQL that shows the rows behind a mail, ready to paste into `partition-health sql`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.model.window import TimeWindow, format_instant

if TYPE_CHECKING:
    from pipeline.alerting.evidence import BrokerShareEvidence


def sql_text(text: str) -> str:
    r"""Writes a Spark SQL string literal; whatever the text holds, it stays within the quotes and on its line.

    >>> print(sql_text("it's"), sql_text("a\\b\n"))
    'it\'s' 'a\\b\u000a'
    """
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return "'" + "".join(char if char.isprintable() else _escape(char) for char in escaped) + "'"


def _escape(char: str) -> str:
    code = ord(char)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def sql_instant(instant_ms: int) -> str:
    """Writes a Spark SQL timestamp literal in UTC.

    >>> sql_instant(1795251600000)
    "TIMESTAMP'2026-11-21T09:00:00Z'"
    """
    return f"TIMESTAMP'{format_instant(instant_ms)}'"


def broker_share_query(evidence: BrokerShareEvidence) -> str:
    """Shares of every broker, from a few windows before the incident to the one the mail is about."""
    reach = incident_span(evidence)
    from_ms = reach.start_ms - (evidence.n - 1) * evidence.window.duration_ms
    lines = (
        "SELECT window_start, broker_id,",
        "       round(100 * share, 1) AS share_percent,",
        "       round(100 * expected_share, 1) AS fair_percent,",
        "       round(share_ratio, 2) AS ratio,",
        "       round(chance_ratio, 2) AS chance,",
        "       size_bytes, record_count",
        "FROM gold.broker_share",
        f"WHERE cluster = {sql_text(evidence.cluster)}",
        f"  AND window_start >= {sql_instant(from_ms)}",
        f"  AND window_start < {sql_instant(reach.end_ms)}",
        "ORDER BY window_start, broker_id;",
    )
    return "\n".join(lines)


def topic_excess_query(evidence: BrokerShareEvidence) -> str:
    """Topics by what they add to the broker's excess, in the window the mail is about."""
    own = f"sum(if(leader_id = {evidence.broker_id}, size_bytes, 0))"
    lines = (
        "SELECT topic, own_bytes, round(fair_bytes) AS fair_bytes,",
        "       round(own_bytes - fair_bytes) AS excess_bytes",
        "FROM (",
        "  SELECT topic,",
        f"         {own} AS own_bytes,",
        f"         {evidence.broker.expected_share!r}D * sum(size_bytes) AS fair_bytes",
        "  FROM silver.partition_traffic",
        f"  WHERE cluster = {sql_text(evidence.cluster)} AND leader_id >= 0",
        f"    AND window_start = {sql_instant(evidence.window.start_ms)}",
        "  GROUP BY topic",
        ")",
        "ORDER BY excess_bytes DESC;",
    )
    return "\n".join(lines)


def incident_span(evidence: BrokerShareEvidence) -> TimeWindow:
    """From the first window above the limit to the end of the window the mail is about."""
    return TimeWindow(min(evidence.change.since_ms, evidence.window.start_ms), evidence.window.end_ms)
