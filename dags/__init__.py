"""Wiring only: ids, schedules, edges, retries, notifiers."""

from __future__ import annotations
