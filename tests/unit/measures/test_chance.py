"""Chance levels against placements drawn by a seeded generator, and against published figures.

Oracles: a naive simulation (every unit drawn on its own); false alarm figures worked out beforehand by simulation;
the worked example of Benjamini and Hochberg (1995), section 3.2.
"""

import math

import numpy as np
import pytest

from pipeline.measures.chance import (
    SlotLoads,
    bound_chance,
    chance_cv,
    chance_p_value,
    chance_ratio,
    effective_units,
    estimate_inflation,
    peak_share_ratios,
    required_units,
    required_units_of_share,
    significant,
    slot_ms,
)

WINDOWS = 4_000


def drawn_shares(weights, broker_probabilities, seed):
    """Shares of each broker in `WINDOWS` windows, every unit placed on its own; shape (windows, brokers)."""
    rng = np.random.default_rng(seed)
    brokers = len(broker_probabilities)
    shares = np.empty((WINDOWS, brokers))
    for window in range(WINDOWS):
        placed = rng.choice(brokers, size=len(weights), p=broker_probabilities)
        shares[window] = np.bincount(placed, weights=weights, minlength=brokers) / weights.sum()
    return shares


WEIGHTS = {
    "equal": np.ones(900),
    "log-normal": np.random.default_rng(1).lognormal(9, 0.5, 1_200),
    "two sizes": np.repeat([16_000.0, 500.0], [600, 400]),
}


@pytest.mark.parametrize("weights", WEIGHTS.values(), ids=WEIGHTS)
@pytest.mark.parametrize("probabilities", [(1 / 3, 1 / 3, 1 / 3), (0.2, 0.3, 0.5)], ids=["even", "capacities"])
def test_chance_ratio_is_exceeded_as_often_as_its_level_says(weights, probabilities):
    unit_count = effective_units(weights.sum(), (weights**2).sum())
    ratios = drawn_shares(weights, probabilities, seed=7) / probabilities
    for broker, expected_share in enumerate(probabilities):
        bound = chance_ratio(expected_share, unit_count, 0.05)
        assert np.mean(ratios[:, broker] > bound) == pytest.approx(0.05, abs=0.015)


def test_p_values_of_pure_chance_are_even():
    weights = WEIGHTS["log-normal"]
    unit_count = effective_units(weights.sum(), (weights**2).sum())
    ratios = drawn_shares(weights, (0.5, 0.25, 0.25), seed=8)[:, 1] / 0.25
    p_values = [chance_p_value(ratio, 0.25, unit_count) for ratio in ratios]
    assert np.quantile(p_values, [0.1, 0.5, 0.9]) == pytest.approx([0.1, 0.5, 0.9], abs=0.03)


@pytest.mark.parametrize(("partitions", "units", "percent"), [(12, 10_000, 3.3), (100, 10_000, 10.0), (12, 18.7, 77.0)])
def test_chance_cv_as_published_in_the_notes_of_the_field(partitions, units, percent):
    assert 100 * chance_cv(partitions, units) == pytest.approx(percent, rel=0.02)


@pytest.mark.parametrize(
    ("partitions", "excess", "level", "units"), [(12, 0.2, 0.001, 4_253), (100, 0.2, 0.001, 45_474)]
)
def test_required_units_as_published_in_the_notes_of_the_field(partitions, excess, level, units):
    assert math.ceil(required_units(partitions, excess, level)) == units


def test_half_the_excess_takes_four_times_the_units():
    assert required_units(3, 0.1, 0.001) == pytest.approx(4 * required_units(3, 0.2, 0.001))


def test_at_the_required_units_the_excess_is_what_chance_reaches_at_that_level():
    expected_share, level, brokers = 0.25, 0.004, 4
    units = required_units_of_share(expected_share, 0.2, level, brokers)
    # The requirement leaves out the factor 1 - e, hence asks for a little more than the bound needs.
    assert 1 + 0.2 * math.sqrt(1 - expected_share) == pytest.approx(
        chance_ratio(expected_share, units, level / brokers)
    )


def test_a_ratio_never_exceeds_all_of_the_traffic():
    assert chance_ratio(0.5, 1.0, 0.001) == 2.0


def test_benjamini_hochberg_worked_example():
    published = [
        *(0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459),
        *(0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.000),
    ]
    assert significant(published, 0.05).tolist() == [True] * 4 + [False] * 11
    assert significant(published[::-1], 0.05).tolist() == [False] * 11 + [True] * 4
    assert significant([], 0.05).tolist() == []


def test_benjamini_hochberg_takes_a_p_value_at_the_level_itself():
    assert significant([0.5, 0.25], 0.5).tolist() == [True, True]
    assert significant([0.75, 0.25], 0.5).tolist() == [False, True]
    assert significant([0.75, 0.26], 0.5).tolist() == [False, False]


def test_tiny_traffic_makes_no_units():
    assert effective_units(0, 0) is None
    assert effective_units(10, 0) is None


def test_units_that_a_verdict_needs():
    assert round(required_units_of_share(1 / 3, 0.2, 0.001, 3)) == 868


@pytest.mark.parametrize(
    ("ratio", "share", "true_ratio", "chance"),
    [(1.0, 1 / 3, 1.0, 0.5), (1.2, 1 / 3, 1.0, 1.3e-45), (1.0, 1.0, 1.0, 1.0), (1.25, 1 / 3, 1.2, 0.0003)],
)
def test_chance_of_a_ratio(ratio, share, true_ratio, chance):
    assert chance_p_value(ratio, share, 10_000, true_ratio=true_ratio) == pytest.approx(chance, rel=0.3)


def test_bound_on_chance():
    assert f"{bound_chance(1.689 / 3 - 1 / 3, 736):.0e}" == "2e-34"
    assert bound_chance(0.0, 736) == 1.0


def test_runs_of_batches_inflate_chance_and_single_ones_do_not():
    rng = np.random.default_rng(7)
    single = rng.multinomial(10_000, [1 / 6] * 6, size=60).astype(float)
    assert estimate_inflation(SlotLoads(size_bytes=single, squared=single.sum(axis=1))) == 1.0
    runs = rng.multinomial(400, [1 / 6] * 6, size=60) * 25.0  # runs of 25 batches of 1 byte
    assert 20 < estimate_inflation(SlotLoads(size_bytes=runs, squared=runs.sum(axis=1))) < 35


def test_the_busiest_slot():
    slots = SlotLoads(size_bytes=np.array([[10.0, 10], [30, 10], [0, 0], [0, 0]]), squared=np.ones(4))
    assert peak_share_ratios(slots, np.array([0.5, 0.5])).tolist() == [4.0, 1.3333333333333333]
    assert (slot_ms(3_600_000), slot_ms(60_000)) == (60_000, 5_000)
