"""Wiring only: ids, schedules, edges, retries, notifiers."""
