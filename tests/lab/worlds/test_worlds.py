"""Worlds drawn at random, and those that were found to break an ingest: each holds. Oracle: `tests.lab.worlds.oracle`.

``python -m tests.lab.worlds`` draws more.
"""

import pytest

from tests.engines import sail
from tests.lab.worlds.oracle import SoundWorld

FOUND = (2747,)
"""Seeds of worlds that did not hold when they were drawn first."""


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    return SoundWorld(tmp_path_factory.mktemp("worlds"))


@pytest.mark.parametrize("seed", [*range(8), *FOUND])
def test_whatever_one_host_and_one_server_do_the_others_are_judged_rightly_or_not_at_all(sound, seed):
    found = sound.run_hostile(seed, sail())
    assert found.wrong == [], found.faults
