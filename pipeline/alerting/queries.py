"""Spark SQL that shows the rows behind a mail, ready to paste into `partition-health sql`."""

from pipeline.evidence.incident import IncidentEvidence
from pipeline.storage.predicates import sql_instant, sql_text


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
