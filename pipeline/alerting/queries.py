"""Spark SQL that shows the rows behind a mail, ready to paste into `partition-health sql`."""

from pipeline.alerting.evidence import BrokerShareEvidence, IncidentEvidence
from pipeline.model.window import format_instant


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


def verdicts_query(evidence: IncidentEvidence) -> str:
    """Verdicts on a subject since its incident began."""
    change = evidence.change
    return (
        "SELECT window_start, value, limit_value, verdict, reason FROM gold.verdicts\n"
        f"WHERE cluster = {sql_text(evidence.cluster)} AND rule = {sql_text(change.rule)}\n"
        f"  AND subject = {sql_text(change.subject)} AND window_start >= {sql_instant(change.since_ms)}\n"
        "ORDER BY window_start;"
    )


def source_status_query(evidence: IncidentEvidence) -> str:
    """Query for the status of the sources since an incident began."""
    return (
        "SELECT window_start, source, expected_count, arrived_count, missing, newest_at\n"
        "FROM bronze.window_status\n"
        f"WHERE cluster = {sql_text(evidence.cluster)} AND window_start >= {sql_instant(evidence.change.since_ms)}\n"
        "ORDER BY window_start, source;"
    )


def incidents_query(cluster: str, window_start_ms: int) -> str:
    """Changes of incidents in a window."""
    return (
        "SELECT incident_id, state, rule, subject, since, value, limit_value\n"
        "FROM gold.incidents\n"
        f"WHERE cluster = {sql_text(cluster)} AND window_start = {sql_instant(window_start_ms)}\n"
        "ORDER BY state, value DESC;"
    )


def broker_share_query(evidence: BrokerShareEvidence) -> str:
    """Shares of every broker, from a few windows before the incident to the one the mail is about."""
    from_ms = evidence.span.start_ms - (evidence.gate.n - 1) * evidence.window_ms
    return (
        "SELECT window_start, broker_id,\n"
        "       round(100 * share, 1) AS share_percent,\n"
        "       round(100 * expected_share, 1) AS fair_percent,\n"
        "       round(share_ratio, 2) AS ratio,\n"
        "       round(chance_ratio, 2) AS chance,\n"
        "       size_bytes, record_count\n"
        "FROM gold.broker_share\n"
        f"WHERE cluster = {sql_text(evidence.cluster)}\n"
        f"  AND window_start >= {sql_instant(from_ms)}\n"
        f"  AND window_start < {sql_instant(evidence.span.end_ms)}\n"
        "ORDER BY window_start, broker_id;"
    )


def topic_excess_query(evidence: BrokerShareEvidence) -> str:
    """Topics by what they add to the broker's excess, in the window the mail is about."""
    return (
        "SELECT topic, own_bytes, round(fair_bytes) AS fair_bytes,\n"
        "       round(own_bytes - fair_bytes) AS excess_bytes\n"
        "FROM (\n"
        "  SELECT topic,\n"
        f"         sum(if(leader_id = {evidence.broker_id}, size_bytes, 0)) AS own_bytes,\n"
        f"         {evidence.broker.expected_share!r}D * sum(size_bytes) AS fair_bytes\n"
        "  FROM silver.partition_traffic\n"
        f"  WHERE cluster = {sql_text(evidence.cluster)} AND leader_id >= 0\n"
        f"    AND window_start = {sql_instant(evidence.window.start_ms)}\n"
        "  GROUP BY topic\n"
        ")\n"
        "ORDER BY excess_bytes DESC;"
    )
