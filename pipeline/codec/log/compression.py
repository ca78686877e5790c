"""Decompresses the record sets of batches into memory that the caller owns; a bomb ends at the bound of `bound_output_bytes`.

The quickest for small batches: zstd by `zstandard`, LZ4 frames cut here into blocks for `cramjam`, which has Snappy and gzip, too.
References: Kafka `common.compress.*`, `Lz4BlockInputStream`; xerial `SnappyInputStream`; the LZ4 frame format.
"""

from collections.abc import Callable

import cramjam
import numpy as np
import zstandard

from pipeline.errors import InputError
from pipeline.model.log import Codec

MAX_OUTPUT_BYTES = 256 << 20
MAX_OUTPUT_RATIO = 1100  # gzip reaches 1032, LZ4 255; zstd of constant values may go beyond, see the floor
UNBOUNDED_RATIO_BYTES = 16 << 20  # below this size no ratio is suspicious: a batch of constant values
XERIAL_MAGIC = b"\x82SNAPPY\x00"
XERIAL_HEADER_BYTES = 16  # magic, version, lowest compatible version
LZ4_MAGIC = b"\x04\x22\x4d\x18"
LZ4_BLOCK_BYTES = {4: 64 << 10, 5: 256 << 10, 6: 1 << 20, 7: 4 << 20}
Buffer = bytes | memoryview
_FEW_BLOCKS, _LEAST_BLOCK_BYTES = 1024, 32
"""Clients fill blocks of 1 KiB (Snappy before 1.0) or more, which take more than 32 bytes even of zeros; a set may have others."""
_GZIP_MAGIC = b"\x1f\x8b\x08"


def bound_output_bytes(input_bytes: int, *, max_bytes: int = MAX_OUTPUT_BYTES) -> int:
    """Says how many bytes an input may become: the ratio, but at least 16 MiB, and never more than `max_bytes`."""
    return min(max_bytes, max(UNBOUNDED_RATIO_BYTES, input_bytes * MAX_OUTPUT_RATIO))


def decompress(codec: int, data: Buffer, *, max_bytes: int = MAX_OUTPUT_BYTES) -> bytes:
    """Decompresses one record set by a `Codec`, bits 0-2 of the attributes; `InputError` as `decompress_into`."""
    bound = bound_output_bytes(len(data), max_bytes=max_bytes)
    output = np.empty(bound, np.uint8).data  # pages that are not written to take no memory
    return bytes(output[: decompress_into(codec, data, output)])


def decompress_into(codec: int, data: Buffer, output: memoryview) -> int:
    """Decompresses a record set; gives the bytes written. `InputError`: broken data, unknown codec, too much output."""
    decompressor = _DECOMPRESSORS.get(codec)
    if decompressor is None:
        raise InputError(f"unknown compression codec {codec}", first_bytes=bytes(data[:64]))
    try:
        return decompressor(data, output)
    except (cramjam.DecompressionError, zstandard.ZstdError) as error:
        reason = f"{Codec(codec).name.lower()} data do not decompress: {error}"
        if "failed to write whole buffer" in reason:
            reason = _too_large(Codec(codec), len(output))
        raise InputError(reason, first_bytes=bytes(data[:64])) from error


_TOO_MANY_BLOCKS = "more compressed blocks than a client makes of so few bytes"


def _too_large(codec: Codec, room_bytes: int) -> str:
    return f"{codec.name.lower()} data decompress to more than {room_bytes} bytes"


def _copy(data: Buffer, output: memoryview) -> int:
    if len(data) > len(output):
        raise InputError(_too_large(Codec.NONE, len(output)))
    output[: len(data)] = data
    return len(data)


def _unzstd_into(data: Buffer, output: memoryview) -> int:
    opened = zstandard.ZstdDecompressor(max_window_size=128 << 20)  # its own default for streams, and Kafka's
    with opened.stream_reader(data, read_across_frames=True) as reader:
        written = reader.readinto(output)
        if written == len(output) and reader.read(1):
            raise InputError(_too_large(Codec.ZSTD, len(output)))
    return written


