"""Colours and sizes that all pictures share: readable on a light card, in print and with red-green blindness."""

from __future__ import annotations

INK = "#0f172a"
MUTED = "#64748b"
GRID = "#e2e8f0"
CARD = "#ffffff"
CALM = "#94a3b8"
ALARM = "#c2410c"
LIMIT = "#7f1d1d"
ALARM_TINT = "#ffedd5"
LINES = ("#0369a1", "#7c3aed", "#0f766e", "#a16207", "#be185d", "#4d7c0f")
"""For lines that are told apart; blue first."""

FONT = "DejaVu Sans"
"""Shipped with matplotlib, so that a picture is the same everywhere."""

PIXELS_PER_INCH = 200
"""Twice what a mail shows: sharp on dense screens."""
