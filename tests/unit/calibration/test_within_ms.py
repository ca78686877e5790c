"""Where in a millisecond records are put: bursts stay together, steady records are spread, and nothing else is looked at."""

import numpy as np
import pytest

from pipeline.calibration.within_ms import Pattern, choose_pattern, place_within_ms

NS = 1_000_000


def random_ms(rate_per_s: int, together: int, seed: int) -> np.ndarray:
    calls = np.random.default_rng(seed).integers(0, 20_000, rate_per_s * 20 // together)
    return np.repeat(np.sort(calls), together)


@pytest.mark.parametrize("rate_per_s", [100, 500, 2_000, 10_000])
def test_independent_records_are_steady(rate_per_s):
    assert choose_pattern(random_ms(rate_per_s, 1, 1)) is Pattern.STEADY


@pytest.mark.parametrize(("rate_per_s", "together"), [(100, 3), (500, 2), (2_000, 6), (10_000, 50)])
def test_records_sent_together_are_bursts(rate_per_s, together):
    assert choose_pattern(random_ms(rate_per_s, together, 1)) is Pattern.BURST


@pytest.mark.parametrize("often", [0.02, 0.1, 0.2])
def test_a_clock_that_lets_two_go_at_once_now_and_then_sends_bursts(often):
    """A record every two milliseconds, sometimes three, and what is behind goes with the next: more even than chance."""
    rng = np.random.default_rng(1)
    ticks = np.cumsum(rng.choice([2, 3], 20_000, p=[0.85, 0.15]))
    at_ms = np.repeat(ticks, 1 + (rng.random(20_000) < often))
    occupied = len(np.unique(at_ms)) / (at_ms[-1] * -np.expm1(-len(at_ms) / at_ms[-1]))
    assert occupied > 1
    assert choose_pattern(at_ms) is Pattern.BURST


def test_independent_records_at_a_rate_that_swings_are_steady():
    """Ten a millisecond for some milliseconds, one in five for long: many fall together, as many side by side."""
    rng = np.random.default_rng(2)
    mean_ms = np.repeat(np.tile([0.1, 5.0], 200), 100)
    assert choose_pattern(np.cumsum(rng.exponential(mean_ms)).astype(np.int64)) is Pattern.STEADY


@pytest.mark.parametrize("at_ms", [[], [7], [7, 7], [0, 86_400_000]])
def test_few_records_are_steady(at_ms):
    assert choose_pattern(np.array(at_ms, np.int64)) is Pattern.STEADY


@pytest.mark.parametrize("pattern", Pattern)
@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_placed_records_keep_their_millisecond_and_order(pattern, kind):
    at_ms = random_ms(5_000, 3, 2).astype(kind)
    placed = place_within_ms(at_ms, pattern, 9)
    assert placed.dtype == np.int64
    assert (np.diff(placed) >= 0).all()
    np.testing.assert_array_equal(placed // NS, at_ms - at_ms[0])
    assert choose_pattern(placed // NS) is choose_pattern(at_ms)


@pytest.mark.parametrize("pattern", Pattern)
def test_a_place_depends_on_seed_and_times_alone(pattern):
    at_ms = random_ms(2_000, 2, 3)
    np.testing.assert_array_equal(place_within_ms(at_ms, pattern, 1), place_within_ms(at_ms + 10**12, pattern, 1))
    assert (place_within_ms(at_ms, pattern, 1) != place_within_ms(at_ms, pattern, 2)).mean() > 0.9


def test_a_burst_takes_microseconds_and_steady_records_lie_anywhere():
    at_ms = np.repeat(np.arange(0, 30_000, 30), 8)
    bursts = place_within_ms(at_ms, Pattern.BURST, 4).reshape(-1, 8)
    assert (np.diff(bursts, axis=1)[:, 0] == 11_000).all()
    assert (np.diff(bursts, axis=1)[:, 1:] == 1_000).all()
    steady = place_within_ms(at_ms, Pattern.STEADY, 4) % NS
    assert abs(steady.mean() - NS / 2) < 0.02 * NS
    assert np.histogram(steady, 10, (0, NS))[0].min() > 700


@pytest.mark.parametrize("step_us", [5, 10, 20])
def test_the_pace_of_bursts_follows_from_how_often_a_millisecond_ends_in_one(step_us):
    begin_us = np.arange(0, 124_000_000, 31_000) + np.random.default_rng(3).integers(0, 1_000, 4_000)
    at_us = (begin_us[:, None] + np.arange(40) * step_us).ravel()
    placed = place_within_ms(at_us // 1_000, Pattern.BURST, 5)
    assert np.median(np.diff(placed)) / 1_000 == pytest.approx(step_us, rel=0.15)


def test_records_that_come_between_bursts_lie_anywhere():
    rng = np.random.default_rng(4)
    alone_ms = np.setdiff1d(rng.integers(0, 60_000, 30_000), np.arange(0, 60_000, 40))
    at_ms = np.sort(np.append(alone_ms, np.repeat(np.arange(0, 60_000, 40), 30)))
    placed = place_within_ms(at_ms, Pattern.BURST, 6)
    alone = placed[np.isin(at_ms, alone_ms)] % NS
    assert np.histogram(alone, 10, (0, NS))[0].min() > 0.09 * len(alone)
    assert (np.ptp(placed[~np.isin(at_ms, alone_ms)].reshape(-1, 30), axis=1) == 39_000).all()