def _bound_blocks(data: Buffer) -> int:
    return _FEW_BLOCKS + len(data) // _LEAST_BLOCK_BYTES


def _ungzip_into(data: Buffer, output: memoryview) -> int:
    if bytes(data).count(_GZIP_MAGIC) > _bound_blocks(data):
        raise InputError(_TOO_MANY_BLOCKS)
    return int(cramjam.gzip.decompress_into(data, output))


def _unsnappy_into(data: Buffer, output: memoryview) -> int:
    if bytes(data[:8]) != XERIAL_MAGIC:
        return _unsnappy_block_into(data, output)
    position, written = XERIAL_HEADER_BYTES, 0
    for _ in range(_bound_blocks(data)):
        if position >= len(data):
            return written
        block_bytes = int.from_bytes(data[position : position + 4], "big", signed=True)
        position += 4
        if not 0 <= block_bytes <= len(data) - position:
            raise InputError(f"a snappy block longer than the {len(data) - position} bytes that are left")
        written += _unsnappy_block_into(data[position : position + block_bytes], output[written:])
        position += block_bytes
    raise InputError(_TOO_MANY_BLOCKS)


def _unsnappy_block_into(block: Buffer, output: memoryview) -> int:
    claimed_bytes = int(cramjam.snappy.decompress_raw_len(block))
    if claimed_bytes > len(output):
        raise InputError(_too_large(Codec.SNAPPY, len(output)))
    return int(cramjam.snappy.decompress_raw_into(block, output)) if claimed_bytes else 0


def _unlz4_into(data: Buffer, output: memoryview) -> int:
    # the header's checksum is not looked at: clients of magic 0 computed it over wrong bytes, and the batch has its own
    if bytes(data[:4]) != LZ4_MAGIC or len(data) < 7:
        raise InputError("lz4 data do not begin with a frame header", first_bytes=bytes(data[:64]))
    flags, block_size_code = data[4], (data[5] >> 4) & 7
    if flags >> 6 != 1 or block_size_code not in LZ4_BLOCK_BYTES:
        raise InputError(f"lz4 frame with flags {flags:#x} and block size code {block_size_code}: not of version 1")
    if not flags & 0x20:  # linked blocks, which Kafka's own reader refuses
        return int(cramjam.lz4.decompress_into(data, output))
    position = 7 + 8 * bool(flags & 0x08) + 4 * bool(flags & 0x01)
    trailer_bytes = 4 * bool(flags & 0x10)
    written = 0
    for _ in range(_bound_blocks(data)):
        header = int.from_bytes(data[position : position + 4], "little")
        position += 4
        if position > len(data):
            raise InputError("lz4 frame ends before its end mark")
        if header & 0x7FFFFFFF == 0:
            return written
        block = data[position : position + (header & 0x7FFFFFFF)]
        if len(block) < header & 0x7FFFFFFF:
            raise InputError(f"an lz4 block longer than the {len(block)} bytes that are left")
        room = output[written : written + LZ4_BLOCK_BYTES[block_size_code]]
        written += _unlz4_block_into(block, room, stored=bool(header >> 31), rest_bytes=len(output) - written)
        position += len(block) + trailer_bytes
    raise InputError(_TOO_MANY_BLOCKS)


def _unlz4_block_into(block: Buffer, room: memoryview, *, stored: bool, rest_bytes: int) -> int:
    if stored:
        return _copy(block, room)
    try:
        return int(cramjam.lz4.decompress_block_into(block, room, output_len=len(room)))
    except cramjam.DecompressionError as error:
        if len(room) == rest_bytes:
            raise InputError(f"lz4 data are broken or decompress to more than the {rest_bytes} bytes left") from error
        raise


_DECOMPRESSORS: dict[int, Callable[[Buffer, memoryview], int]] = {
    Codec.NONE: _copy,
    Codec.GZIP: _ungzip_into,
    Codec.SNAPPY: _unsnappy_into,
    Codec.LZ4: _unlz4_into,
    Codec.ZSTD: _unzstd_into,
}
