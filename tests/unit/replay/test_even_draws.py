"""Draws of runs: any few seeds in a row cover the range, one by one, and two things of a run are not drawn alike."""

import numpy as np
import pytest

from pipeline.replay.simulated.scenario import Step, draw_evenly


def draw(step, name, seeds):
    return np.array([draw_evenly(seed, step, name) for seed in seeds])


@pytest.mark.parametrize("step", Step)
@pytest.mark.parametrize("count", [5, 10, 20])
def test_a_few_seeds_in_a_row_cover_all_of_the_range(step, count):
    """No gap of more than three times the mean one, wherever they begin."""
    for first in (1, 17, 1_000_000):
        drawn = np.sort(draw(step, "a", range(first, first + count)))
        assert np.diff([*drawn, drawn[0] + 1]).max() < 3 / count
        assert 0 <= drawn[0] < drawn[-1] < 1


def test_two_things_of_a_run_are_not_drawn_alike():
    seeds = range(1, 501)
    threads, delay, other = draw(Step.THREADS, "a", seeds), draw(Step.DELAY, "a", seeds), draw(Step.DELAY, "b", seeds)
    assert abs(np.corrcoef(threads, delay)[0, 1]) < 0.05
    assert threads[0] != delay[0] != other[0]
