"""Partitioners for kernels: `reference.kip_480`, `kip_794`, `round_robin` and `timed_sticky`, in the run's memory.

The table by which KIP-794 draws is that of the sender's last turn. It is made only when a partition is drawn: a lane keeps
the length it had at that turn from its first change after it.
"""

from __future__ import annotations

from typing import Any

from pipeline.compilation import part
from pipeline.simulator.engine import layout as at
from pipeline.simulator.engine.bit_kernels import clear_mark, find_mark, set_mark
from pipeline.simulator.engine.chance_kernels import draw_below

Array = Any  # inside a kernel, an array's items are Numba's numbers


@part
def _is_available(memory: Array, state: int, partition: int) -> bool:
    if partition < 0:
        return False
    return memory[memory[state + at.STATE_LANES] + partition * at.LANE_WORDS + at.LANE_CONNECTION] != at.NONE


@part
def _draw_available(memory: Array, state: int) -> int:
    count = memory[state + at.STATE_AVAILABLE_COUNT]
    if count == 0:
        return draw_below(memory, state + at.STATE_STREAM, memory[state + at.STATE_PARTITION_COUNT])
    return memory[memory[state + at.STATE_AVAILABLE] + draw_below(memory, state + at.STATE_STREAM, count)]


@part
def rotate_sticky(memory: Array, state: int, opened: int) -> None:
    """KIP-480: moves on from a partition that will get a new batch, if it is the sticky one."""
    sticky = memory[state + at.STATE_STICKY]
    if sticky >= 0 and sticky != opened:
        return
    count = memory[state + at.STATE_AVAILABLE_COUNT]
    if count == 1:
        memory[state + at.STATE_STICKY] = memory[memory[state + at.STATE_AVAILABLE]]
        return
    drawn = _draw_available(memory, state)
    while count > 1 and drawn == sticky:
        drawn = _draw_available(memory, state)
    memory[state + at.STATE_STICKY] = drawn


@part
def _draw_twice(memory: Array, state: int) -> int:
    count = memory[state + at.STATE_PARTITION_COUNT]
    drawn = draw_below(memory, state + at.STATE_STREAM, count)
    if _is_available(memory, state, drawn):
        return drawn
    return draw_below(memory, state + at.STATE_STREAM, count)


@part
def choose_partition(memory: Array, producer: int, state: int, now_ns: int) -> int:
    """The partition for a record, of every partitioner but the built-in one."""
    placement = memory[producer + at.PRODUCER_PLACEMENT]
    if placement == at.STICKY:
        if memory[state + at.STATE_STICKY] < 0:
            rotate_sticky(memory, state, -1)
        return memory[state + at.STATE_STICKY]
    if placement == at.TIMED_STICKY:
        is_recent = now_ns - memory[state + at.STATE_TIMED_AT] <= memory[producer + at.PRODUCER_STICKY_LINGER]
        if not (is_recent and _is_available(memory, state, memory[state + at.STATE_TIMED])):
            memory[state + at.STATE_TIMED] = _draw_twice(memory, state)
            memory[state + at.STATE_TIMED_AT] = now_ns
        return memory[state + at.STATE_TIMED]
    if placement == at.RANDOM:
        return _draw_twice(memory, state)
    turn = memory[state + at.STATE_TURNS] & 0x7FFFFFFF
    memory[state + at.STATE_TURNS] += 1
    count = memory[state + at.STATE_AVAILABLE_COUNT]
    if count == 0:
        return turn % memory[state + at.STATE_PARTITION_COUNT]
    return memory[memory[state + at.STATE_AVAILABLE] + turn % count]


@part
def note_length(memory: Array, producer: int, lane: int) -> None:
    """Keeps the length a lane had at the sender's last turn; to be called before it changes."""
    turn = memory[producer + at.PRODUCER_TURN]
    if memory[lane + at.LANE_SEEN_TURN] != turn:
        memory[lane + at.LANE_SEEN_TURN] = turn
        memory[lane + at.LANE_SEEN_LENGTH] = memory[lane + at.LANE_LENGTH]


@part
def mark_lane(memory: Array, producer: int, lane: int) -> None:
    """Marks that a lane has batches."""
    place = (lane - memory[producer + at.PRODUCER_LANES]) // at.LANE_WORDS
    set_mark(memory, memory[producer + at.PRODUCER_LANE_BITS], place)
    connection = memory[lane + at.LANE_CONNECTION]
    if connection != at.NONE:
        set_mark(memory, memory[connection + at.CONNECTION_LANE_BITS], memory[lane + at.LANE_PLACE])
        set_mark(memory, memory[producer + at.PRODUCER_BUSY_BITS], memory[connection + at.CONNECTION_PLACE])


@part
def unmark_lane(memory: Array, producer: int, lane: int) -> None:
    """Marks that a lane has none."""
    place = (lane - memory[producer + at.PRODUCER_LANES]) // at.LANE_WORDS
    clear_mark(memory, memory[producer + at.PRODUCER_LANE_BITS], place)
    connection = memory[lane + at.LANE_CONNECTION]
    if connection != at.NONE:
        marks = memory[connection + at.CONNECTION_LANE_BITS]
        clear_mark(memory, marks, memory[lane + at.LANE_PLACE])
        if find_mark(memory, marks, memory[connection + at.CONNECTION_LANE_BIT_WORDS], 0) < 0:
            clear_mark(memory, memory[producer + at.PRODUCER_BUSY_BITS], memory[connection + at.CONNECTION_PLACE])


