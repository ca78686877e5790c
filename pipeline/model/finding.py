"""Result of one check."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing looked at, what was found, and what to do; no advice where it serves."""

    name: str
    is_ok: bool = True
    found: str
    advice: str = ""
