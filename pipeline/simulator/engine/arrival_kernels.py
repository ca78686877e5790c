"""Arrivals for kernels: `reference.arrivals` and what `reference.sending_thread` sends, in the run's memory."""

from __future__ import annotations

from typing import Any

import numba as nb

from pipeline.compilation import part
from pipeline.simulator.engine import layout as at
from pipeline.simulator.engine.chance_kernels import draw_from
from pipeline.simulator.engine.random_kernels import draw_between
from pipeline.simulator.engine.size_kernels import measure_varint_bytes

Array = Any  # inside a kernel, an array's items are Numba's numbers

MS = 1_000_000
SECOND = 1_000_000_000
MIN_SLEEP_NS = 2 * MS


@part
def _throttle(memory: Array, thread: int, sent_ns: int, returned_ns: int) -> int:
    count = memory[thread + at.THREAD_TICKS]
    memory[thread + at.THREAD_TICKS] = count + 1
    elapsed_ms = sent_ns // MS - memory[thread + at.THREAD_START] // MS
    rate = memory[thread + at.THREAD_RATE]
    if rate == 0 or elapsed_ms <= 0 or count * 1000 <= rate * elapsed_ms:
        return returned_ns
    deficit_ns = memory[thread + at.THREAD_DEFICIT] + SECOND // rate
    if deficit_ns < MIN_SLEEP_NS:
        memory[thread + at.THREAD_DEFICIT] = deficit_ns
        return returned_ns
    memory[thread + at.THREAD_DEFICIT] = 0
    asked_ns = -(-deficit_ns // MS) * MS
    return returned_ns + asked_ns + _draw(memory, thread, at.THREAD_GAP)


@part
def _draw(memory: Array, thread: int, field: int) -> int:
    return draw_from(memory, memory[thread + field], thread + at.THREAD_GAP_STREAM)


@part
def _turn_on_off(memory: Array, thread: int) -> int:
    due_ns = memory[thread + at.THREAD_DUE] + _draw(memory, thread, at.THREAD_GAP)
    end_ns = memory[thread + at.THREAD_PHASE_END]
    while due_ns >= end_ns:
        off_ns = _draw(memory, thread, at.THREAD_OFF)
        due_ns += off_ns
        end_ns += off_ns + _draw(memory, thread, at.THREAD_ON)
    memory[thread + at.THREAD_PHASE_END] = end_ns
    memory[thread + at.THREAD_DUE] = due_ns
    return due_ns


@part
def _read_recorded(memory: Array, thread: int, place: int) -> int:
    if place >= memory[thread + at.THREAD_RECORDED_COUNT]:
        return -1
    return memory[memory[thread + at.THREAD_RECORDED] + place * at.RECORDED_WORDS + at.RECORDED_DUE]


@part
def _find_due(memory: Array, thread: int, sent_ns: int, returned_ns: int) -> int:
    kind = memory[thread + at.THREAD_KIND]
    if kind == at.PERF_TEST:
        return _throttle(memory, thread, sent_ns, returned_ns)
    if kind == at.GAPS:
        memory[thread + at.THREAD_DUE] += _draw(memory, thread, at.THREAD_GAP)
        return memory[thread + at.THREAD_DUE]
    if kind == at.ON_OFF:
        return _turn_on_off(memory, thread)
    memory[thread + at.THREAD_TICKS] += 1
    return _read_recorded(memory, thread, memory[thread + at.THREAD_TICKS])


@part
def _check_end(memory: Array, thread: int, due_ns: int) -> int:
    end_ns = memory[thread + at.THREAD_END]
    if due_ns < 0 or 0 < end_ns <= due_ns:
        memory[thread + at.THREAD_IS_DONE] = 1
        return -1
    return due_ns


@part
def start_thread(memory: Array, thread: int) -> int:
    """When a thread's first record is due, or -1."""
    kind = memory[thread + at.THREAD_KIND]
    start_ns = memory[thread + at.THREAD_START]
    if kind == at.PERF_TEST:
        return _check_end(memory, thread, start_ns)
    if kind == at.RECORDED:
        return _check_end(memory, thread, _read_recorded(memory, thread, 0))
    memory[thread + at.THREAD_DUE] = start_ns
    if kind == at.ON_OFF:
        memory[thread + at.THREAD_PHASE_END] = start_ns + _draw(memory, thread, at.THREAD_ON)
    return _check_end(memory, thread, _find_due(memory, thread, 0, 0))


@part
def go_on(memory: Array, thread: int, sent_ns: int, returned_ns: int) -> int:
    """When a thread sends again after a `send()`, or -1 if that was the last."""
    limit = memory[thread + at.THREAD_RECORD_LIMIT]
    if 0 < limit <= memory[thread + at.THREAD_SENT_COUNT]:
        return _check_end(memory, thread, -1)
    due_ns = _find_due(memory, thread, sent_ns, returned_ns)
    if due_ns >= 0:
        due_ns = max(due_ns, returned_ns)
    return _check_end(memory, thread, due_ns)


@part
def take_record(memory: Array, thread: int, now_ns: int) -> None:
    """Makes the record that is due the one the thread sends."""
    place = memory[thread + at.THREAD_SENT_COUNT]
    memory[thread + at.THREAD_SENT_COUNT] = place + 1
    memory[thread + at.THREAD_SENT_AT] = now_ns
    if memory[thread + at.THREAD_KIND] == at.RECORDED:
        row = memory[thread + at.THREAD_RECORDED] + place * at.RECORDED_WORDS
        memory[thread + at.THREAD_STATE] = memory[row + at.RECORDED_STATE]
        memory[thread + at.THREAD_PARTITION] = memory[row + at.RECORDED_PARTITION]
        memory[thread + at.THREAD_BODY_BYTES] = memory[row + at.RECORDED_BODY_BYTES]
        return
    target = _choose_target(memory, thread)
    value_bytes = draw_from(memory, memory[thread + at.THREAD_SIZE], thread + at.THREAD_SIZE_STREAM)
    body_bytes = memory[target + at.TARGET_BODY_BYTES] + measure_varint_bytes(value_bytes) + value_bytes
    memory[thread + at.THREAD_STATE] = memory[target + at.TARGET_STATE]
    memory[thread + at.THREAD_PARTITION] = memory[target + at.TARGET_PARTITION]
    memory[thread + at.THREAD_BODY_BYTES] = body_bytes


@part
def _choose_target(memory: Array, thread: int) -> int:
    targets = memory[thread + at.THREAD_TARGETS]
    count = memory[thread + at.THREAD_TARGET_COUNT]
    if count == 1:
        return targets
    stream = thread + at.THREAD_TARGET_STREAM
    total = memory[targets + (count - 1) * at.TARGET_WORDS + at.TARGET_WEIGHT]
    drawn = draw_between(nb.uint64(memory[stream]), nb.uint64(memory[stream + 1]), 0, total - 1)
    memory[stream + 1] += 1
    low, high = 0, count - 1
    while low < high:  # the first whose cumulative weight is larger
        middle = (low + high) >> 1
        if memory[targets + middle * at.TARGET_WORDS + at.TARGET_WEIGHT] > drawn:
            high = middle
        else:
            low = middle + 1
    return targets + low * at.TARGET_WORDS
