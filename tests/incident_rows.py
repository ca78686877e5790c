"""Verdicts and changes of incidents: what a test does not name is that of broker 1, half beyond its limit of 1.2."""

from pipeline.model.incident import IncidentChange
from pipeline.model.verdict import Verdict


def new_verdict(start_ms=0, *, above=1, **given):
    """A failure, or well where it was `above` in none of the last windows."""
    usual = {"rule": "broker_share", "subject": "broker 1", "value": 1.5 if above else 1.0, "limit_value": 1.2}
    usual |= {"is_above": above > 0, "above_count": above, "verdict": "fail" if above else "ok", "reason": ""}
    return Verdict(window_start_ms=start_ms, **usual | given)


def new_change(state="new", start_ms=0, **given):
    """Begun in its own window, and at its worst."""
    usual = {"incident_id": "K-1", "rule": "broker_share", "subject": "broker 1", "value": 1.5, "limit_value": 1.2}
    usual |= {"since_ms": start_ms, "peak_value": given.get("value", 1.5), "window_count": 1}
    return IncidentChange(state=state, window_start_ms=start_ms, **usual | given)
