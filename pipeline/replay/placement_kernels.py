"""The keyed replay's inner loops as Numba kernels over flat arrays: summing up and placing one bucket of keys.

A *run* is all rows of one key in one window: mostly one row, more where the key's records lie on several partitions.
"""

from __future__ import annotations

from typing import Any

import numba as nb
from numba.core import types

from pipeline.compilation import kernel, part

Array = Any  # inside a kernel, an array's items are Numba's numbers
Number = Any

(
    KEPT_KEYS,
    KEPT_RECORDS,
    KEPT_BYTES,
    MOVED_KEYS,
    MOVED_RECORDS,
    MOVED_BYTES,
    MOVED_RECORD_ERROR,
    MOVED_BYTE_ERROR,
    AT_RISK_KEYS,
    AT_RISK_RECORDS,
    AT_RISK_BYTES,
    REFUSED_RECORDS,
    UNANSWERED_RECORDS,
    TOTAL_COUNT,
) = range(14)
"""Sums over the keys of a window, per candidate. Kept: the key does not decide, so its records stay where they were."""

CELL_RECORDS, CELL_BYTES, CELL_RECORD_ERROR, CELL_BYTE_ERROR, CELL_KEYS, CELL_COUNT = range(6)
"""Sums per partition."""

HASHED, FIRST, KEPT, REFUSED = range(4)
"""What a candidate does with the empty key."""

PLAIN, EMPTY, NO_HASH = range(3)
"""What is known of a key in a column: a hash to place it by; that it has no bytes; nothing."""

SEVERAL = -1
"""Instead of a run's partition, where there are several."""
NOWHERE = -2
"""Instead of a partition, where the key had no records."""

_INT64 = types.Array(types.int64, 1, "C", readonly=True)
_INT32 = types.Array(types.int32, 1, "C", readonly=True)
_OUT32 = types.Array(types.int32, 1, "C")
_OUT64 = types.Array(types.int64, 1, "C")


@kernel(
    types.int64(
        *(_INT32, _INT32, _INT32, _INT32, types.Array(types.int64, 2, "C", readonly=True)),
        *(_OUT32, _OUT32, _OUT32, types.Array(types.int64, 2, "C"), _OUT64),
    )
)
def make_runs(
    order: Array,
    keys: Array,
    windows: Array,
    partitions: Array,
    amounts: Array,
    run_starts: Array,
    run_keys: Array,
    run_partitions: Array,
    run_amounts: Array,
    window_starts: Array,
) -> int:
    """Sums up the rows of each key in each window.

    Args:
        order: Rows of one topic, sorted by window, then key.
        keys: By row: number of the key.
        windows: By row: number of the window.
        partitions: By row.
        amounts: By row: records, bytes, how many more of each there may be.
        run_starts: Takes each run's first place in `order`, and behind the last one the end; one longer than `order`.
        run_keys: Takes the keys.
        run_partitions: Takes the partitions, `SEVERAL` where there is more than one.
        run_amounts: Takes the sums.
        window_starts: Takes each window's first run, and the number of runs; one more than windows.

    Returns:
        Runs.
    """
    count = nb.int64(-1)
    window = nb.int64(-1)
    for place in range(len(order)):
        row = order[place]
        if windows[row] != window or keys[row] != run_keys[count]:
            count += 1
            while window < windows[row]:
                window += 1
                window_starts[window] = count
            run_starts[count] = place
            run_keys[count] = keys[row]
            run_partitions[count] = partitions[row]
            for column in range(amounts.shape[1]):
                run_amounts[count, column] = amounts[row, column]
        else:
            if run_partitions[count] != partitions[row]:
                run_partitions[count] = SEVERAL
            for column in range(amounts.shape[1]):
                run_amounts[count, column] += amounts[row, column]
    count += 1
    run_starts[count] = len(order)
    for later in range(window + 1, len(window_starts)):
        window_starts[later] = count
    return count


@kernel(types.void(_INT32, _INT32, _INT64, _INT64, _OUT32))
def find_partitions_before(
    run_keys: Array, run_partitions: Array, window_starts: Array, previous_windows: Array, before: Array
) -> None:
    """Finds for each run where the same key lay in the window before.

    Args:
        run_keys: By run, ascending within a window.
        run_partitions: By run.
        window_starts: From `make_runs`.
        previous_windows: By window: number of the one before, or -1.
        before: Takes the partition, `SEVERAL` or `NOWHERE`.
    """
    for window in range(len(previous_windows)):
        previous = previous_windows[window]
        at = window_starts[previous] if previous >= 0 else nb.int64(0)
        end = window_starts[previous + 1] if previous >= 0 else nb.int64(0)
        for run in range(window_starts[window], window_starts[window + 1]):
            while at < end and run_keys[at] < run_keys[run]:
                at += 1
            before[run] = run_partitions[at] if at < end and run_keys[at] == run_keys[run] else NOWHERE


@part
def _choose_otherwise(
    state: Number, chosen: Number, records: Number, empty_rule: Number, unknown_total: Number, sums: Array
) -> Number:
    """The partition of an empty key, or of one without hash; -1 where it stays."""
    if state == NO_HASH:
        sums[unknown_total] += records
        return nb.int64(-1)
    if empty_rule == HASHED:
        return chosen
    if empty_rule == REFUSED:
        sums[REFUSED_RECORDS] += records
    return nb.int64(0 if empty_rule == FIRST else -1)


