"""Batch arithmetic: the bytes that an encoder really writes, and the kernel's are the same."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.simulator.batch_size import (
    BATCH_HEADER_BYTES,
    FIRST_RATIO,
    bound_record,
    estimate_batch,
    size_payload,
    size_record,
    size_varint,
    update_ratio,
)
from pipeline.simulator.batch_size_kernels import size_all
from tests.batches import make_batch, make_records

SIZES = st.integers(-1, 1 << 20)
RATIOS = st.floats(0.0009765625, 3, width=32)


@given(
    numbers=st.tuples(SIZES, SIZES, st.integers(0, 5000), st.integers(-(2**40), 2**40), st.integers(0, 2**20)),
    ratios=st.tuples(RATIOS, RATIOS),
)
def test_kernel_counts_the_same(numbers, ratios):
    key_bytes, value_bytes, headers_bytes, timestamp_delta_ms, offset_delta = numbers
    ratio, observed = np.array(ratios, np.float32)
    sizes = np.empty((1, 6))
    size_all(np.array([numbers]), np.array([ratios], np.float32), sizes)
    payload_bytes = size_payload(key_bytes, value_bytes, headers_bytes)
    assert sizes[0].tolist() == [
        size_varint(timestamp_delta_ms),
        payload_bytes,
        size_record(timestamp_delta_ms, offset_delta, payload_bytes),
        bound_record(payload_bytes),
        estimate_batch(value_bytes, ratio, is_compressed=True),
        update_ratio(ratio, observed),
    ]


@pytest.mark.parametrize("value_bytes", [0, 40, 100, 512, 9000])
@pytest.mark.parametrize("key", [None, b"", b"user-7", b"k" * 70])
@pytest.mark.parametrize("record_count", [1, 3, 70])
def test_sizes_are_those_an_encoder_writes(key, value_bytes, record_count):
    records = make_records(record_count, key=key, value=b"v" * value_bytes)
    payload_bytes = size_payload(-1 if key is None else len(key), value_bytes)
    first_ms = records[0].timestamp_ms
    expected = sum(size_record(r.timestamp_ms - first_ms, number, payload_bytes) for number, r in enumerate(records))
    assert len(make_batch(records)) == BATCH_HEADER_BYTES + expected
    assert expected <= record_count * (bound_record(payload_bytes) - BATCH_HEADER_BYTES)


def test_ratio_climbs_fast_and_falls_slowly():
    assert update_ratio(FIRST_RATIO, np.float32(0.4)) == pytest.approx(0.995)
    assert update_ratio(np.float32(0.4), np.float32(0.41)) == pytest.approx(0.45)
    assert update_ratio(np.float32(0.4), np.float32(0.7)) == pytest.approx(0.7)
    assert update_ratio(np.float32(0.4), np.float32(0.399)) == pytest.approx(0.399)
