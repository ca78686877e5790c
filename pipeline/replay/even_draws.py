"""Draws of what is open about a whole run, spread evenly over the seeds.

Ten seeds that each draw a number by themselves may well draw eight of ten on one side; the median over them then tells of
luck. Here seed by seed the place in the range goes on by an irrational step, so that any few seeds in a row cover all of it.
Each seed's draw is its own all the same: it does not depend on how many there are.

References:
    Niederreiter, Random Number Generation and Quasi-Monte Carlo Methods, 1992, section 3.1: multiples of a number whose
    continued fraction has small terms only, such as the golden ratio and the square root of 2.
"""

from __future__ import annotations

from enum import Enum

from pipeline.simulator.engine.random_stream import derive_stream

_ONE = 1 << 64


class Step(Enum):
    """What is drawn: two things of one run go on by different steps, or they would rise and fall together."""

    THREADS = round(0.6180339887498949 * _ONE)
    DELAY = round(0.4142135623730950 * _ONE)


def draw_evenly(seed: int, step: Step, name: str) -> float:
    """A place from 0 to below 1.

    Args:
        seed: Of the replay.
        step: What is drawn.
        name: Whose it is: where the first seed begins follows from it.

    >>> [round(draw_evenly(seed, Step.DELAY, "broker 1") - draw_evenly(seed + 1, Step.DELAY, "broker 1"), 2) for seed in (1, 2)]
    [0.59, -0.41]
    """
    return (derive_stream(0, step.name, name) + seed * step.value) % _ONE / _ONE