@part
def _keep(
    run: Number,
    run_starts: Array,
    run_amounts: Array,
    order: Array,
    partitions: Array,
    amounts: Array,
    first_cell: Number,
    count: Number,
    cells: Array,
    sums: Array,
) -> None:
    """Leaves a run's records where they were, as far as those partitions are there."""
    sums[KEPT_KEYS] += 1
    sums[KEPT_RECORDS] += run_amounts[run, 0]
    sums[KEPT_BYTES] += run_amounts[run, 1]
    for place in range(run_starts[run], run_starts[run + 1]):
        partition = partitions[order[place]]
        if partition < count:
            for column in range(amounts.shape[1]):
                cells[first_cell + partition, column] += amounts[order[place], column]
            cells[first_cell + partition, CELL_KEYS] += 1


@part
def _leave(
    run: Number, chosen: Number, run_starts: Array, order: Array, partitions: Array, amounts: Array, sums: Array
) -> None:
    """Takes back, of a run counted as moved, what lay where it is placed."""
    for place in range(run_starts[run], run_starts[run + 1]):
        row = order[place]
        if partitions[row] == chosen:
            for column in range(amounts.shape[1]):
                sums[MOVED_RECORDS + column] -= amounts[row, column]


@kernel(
    types.void(
        *(_INT32, _INT32, _INT32, types.Array(types.int64, 2, "C", readonly=True), _INT32, _INT64),
        *(_INT32, _INT32, types.Array(types.int64, 2, "C", readonly=True)),
        *(_INT32, types.Array(types.uint8, 2, "C", readonly=True), _INT64),
        *(types.int64, types.int64, _INT64, _INT64),
        *(types.Array(types.int64, 2, "C"), types.Array(types.int64, 2, "C")),
    )
)
def place_keys(
    run_starts: Array,
    run_keys: Array,
    run_partitions: Array,
    run_amounts: Array,
    before: Array,
    window_starts: Array,
    order: Array,
    partitions: Array,
    amounts: Array,
    choices: Array,
    states: Array,
    columns: Array,
    empty_rule: int,
    unknown_total: int,
    partition_counts: Array,
    cell_starts: Array,
    cells: Array,
    totals: Array,
) -> None:
    """Places every key of a topic under one candidate and sums up what comes of it.

    Args:
        run_starts: From `make_runs`, as the next three.
        run_keys: By run.
        run_partitions: By run.
        run_amounts: By run.
        before: From `find_partitions_before`.
        window_starts: From `make_runs`.
        order: Rows, as given to `make_runs`.
        partitions: By row.
        amounts: By row.
        choices: By run: the partition that follows from the hash.
        states: By column and key: `PLAIN`, `EMPTY` or `NO_HASH`.
        columns: By window: which column.
        empty_rule: Of the candidate.
        unknown_total: Where records are counted whose key has no such hash.
        partition_counts: By window; 0 where the window only serves as the one before.
        cell_starts: By window: its first row in `cells`.
        cells: Sums per partition, added to; columns as `CELL_*`.
        totals: Sums per window, added to; columns as above.
    """
    has_errors = run_amounts.shape[1] > 2
    for window in range(len(partition_counts)):
        count = partition_counts[window]
        if count == 0:
            continue
        state = states[columns[window]]
        sums, first_cell = totals[window], cell_starts[window]
        moved_keys = moved_records = moved_bytes = nb.int64(0)
        risky_keys = risky_records = risky_bytes = nb.int64(0)
        for run in range(window_starts[window], window_starts[window + 1]):
            key = run_keys[run]
            records, size = run_amounts[run, 0], run_amounts[run, 1]
            chosen = nb.int64(choices[run])
            if state[key] != PLAIN:
                chosen = _choose_otherwise(state[key], chosen, records, empty_rule, unknown_total, sums)
                if chosen < 0:
                    _keep(run, run_starts, run_amounts, order, partitions, amounts, first_cell, count, cells, sums)
                    continue
            cell = first_cell + chosen
            cells[cell, CELL_RECORDS] += records
            cells[cell, CELL_BYTES] += size
            cells[cell, CELL_KEYS] += 1
            # whether a key moves is as good as a coin: multiplied, nothing has to be guessed
            has_moved = nb.int64(run_partitions[run] != chosen)
            moved_keys += has_moved
            moved_records += has_moved * records
            moved_bytes += has_moved * size
            # one that lay on several partitions lay on another than this
            is_at_risk = nb.int64(before[run] != chosen) & nb.int64(before[run] != NOWHERE)
            risky_keys += is_at_risk
            risky_records += is_at_risk * records
            risky_bytes += is_at_risk * size
            if run_partitions[run] == SEVERAL:
                _leave(run, chosen, run_starts, order, partitions, amounts, sums)
            if has_errors:
                for column in range(2):
                    cells[cell, CELL_RECORD_ERROR + column] += run_amounts[run, 2 + column]
                    sums[MOVED_RECORD_ERROR + column] += has_moved * run_amounts[run, 2 + column]
        sums[MOVED_KEYS] += moved_keys
        sums[MOVED_RECORDS] += moved_records
        sums[MOVED_BYTES] += moved_bytes
        sums[AT_RISK_KEYS] += risky_keys
        sums[AT_RISK_RECORDS] += risky_records
        sums[AT_RISK_BYTES] += risky_bytes
