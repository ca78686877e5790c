"""Worlds drawn at random, and those that were found to break an ingest: each holds. Oracles: `tests.lab.worlds.oracle`, `truth`.

``python -m tests.lab.worlds`` draws more.
"""

import pytest

from tests.engines import sail
from tests.lab.worlds.oracle import SoundWorld
from tests.lab.worlds.truth import judge_life, run_life

FOUND = (2747,)
"""Seeds of worlds that did not hold when they were drawn first."""


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    return SoundWorld(tmp_path_factory.mktemp("worlds"))


@pytest.mark.parametrize("seed", [*range(8), *FOUND])
def test_whatever_one_host_and_one_server_do_the_others_are_judged_rightly_or_not_at_all(sound, seed):
    found = sound.run_hostile(seed, sail())
    assert found.wrong == [], found.faults


@pytest.mark.parametrize("seed", range(6))
def test_a_window_that_counts_as_whole_has_what_each_broker_led(tmp_path, seed):
    life, wrong, whole = judge_life(seed, tmp_path)
    assert wrong == [], life.faults
    assert whole or life.faults


@pytest.mark.parametrize("seed", [1, 4])
def test_shares_that_are_judged_are_those_of_what_each_broker_led_while_it_stood(tmp_path, seed):
    found = run_life(seed, tmp_path, sail())
    assert found.wrong == [], found.faults
