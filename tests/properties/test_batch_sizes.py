"""Batch arithmetic: the bytes that an encoder really writes, and compiled functions give the same."""

import numba as nb
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.simulator.engine.batches import (
    BATCH_HEADER_BYTES,
    FIRST_RATIO,
    estimate_batch_bytes,
    estimate_compressed_bytes,
    measure_body_bytes,
    measure_record_bytes,
    measure_varint_bytes,
    update_ratio,
)
from tests.batches import make_batch, make_records

RATIOS = st.floats(0.0009765625, 3, width=32)


@nb.njit
def measure_all(body_bytes, offset_delta, timestamp_delta_ms, ratio, observed):
    return (
        measure_varint_bytes(timestamp_delta_ms),
        measure_record_bytes(body_bytes, offset_delta, timestamp_delta_ms),
        estimate_compressed_bytes(body_bytes, ratio),
        update_ratio(ratio, observed),
    )


@given(
    numbers=st.tuples(st.integers(6, 1 << 30), st.integers(0, 2**20), st.integers(0, 2**40)),
    ratios=st.tuples(RATIOS, RATIOS),
)
def test_kernel_counts_the_same(numbers, ratios):
    ratio, observed = np.array(ratios, np.float32)
    assert measure_all(*numbers, ratio, observed) == measure_all.py_func(*numbers, ratio, observed)


@pytest.mark.parametrize("value_bytes", [0, 40, 100, 512, 9000])
@pytest.mark.parametrize("key", [None, b"", b"user-7", b"k" * 70])
@pytest.mark.parametrize("record_count", [1, 3, 70])
def test_sizes_are_those_an_encoder_writes(key, value_bytes, record_count):
    records = make_records(record_count, key=key, value=b"v" * value_bytes)
    body_bytes = measure_body_bytes(-1 if key is None else len(key), value_bytes)
    first_ms = records[0].timestamp_ms
    expected = sum(measure_record_bytes(body_bytes, i, r.timestamp_ms - first_ms) for i, r in enumerate(records))
    assert len(make_batch(records)) == BATCH_HEADER_BYTES + expected
    assert expected <= record_count * (estimate_batch_bytes(body_bytes) - BATCH_HEADER_BYTES)


def test_ratio_climbs_fast_and_falls_slowly():
    assert update_ratio(FIRST_RATIO, np.float32(0.4)) == pytest.approx(0.995)
    assert update_ratio(np.float32(0.4), np.float32(0.41)) == pytest.approx(0.45)
    assert update_ratio(np.float32(0.4), np.float32(0.7)) == pytest.approx(0.7)
    assert update_ratio(np.float32(0.4), np.float32(0.399)) == pytest.approx(0.399)
