"""Batches for kernels: `reference.batch`, in the run's memory. The times of a batch's records are in a chain of blocks."""

from __future__ import annotations

from typing import Any

import numpy as np

from pipeline.compilation import part
from pipeline.simulator.engine import layout as at
from pipeline.simulator.engine.heap_kernels import take_object
from pipeline.simulator.engine.record_size import BATCH_HEADER_BYTES
from pipeline.simulator.engine.size_kernels import estimate_compressed_bytes, measure_record_bytes

Array = Any  # inside a kernel, an array's items are Numba's numbers
Ratio = Any  # inside a kernel, float32

MS = 1_000_000


@part
def take_block(memory: Array) -> int:
    """An empty block."""
    block = take_object(memory, at.FREE_BLOCK, at.BLOCK_WORDS)
    memory[block + at.BLOCK_NEXT] = at.NONE
    memory[block + at.BLOCK_USED] = 0
    return block


@part
def take_batch(memory: Array) -> int:
    """A batch of zeros."""
    batch = take_object(memory, at.FREE_BATCH, at.BATCH_WORDS)
    for word in range(at.BATCH_WORDS):
        memory[batch + word] = 0
    return batch


@part
def free_batch(memory: Array, batch: int) -> None:
    """Gives a batch and its blocks back."""
    last_block = memory[batch + at.BATCH_LAST_BLOCK]
    if last_block != at.NONE:
        memory[last_block + at.BLOCK_NEXT] = memory[at.FREE_BLOCK]
        memory[at.FREE_BLOCK] = memory[batch + at.BATCH_BLOCKS]
    memory[batch + at.BATCH_NEXT] = memory[at.FREE_BATCH]
    memory[at.FREE_BATCH] = batch


@part
def read_ratio(memory: Array, word: int) -> Ratio:
    """A ratio kept as the bits of single precision."""
    return np.int32(memory[word]).view(np.float32)


@part
def write_ratio(memory: Array, word: int, ratio: Ratio) -> None:
    """Keeps a ratio as the bits of single precision."""
    memory[word] = np.float32(ratio).view(np.int32)


@part
def is_full(memory: Array, batch: int, record_limit: int) -> bool:
    """It is closed, or no byte is left."""
    record_count = memory[batch + at.BATCH_RECORD_COUNT]
    if memory[batch + at.BATCH_IS_CLOSED] or (record_limit and record_count >= record_limit):
        return True
    is_used_up = memory[batch + at.BATCH_CAPACITY_BYTES] <= memory[batch + at.BATCH_ESTIMATED_BYTES]
    return record_count > 0 and is_used_up


@part
def measure_record(memory: Array, batch: int, body_bytes: int, created_ns: int) -> int:
    """Bytes a record would take in a batch, uncompressed."""
    record_count = memory[batch + at.BATCH_RECORD_COUNT]
    if record_count == 0:
        return measure_record_bytes(body_bytes, 0, 0)
    return measure_record_bytes(body_bytes, record_count, created_ns // MS - memory[batch + at.BATCH_FIRST_MS])


@part
def has_room(memory: Array, batch: int, record_limit: int, record_bytes: int) -> bool:
    """Tells whether a record of so many bytes may join."""
    if is_full(memory, batch, record_limit):
        return False
    free_bytes = memory[batch + at.BATCH_CAPACITY_BYTES] - memory[batch + at.BATCH_ESTIMATED_BYTES]
    return memory[batch + at.BATCH_RECORD_COUNT] == 0 or free_bytes >= record_bytes


@part
def put_record(
    memory: Array,
    batch: int,
    record_bytes: int,
    body_bytes: int,
    sent_at_ns: int,
    created_ns: int,
    thread: int,
    is_compressed: bool,
) -> int:
    """Puts a record in, and returns by how many bytes the estimate grew."""
    record_count = memory[batch + at.BATCH_RECORD_COUNT]
    before_bytes = memory[batch + at.BATCH_ESTIMATED_BYTES]
    all_bytes = memory[batch + at.BATCH_RECORD_BYTES] + record_bytes
    if record_count == 0:
        before_bytes = 0
        memory[batch + at.BATCH_FIRST_MS] = created_ns // MS
    memory[batch + at.BATCH_RECORD_COUNT] = record_count + 1
    memory[batch + at.BATCH_RECORD_BYTES] = all_bytes
    memory[batch + at.BATCH_BODY_BYTES] += body_bytes
    estimated_bytes = all_bytes + BATCH_HEADER_BYTES
    if is_compressed:
        estimated_bytes = estimate_compressed_bytes(all_bytes, read_ratio(memory, batch + at.BATCH_RATIO))
    memory[batch + at.BATCH_ESTIMATED_BYTES] = estimated_bytes
    _keep_time(memory, batch, sent_at_ns, thread, body_bytes)
    return estimated_bytes - before_bytes


@part
def _keep_time(memory: Array, batch: int, sent_at_ns: int, thread: int, body_bytes: int) -> None:
    words = memory[at.RECORD_WORDS]
    block = memory[batch + at.BATCH_LAST_BLOCK]
    if block == at.NONE or memory[block + at.BLOCK_USED] + words > at.BLOCK_RECORD_WORDS:
        new_block = take_block(memory)
        if block == at.NONE:
            memory[batch + at.BATCH_BLOCKS] = new_block
        else:
            memory[block + at.BLOCK_NEXT] = new_block
        memory[batch + at.BATCH_LAST_BLOCK] = new_block
        block = new_block
    used = memory[block + at.BLOCK_USED]
    memory[block + at.BLOCK_USED] = used + words
    place = block + at.BLOCK_ITEMS + used
    memory[place] = sent_at_ns
    if words > 1:
        memory[place + 1] = thread
        memory[place + 2] = body_bytes
        memory[at.RESERVE] += at.ROW_SHARE_WORDS


@part
def close_batch(memory: Array, batch: int, ratio_ppm: int, overhead_bytes: int) -> Ratio:
    """Closes a batch for good, and returns the compression ratio observed, or -1 if there is none."""
    memory[batch + at.BATCH_IS_CLOSED] = 1
    if memory[batch + at.BATCH_SIZE_BYTES]:
        return np.float32(-1)
    record_bytes = memory[batch + at.BATCH_RECORD_BYTES]
    written_bytes = record_bytes
    ratio = np.float32(-1)
    if ratio_ppm >= 0:
        written_bytes = record_bytes * ratio_ppm // 1_000_000 + overhead_bytes
        ratio = np.float32(np.float32(written_bytes) / np.float32(record_bytes))
    memory[batch + at.BATCH_SIZE_BYTES] = BATCH_HEADER_BYTES + written_bytes
    memory[batch + at.BATCH_ESTIMATED_BYTES] = BATCH_HEADER_BYTES + written_bytes
    return ratio