@part
def _read_seen(memory: Array, lane: int, turn: int) -> int:
    """The length a lane had at the sender's last turn."""
    if memory[lane + at.LANE_SEEN_TURN] == turn:
        return memory[lane + at.LANE_SEEN_LENGTH]
    return memory[lane + at.LANE_LENGTH]


@part
def _fill_scratch(memory: Array, producer: int, state: int) -> int:
    turn = memory[producer + at.PRODUCER_TURN]
    partition_count = memory[state + at.STATE_PARTITION_COUNT]
    lengths = memory[state + at.STATE_SCRATCH]
    partitions = lengths + partition_count
    for place in range(partition_count):
        memory[lengths + place] = 0
    kept = 0
    lane = memory[state + at.STATE_LANES]
    for partition in range(partition_count):
        connection = memory[lane + at.LANE_CONNECTION]
        if connection != at.NONE:
            memory[partitions + kept] = partition
            length = _read_seen(memory, lane, turn)
            if length:
                memory[lengths + kept] = length
            if length == 0 or not memory[connection + at.CONNECTION_IS_KEPT_WAITING]:
                kept += 1
        lane += at.LANE_WORDS
    return kept


@part
def _draw_by_marks(memory: Array, producer: int, state: int) -> int:
    """As `_draw_weighed` where no partition is left out; looks only at those with something queued."""
    partition_count = memory[state + at.STATE_PARTITION_COUNT]
    marks = memory[producer + at.PRODUCER_SEEN_BITS]
    word_count = memory[producer + at.PRODUCER_LANE_BIT_WORDS]
    turn = memory[producer + at.PRODUCER_TURN]
    first = memory[state + at.STATE_FIRST_PLACE]
    end = first + partition_count
    lanes = memory[producer + at.PRODUCER_LANES]
    queued_count, total, shortest, longest = 0, 0, 1 << 62, 0
    place = find_mark(memory, marks, word_count, first)
    while 0 <= place < end:
        length = _read_seen(memory, lanes + place * at.LANE_WORDS, turn)
        queued_count += 1
        total += length
        shortest = min(shortest, length)
        longest = max(longest, length)
        place = find_mark(memory, marks, word_count, place + 1)
    if queued_count < partition_count:
        shortest = 0
    if partition_count < 2 or shortest == longest:
        return -1
    most = longest + 1
    weight = draw_below(memory, state + at.STATE_STREAM, most * partition_count - total)
    partition = 0
    place = find_mark(memory, marks, word_count, first)
    while 0 <= place < end:
        empty_count = place - first - partition
        if weight < empty_count * most:
            break
        own = most - _read_seen(memory, lanes + place * at.LANE_WORDS, turn)
        weight -= empty_count * most
        partition = place - first
        if weight < own:
            return partition
        weight -= own
        partition += 1
        place = find_mark(memory, marks, word_count, place + 1)
    return partition + weight // most


@part
def _draw_weighed(memory: Array, producer: int, state: int) -> int:
    """A draw by the lengths of queues at the sender's last turn, or -1 where they tell nothing apart."""
    if memory[state + at.STATE_IS_LED] and not memory[producer + at.PRODUCER_AVAILABILITY_TIMEOUT_MS]:
        return _draw_by_marks(memory, producer, state)
    kept = _fill_scratch(memory, producer, state)
    partition_count = memory[state + at.STATE_PARTITION_COUNT]
    lengths = memory[state + at.STATE_SCRATCH]
    if kept == 0 or partition_count < 2:
        return -1
    shortest, longest, total = memory[lengths], memory[lengths], 0
    for place in range(lengths, lengths + kept):
        shortest = min(shortest, memory[place])
        longest = max(longest, memory[place])
        total += memory[place]
    if kept == partition_count and shortest == longest:
        return -1
    weight = draw_below(memory, state + at.STATE_STREAM, (longest + 1) * kept - total)
    place = lengths
    weight -= longest + 1 - memory[place]
    while weight >= 0:
        place += 1
        weight -= longest + 1 - memory[place]
    return memory[place + partition_count]


@part
def draw_run(memory: Array, producer: int, state: int) -> None:
    """KIP-794: begins a run on a partition, the present one perhaps."""
    drawn = -1
    if memory[state + at.STATE_IS_WEIGHED]:
        drawn = _draw_weighed(memory, producer, state)
    if drawn < 0:
        drawn = _draw_available(memory, state)
    memory[state + at.STATE_RUN] = drawn
    memory[state + at.STATE_RUN_BYTES] = 0


@part
def count_run(memory: Array, producer: int, state: int, added_bytes: int, may_switch: bool) -> bool:
    """KIP-794: counts what an append added, and moves on if it is time; returns whether it did."""
    produced_bytes = memory[state + at.STATE_RUN_BYTES] + added_bytes
    memory[state + at.STATE_RUN_BYTES] = produced_bytes
    run_bytes = max(memory[producer + at.PRODUCER_BATCH_BYTES], 1)
    is_over = produced_bytes >= run_bytes
    if memory[producer + at.PRODUCER_PLACEMENT] != at.BUILT_IN_DRAFT:
        is_over = (is_over and may_switch) or produced_bytes >= 2 * run_bytes
    if is_over:
        draw_run(memory, producer, state)
    return is_over
