"""Decompression within bounds; oracles: the compressors in `tests/batches.py`, which are other code than the readers."""

import gzip
import random
import resource
import sys

import cramjam
import pytest
import zstandard

from pipeline.codec.log.compression import bound_output_bytes, decompress
from pipeline.errors import InputError
from pipeline.model.log import Codec
from tests.batches import compress, frame_lz4

TEXT = b"".join(b'{"order":%d,"price":%d}' % (i, i * 7919 % 1000) for i in range(9000))  # more than three LZ4 blocks
NOISE = random.Random(2).randbytes(100_000)


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("data", [b"", b"x", TEXT, NOISE], ids=["empty", "one byte", "text", "noise"])
def test_round_trip(codec, data):
    assert decompress(codec, compress(codec, data)) == data


FRAMINGS = [
    ("raw snappy", Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(TEXT))),
    ("lz4, header checksum of magic 0", Codec.LZ4, frame_lz4(TEXT, header_checksum=b"\x1a")),
    ("lz4, checksums of blocks and content", Codec.LZ4, frame_lz4(TEXT, flags=0x74)),
    ("lz4, stored blocks", Codec.LZ4, frame_lz4(TEXT, stored=True)),
    ("lz4, linked blocks", Codec.LZ4, bytes(cramjam.lz4.compress(TEXT))),
    ("gzip, two members", Codec.GZIP, gzip.compress(TEXT[:1000]) + gzip.compress(TEXT[1000:])),
    ("zstd, two frames", Codec.ZSTD, zstandard.compress(TEXT[:1000]) + zstandard.compress(TEXT[1000:])),
    ("zstd, size not told", Codec.ZSTD, zstandard.ZstdCompressor(write_content_size=False).compress(TEXT)),
]


@pytest.mark.parametrize(("codec", "data"), [f[1:] for f in FRAMINGS], ids=[f[0] for f in FRAMINGS])
def test_framings_seen_in_the_field(codec, data):
    assert decompress(codec, data) == TEXT


def test_memoryview_in():
    assert decompress(Codec.ZSTD, memoryview(b"__" + zstandard.compress(TEXT))[2:]) == TEXT


GARBAGE = [
    (Codec.GZIP, b"{"),
    (Codec.GZIP, NOISE[:50]),
    (Codec.GZIP, bytes(50)),
    (Codec.SNAPPY, b"{"),
    (Codec.SNAPPY, NOISE[:50]),
    (Codec.SNAPPY, b"\x82SNAPPY\0" + bytes(7) + b"\1" + b"\0\0\1\0abc"),  # a block longer than the data
    (Codec.LZ4, b""),
    (Codec.LZ4, NOISE[:50]),
    (Codec.LZ4, bytes(50)),
    (Codec.LZ4, frame_lz4(TEXT)[:7]),
    (Codec.ZSTD, b"{" * 5),
    (Codec.ZSTD, NOISE[:50]),
    (Codec.ZSTD, bytes(50)),
    (Codec.ZSTD, zstandard.compress(TEXT) + b"trailing"),
]


@pytest.mark.parametrize(("codec", "data"), GARBAGE)
def test_garbage_is_refused(codec, data):
    with pytest.raises(InputError):
        decompress(codec, data)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4])
def test_truncated_is_refused(codec):
    with pytest.raises(InputError):
        decompress(codec, compress(codec, TEXT)[:-5])


def test_unknown_codec():
    with pytest.raises(InputError, match="unknown compression codec 6"):
        decompress(6, b"abc")


@pytest.mark.parametrize("codec", list(Codec))
def test_absolute_bound(codec):
    data = compress(codec, TEXT)
    assert decompress(codec, data, max_bytes=len(TEXT)) == TEXT
    with pytest.raises(InputError, match="more than"):
        decompress(codec, data, max_bytes=len(TEXT) - 1)


@pytest.mark.parametrize(
    ("input_bytes", "bound"),
    [(10, 16 << 20), (16 << 10, 1100 * (16 << 10)), (1 << 30, 256 << 20)],
    ids=["floor", "ratio", "absolute"],
)
def test_bound_is_the_ratio_between_a_floor_and_a_ceiling(input_bytes, bound):
    assert bound_output_bytes(input_bytes) == bound


def test_bombs_stop_before_memory_is_gone():
    """2 GiB of zeros in three codecs: each is refused, and no more than the bound was ever touched."""
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    zeros = bytes(1 << 20)
    zstd = zstandard.ZstdCompressor().compressobj()
    bomb = b"".join(zstd.compress(zeros) for _ in range(2048)) + zstd.flush()
    snappy = bytes.fromhex("ffffffff07") + b"\0" * 20  # a block that claims 2 GiB
    for codec, data in ((Codec.ZSTD, bomb), (Codec.SNAPPY, snappy), (Codec.GZIP, gzip.compress(bytes(32 << 20)))):
        with pytest.raises(InputError, match="more than"):
            decompress(codec, data, max_bytes=20 << 20)
    assert len(bomb) < 200_000
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib
    if sys.platform == "linux":
        assert grown_kib < 150 << 10


LZ4_HEAD = frame_lz4(b"")[:7]
XERIAL_HEAD = b"\x82SNAPPY\x00" + bytes(3) + b"\x01" + bytes(3) + b"\x01"
BLOCKS = {
    "lz4, stored": (Codec.LZ4, LZ4_HEAD + bytes.fromhex("0100008061") * 3_000 + bytes(4)),
    "snappy, empty": (Codec.SNAPPY, XERIAL_HEAD + bytes.fromhex("0000000100") * 3_000),
    "snappy, of no bytes": (Codec.SNAPPY, XERIAL_HEAD + bytes(4) * 3_000),
    "gzip, empty": (Codec.GZIP, gzip.compress(b"") * 4_000),
}


@pytest.mark.parametrize(("codec", "data"), BLOCKS.values(), ids=BLOCKS)
def test_a_set_of_next_to_empty_blocks_is_refused(codec, data):
    """They were read at 5 MiB/s; a batch of a mebibyte has room for 200,000 of them."""
    with pytest.raises(InputError, match="more compressed blocks"):
        decompress(codec, data)


@pytest.mark.parametrize("value", [bytes(8 << 20), random.Random(1).randbytes(8 << 20)], ids=["zeros", "noise"])
def test_the_smallest_blocks_that_clients_make_are_read(value):
    """Java clients before 1.0 gave Snappy a buffer of 1 KiB."""
    data = XERIAL_HEAD
    for start in range(0, len(value), 1 << 10):
        block = bytes(cramjam.snappy.compress_raw(value[start : start + (1 << 10)]))
        data += len(block).to_bytes(4, "big") + block
    assert decompress(Codec.SNAPPY, data) == value


def test_an_empty_stored_block_ends_an_lz4_frame_as_it_does_in_kafka():
    """`Lz4BlockInputStream.readBlock` takes the bit of a stored block away before it looks for the end."""
    assert decompress(Codec.LZ4, frame_lz4(TEXT)[:-4] + bytes.fromhex("00000080") + b"what follows") == TEXT
