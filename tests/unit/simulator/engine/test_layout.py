"""The kernel's numbers are those of the values it is given and fills: it keeps them apart so that it compiles less often."""

from __future__ import annotations

import pytest

from pipeline.partitioners.strategy import Placement
from pipeline.simulator.engine import layout
from pipeline.simulator.engine.result import Connection, Lane, ProducerCount


@pytest.mark.parametrize("names", [Lane, Connection, ProducerCount, Placement])
def test_names_have_the_same_numbers(names):
    assert {name.name: getattr(layout, name.name) for name in names} == {name.name: name.value for name in names}


def test_counters_are_all_there():
    assert len(Lane) == layout.LANE_COUNTERS
    assert len(Connection) == layout.CONNECTION_COUNTERS
    assert len(ProducerCount) == layout.PRODUCER_COUNTERS
