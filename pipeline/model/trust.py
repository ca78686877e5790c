"""Whether a prediction is trusted, as the tables store it: a word, and the reasons against."""

from __future__ import annotations

from enum import StrEnum


class Trust(StrEnum):
    """How a stored text about trust begins."""

    TRUSTED = "trusted"
    DOUBTED = "not trustworthy"

    @classmethod
    def of(cls, stored: str) -> Trust:
        """What a stored text says.

        >>> Trust.of("not trustworthy: no arrivals are stored")
        <Trust.DOUBTED: 'not trustworthy'>
        """
        return cls.DOUBTED if stored.startswith(cls.DOUBTED) else cls.TRUSTED


def format_trust(reasons: str) -> str:
    """The text to store: `trusted` without reasons against.

    >>> format_trust(""), format_trust("no arrivals are stored")
    ('trusted', 'not trustworthy: no arrivals are stored')
    """
    return f"{Trust.DOUBTED}: {reasons}" if reasons else str(Trust.TRUSTED)
