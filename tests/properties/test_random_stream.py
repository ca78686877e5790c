"""The random stream: the kernel's numbers are the readable ones to the bit, and they follow their distributions."""

from bisect import bisect_right
from fractions import Fraction

import numba as nb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.compilation import make_items
from pipeline.errors import InputError
from pipeline.simulator.distributions import (
    FIRST_FACTOR,
    FRACTION_BITS,
    GAMMA,
    LEVEL_COUNT,
    MAX_TABLE_VALUE,
    SECOND_FACTOR,
    TABLE_LENGTH,
    derive_stream,
    draw_bits,
    draw_index,
    draw_quantile,
    list_probabilities,
    make_exponential_table,
    make_quantile_table,
)
from pipeline.simulator.engine import primitives
from pipeline.simulator.engine.client_state import QuantileTable, RandomStream


@nb.njit
def draw_all(streams, distributions, bound, drawn):
    """Draws of each kind, each from a stream of its own: a row for each count."""
    for row in range(len(drawn)):
        drawn[row, 0] = primitives.draw_bits(streams[0])
        drawn[row, 1] = primitives.draw_index(streams[1], bound)
        drawn[row, 2] = primitives.draw_below(streams[2], bound)
        drawn[row, 3] = primitives.draw(distributions[0], streams[3])


def draw_rows(stream, bound, table, count):
    streams = make_items(RandomStream, 4)
    streams["key"] = stream
    distributions = make_items(QuantileTable, 1)
    distributions["quantiles"] = table
    drawn = np.empty((count, 4), np.uint64)
    draw_all(streams, distributions, bound, drawn)
    return drawn


STREAMS = st.integers(0, 2**64 - 1)
VALUES = st.integers(0, MAX_TABLE_VALUE)


@st.composite
def quantile_points(draw):
    inner = sorted(draw(st.lists(st.floats(0, 1), max_size=6)))
    values = sorted(draw(st.lists(VALUES, min_size=len(inner) + 2, max_size=len(inner) + 2)))
    return list(zip([0.0, *inner, 1.0], values, strict=True))


@given(stream=STREAMS, bound=st.integers(2, 2**31 - 1), points=quantile_points())
def test_kernel_draws_the_same(stream, bound, points):
    table = make_quantile_table(points)
    for count, row in enumerate(draw_rows(stream, bound, table, 40).tolist()):
        assert row == [
            draw_bits(stream, count),
            draw_index(stream, count, bound),
            (draw_bits(stream, count) >> 1) % bound,
            draw_quantile(stream, count, table),
        ]


def find_stream(bits):
    """The stream whose first number has these bits: SplitMix64's steps, backwards."""
    for shift, factor in ((31, SECOND_FACTOR), (27, FIRST_FACTOR), (30, 1)):
        value = bits
        for _ in range(64 // shift):
            value = bits ^ value >> shift
        bits = value * pow(factor, -1, 1 << 64) % (1 << 64)
    return (bits - GAMMA) % (1 << 64)


@pytest.mark.parametrize("ones", range(LEVEL_COUNT + 1))
@given(below=st.integers(0, 2**63 - 1))
@settings(max_examples=20)
def test_a_draw_is_the_quantile_at_its_uniform_number_however_far_in_the_tail(ones, below):
    """Oracle: the probabilities of the table's entries; level 22, the last but one, comes once in eight million draws."""
    bits = ((1 << ones) - 1) << (64 - ones) | below >> min(ones, 63)
    uniform, probabilities = Fraction(bits, 1 << 64), [Fraction(p) for p in list_probabilities()]
    place = bisect_right(probabilities, uniform) - 1
    width = probabilities[place + 1] - probabilities[place]
    expected = int((place + (uniform - probabilities[place]) / width) * (1 << FRACTION_BITS))

    table = np.arange(TABLE_LENGTH, dtype=np.int64) << FRACTION_BITS
    assert draw_bits(find_stream(bits), 0) == bits
    assert draw_quantile(find_stream(bits), 0, table) == expected
    assert draw_rows(find_stream(bits), 7, table, 1)[0, 3] == expected


@given(points=quantile_points())
def test_table_rises_from_the_least_to_the_largest(points):
    table = make_quantile_table(points)
    assert len(table) == TABLE_LENGTH
    assert (np.diff(table) >= 0).all()
    assert (table[0], table[-1]) == (points[0][1], points[-1][1])


@given(seed=st.integers(), purpose=st.text(), unit=st.integers(0, 100))
def test_streams_differ_by_purpose_and_unit(seed, purpose, unit):
    streams = [
        derive_stream(seed, purpose, unit),
        derive_stream(seed, purpose, unit + 1),
        derive_stream(seed + 1, purpose, unit),
    ]
    assert len({draw_bits(stream, 0) for stream in streams}) == 3


def draw_many(table, count=400_000):
    return draw_rows(derive_stream(7, "test"), 7, table, count)


def test_draws_follow_the_table():
    """Observed quantiles lie within five standard errors of the distribution's."""
    values = np.sort(draw_many(make_exponential_table(1_000_000))[:, 3].astype(float))
    for probability in (0.01, 0.25, 0.5, 0.9, 0.99, 0.999):
        place = int(probability * len(values))
        expected = -1e6 * np.log1p(-probability)
        error = np.sqrt(probability * (1 - probability) / len(values)) * 1e6 / (1 - probability)
        assert abs(values[place] - expected) < 5 * error, probability
    assert values.mean() == pytest.approx(1e6, rel=5 / np.sqrt(len(values)))


def test_bounded_draws_are_even():
    counts = np.bincount(draw_many(make_quantile_table([(0, 0), (1, 1)]))[:, 1].astype(np.int64), minlength=7)
    expected = counts.sum() / 7
    assert ((counts - expected) ** 2 / expected).sum() < 22.5  # chi square, 6 degrees of freedom: 99.9 %


def test_probabilities_rise_strictly():
    probabilities = list_probabilities()
    assert (len(probabilities), probabilities[0], probabilities[-1]) == (TABLE_LENGTH, 0.0, 1.0)
    assert (np.diff(probabilities) > 0).all()


@pytest.mark.parametrize(
    "points", [[], [(0.0, 1)], [(0.1, 1), (1.0, 2)], [(0.0, 1), (0.9, 2)], [(0.0, 2), (1.0, 1)], [(0.0, -1), (1.0, 1)]]
)
def test_points_that_are_no_distribution_are_refused(points):
    with pytest.raises(InputError, match="expected"):
        make_quantile_table(points)


@pytest.mark.parametrize("mean", [0, -5, MAX_TABLE_VALUE])
def test_means_out_of_range_are_refused(mean):
    with pytest.raises(InputError, match="expected 1 to"):
        make_exponential_table(mean)
