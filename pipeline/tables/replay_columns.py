"""Columns that the replay's gold tables share."""

from __future__ import annotations

from pipeline.tables.columns import flag, text

CANDIDATE = text("candidate", "Name in the configuration; `in-use` for the strategy in use, replayed like any other.")
IS_BASELINE = flag("is_baseline", "The candidate is what is in use: its rows test the replay.")
