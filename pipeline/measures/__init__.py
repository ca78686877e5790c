"""Numbers from counts: shares, imbalance, chance level, causes, latency."""

from __future__ import annotations
