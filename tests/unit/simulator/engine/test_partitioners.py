"""What strategies name is simulated."""

from pipeline.partitioners.registry import STRATEGIES
from pipeline.simulator.engine.partitioners import Placement


def test_strategies_name_every_placement_and_no_other():
    named = {strategy.keyless.placement for strategy in STRATEGIES.values() if strategy.keyless}
    assert named - {""} == set(Placement.__members__)
