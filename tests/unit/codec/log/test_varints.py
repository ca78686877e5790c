"""Varints; oracle: the byte tables of Kafka's `ByteUtilsTest.testVarintSerde` and `testVarlongSerde`."""

from functools import partial

import pytest

from pipeline.codec.log.record_batch import read_varint
from pipeline.errors import InputError
from tests.record_writers import write_varint

VARINTS = [
    (0, "00"),
    (-1, "01"),
    (1, "02"),
    (63, "7e"),
    (-64, "7f"),
    (64, "80 01"),
    (-65, "81 01"),
    (8191, "fe 7f"),
    (-8192, "ff 7f"),
    (8192, "80 80 01"),
    (1048575, "fe ff 7f"),
    (-1048576, "ff ff 7f"),
    (134217727, "fe ff ff 7f"),
    (-134217728, "ff ff ff 7f"),
    (2**31 - 1, "fe ff ff ff 0f"),
    (-(2**31), "ff ff ff ff 0f"),
]
VARLONGS = [
    (17179869183, "fe ff ff ff 7f"),
    (-17179869184, "ff ff ff ff 7f"),
    (2**63 - 1, "fe ff ff ff ff ff ff ff ff 01"),
    (-(2**63), "ff ff ff ff ff ff ff ff ff 01"),
]


@pytest.mark.parametrize(("value", "text"), [*VARINTS, *VARLONGS])
def test_varint(value, text):
    data = bytes.fromhex(text)
    assert write_varint(value) == data
    assert read_varint(data, 0, bits=64) == (value, len(data))
    if (value, text) in VARINTS:
        assert read_varint(b"\xff" + data + b"\xff", 1) == (value, 1 + len(data))


BROKEN = [
    (read_varint, "80 80 80 80 80 01", "longer than 5 bytes"),
    (read_varint, "80 80 80 80 10", "does not fit in 32 bits"),
    (partial(read_varint, bits=64), "80 80 80 80 80 80 80 80 80 80 01", "longer than 10 bytes"),
    (partial(read_varint, bits=64), "80 80 80 80 80 80 80 80 80 02", "does not fit in 64 bits"),
    (read_varint, "80", "data end inside"),
    (read_varint, "", "data end inside"),
]


@pytest.mark.parametrize(("read", "text", "reason"), BROKEN)
def test_broken(read, text, reason):
    with pytest.raises(InputError, match=reason):
        read(bytes.fromhex(text), 0)
