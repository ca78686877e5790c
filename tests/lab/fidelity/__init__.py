"""The simulator held against real producers on real brokers: ``make fidelity``."""

from __future__ import annotations
