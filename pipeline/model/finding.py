"""What a check found of one thing."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing looked at.

    Attributes:
        name: What.
        is_ok: Whether it serves.
        found: What is there.
        advice: What to do; empty where it serves.
    """

    name: str
    is_ok: bool
    found: str
    advice: str = ""
