"""How a client picks a partition where the key does not decide, declared: what it does, and what that depends on."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from pipeline.partitioners.machines import Machine


class Scope(Enum):
    """What shares one state."""

    TOPIC = "a topic of a producer"
    PRODUCER = "all topics of a producer"


@dataclass(frozen=True)
class Keyless:
    """A way to pick partitions without a key.

    Attributes:
        summary: What it does, in a few words.
        start: Makes the state of a new producer from a source of chance; None where `simulated` says why not.
        scope: What shares one state.
        simulated: What only a simulated producer can tell the state, so that the choice does not follow from the order
            of records alone; or "".
    """

    summary: str
    start: Callable[[Random], Machine] | None = None
    scope: Scope = Scope.TOPIC
    simulated: str = ""
