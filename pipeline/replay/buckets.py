"""One bucket of keys through every candidate: joined with their hashes, put in order, placed, summed up.

Pure: packed columns in, sums out. Sums are of whole numbers, so they do not depend on how keys fell into buckets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pipeline.partitioners.masks import Mask, place_hashes, take_modulo
from pipeline.partitioners.strategy import KeyRule
from pipeline.replay import placement_kernels as kernels
from pipeline.replay.ordering_kernels import find_keys, index_keys, sort_stably
from pipeline.replay.packing import AMOUNTS, TEXT_COLUMN
from pipeline.replay.plan import HashColumn

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from pipeline.replay.plan import Placing, PlannedTopic, ReplayPlan

    Columns = dict[str, NDArray[Any]]

RECORDED, TOP_KEYS, UNKNOWN = -1, -2, -3
"""What `Sums.placing` says of rows that belong to no candidate: what was recorded with a key; the heaviest keys; keyed
records whose hashes are gone. Kinds without a key follow, from -4 down."""
FIRST_UNNAMED = -4
TOP_KEY_COUNT = 20
"""Heaviest keys of a topic and window that are looked at one by one."""
TOP_KEY_HEAD = 4
"""Before the partitions of a top key by placing: its id as two words, its records, its bytes."""
_EMPTY_RULES = {
    KeyRule.HASHED: kernels.HASHED,
    KeyRule.FIRST: kernels.FIRST,
    KeyRule.KEYLESS: kernels.KEPT,
    KeyRule.REFUSED: kernels.REFUSED,
}
(
    KEY_COUNT,
    KEYED_RECORDS,
    KEYED_BYTES,
    KEYED_RECORD_ERROR,
    KEYED_BYTE_ERROR,
    LARGEST_RECORDS,
    LARGEST_BYTES,
    LARGEST_RECORDS_HIGH,
    LARGEST_BYTES_HIGH,
    RECORDED_COUNT,
) = range(10)
"""Totals of a `RECORDED` row; those called largest are of one key."""


class Sums(NamedTuple):
    """What one bucket says of one topic, window and placing.

    Attributes:
        topic: By number in the plan.
        window: By number in the plan.
        placing: By number in the topic's placings, or one of the negative ones.
        cells: Sums per partition, shape (partitions, `CELL_COUNT`); of `TOP_KEYS` a row per key.
        totals: Other sums.
    """

    topic: int
    window: int
    placing: int
    cells: NDArray[np.int64]
    totals: NDArray[np.int64]


class _Keys(NamedTuple):
    high: NDArray[np.uint64]
    low: NDArray[np.uint64]
    hashes: NDArray[np.uint32]
    states: NDArray[np.uint8]
    slots: NDArray[np.int32]


class _Rows(NamedTuple):
    """Rows of all topics, in no certain order."""

    topics: NDArray[np.int32]
    windows: NDArray[np.int32]
    keys: NDArray[np.int32]
    partitions: NDArray[np.int32]
    amounts: NDArray[np.int64]


class _Runs(NamedTuple):
    """All rows of one topic summed up by window and key; see `placement_kernels`."""

    starts: NDArray[np.int32]
    keys: NDArray[np.int32]
    partitions: NDArray[np.int32]
    amounts: NDArray[np.int64]
    before: NDArray[np.int32]
    window_starts: NDArray[np.int64]
    order: NDArray[np.int32]


class _Cache:
    """Hashes in the order of runs, gathered once per column."""

    def __init__(self, hashes: NDArray[np.uint32], run_keys: NDArray[np.int32]) -> None:
        self._hashes, self._run_keys = hashes, run_keys
        self._gathered: dict[int, NDArray[np.uint32]] = {}

    def of_runs(self, column: int) -> NDArray[np.uint32]:
        """The column's hash of each run's key."""
        if column not in self._gathered:
            self._gathered[column] = self._hashes[column][self._run_keys]
        return self._gathered[column]


_NO_TOTALS = np.zeros(0, dtype=np.int64)


def sum_unnamed(plan: ReplayPlan, rows: Columns) -> Iterator[Sums]:
    """Records without a key or whose key has no name, per topic, window, kind and partition."""
    placings = FIRST_UNNAMED - rows["kind"].astype(np.int32)
    yield from _sum_recorded(plan, _rows(rows, np.zeros(0, np.int32)), placings)


def replay_bucket(plan: ReplayPlan, traffic: Columns, hashes: Columns, answers: Columns) -> Iterator[Sums]:
    """Places a bucket's keys under every candidate.

    Args:
        plan: What is to be replayed.
        traffic: Rows about keys: `topic`, `window`, `partition`, the amounts, the id's words `high` and `low`.
        hashes: Rows of hashes, with the id's words; a key may come several times.
        answers: Rows of answers, with the id's words.
    """
    keys = _index(plan, hashes, answers)
    found = np.empty(len(traffic["high"]), dtype=np.int32)
    find_keys(traffic["high"], traffic["low"], keys.slots, keys.high, keys.low, found)
    rows = _rows(traffic, found)
    lost = np.flatnonzero(found < 0)
    if len(lost):
        part = _Rows(rows.topics[lost], rows.windows[lost], rows.keys[lost], rows.partitions[lost], rows.amounts[lost])
        yield from _sum_recorded(plan, part, np.full(len(lost), UNKNOWN, dtype=np.int32))
    order = _sort(rows, (len(keys.high), len(plan.window_starts_ms), len(plan.topics)))
    bounds = np.searchsorted(rows.topics[order], np.arange(len(plan.topics) + 1))
    for number in np.flatnonzero(np.diff(bounds)).tolist():
        here = order[bounds[number] : bounds[number + 1]]
        yield from _replay_topic(number, plan, keys, rows, _make_runs(plan, rows, here))


def _index(plan: ReplayPlan, hashes: Columns, answers: Columns) -> _Keys:
    high = hashes.get("high", np.zeros(0, np.uint64))
    low = hashes.get("low", np.zeros(0, np.uint64))
    count = len(high)
    values = np.zeros((len(plan.columns), count), dtype=np.uint32)
    is_known = np.zeros((len(plan.columns), count), dtype=np.bool_)
    slots = np.full(1 << (2 * count + 1).bit_length(), -1, dtype=np.int32)
    index_keys(high, low, slots)
    for number, column in enumerate(plan.columns):
        if isinstance(column, HashColumn) and count:
            stored = hashes[column.name].astype(np.int64)
            is_known[number] = stored >= 0
            if column.is_text:
                is_known[number] &= hashes[TEXT_COLUMN].astype(np.int64) >= 0
            values[number] = np.where(stored >= 0, stored, 0)
    if answers:
        rows = np.empty(len(answers["high"]), dtype=np.int32)
        find_keys(answers["high"], answers["low"], slots, high, low, rows)
        # an answer that is no partition stays unknown
        fits = (rows >= 0) & (answers["answer"].astype(np.int64) >= 0)
        places = answers["column"][fits].astype(np.int64), rows[fits]
        values[places] = answers["answer"][fits]
        is_known[places] = True
    states = np.where(is_known, np.uint8(kernels.PLAIN), np.uint8(kernels.NO_HASH))
    if count:
        states[is_known & hashes["is_empty"]] = kernels.EMPTY
    return _Keys(high, low, values, states, slots)


def _rows(columns: Columns, keys: NDArray[np.int32]) -> _Rows:
    topics, windows, partitions = (columns[name].astype(np.int32) for name in ("topic", "window", "partition"))
    names = AMOUNTS if any(columns[name].any() for name in AMOUNTS[2:]) else AMOUNTS[:2]
    amounts = np.empty((len(topics), len(names)), dtype=np.int64)
    for number, name in enumerate(names):
        amounts[:, number] = columns[name]
    return _Rows(topics, windows, keys, partitions, amounts)


def _sum_recorded(plan: ReplayPlan, rows: _Rows, placings: NDArray[np.int32]) -> Iterator[Sums]:
    """What was recorded per partition, of rows that no candidate places."""
    kinds = np.stack([rows.topics, rows.windows, placings], axis=1)
    for topic, window, placing in np.unique(kinds, axis=0).tolist():
        if plan.topics[topic].partition_counts[window]:
            here = np.flatnonzero((kinds == (topic, window, placing)).all(axis=1))
            cells = _sum_by_partition(rows.partitions[here], rows.amounts[here])
            yield Sums(topic, window, placing, cells, _NO_TOTALS)


def _sum_by_partition(partitions: NDArray[np.int32], amounts: NDArray[np.int64]) -> NDArray[np.int64]:
    cells = np.zeros((int(partitions.max()) + 1, kernels.CELL_COUNT), dtype=np.int64)
    np.add.at(cells[:, : amounts.shape[1]], partitions, amounts)
    return cells


def _sort(rows: _Rows, value_counts: tuple[int, int, int]) -> NDArray[np.int32]:
    """Rows with a known key in order of topic, window, key."""
    order = np.flatnonzero(rows.keys >= 0).astype(np.int32)
    for values, value_count in zip((rows.keys, rows.windows, rows.topics), value_counts, strict=True):
        if value_count > 1:
            sorted_order = np.empty_like(order)
            sort_stably(values, order, value_count, sorted_order)
            order = sorted_order
    return order


def _make_runs(plan: ReplayPlan, rows: _Rows, order: NDArray[np.int32]) -> _Runs:
    count = len(order)
    starts = np.empty(count + 1, dtype=np.int32)
    keys, partitions = (np.empty(count, dtype=np.int32) for _ in range(2))
    amounts = np.empty((count, rows.amounts.shape[1]), dtype=np.int64)
    window_starts = np.empty(len(plan.window_starts_ms) + 1, dtype=np.int64)
    made = kernels.make_runs(
        *(order, rows.keys, rows.windows, rows.partitions, rows.amounts),
        *(starts, keys, partitions, amounts, window_starts),
    )
    before = np.empty(made, dtype=np.int32)
    kernels.find_partitions_before(keys, partitions, window_starts, np.array(plan.previous, dtype=np.int64), before)
    return _Runs(starts[: made + 1], keys[:made], partitions[:made], amounts[:made], before, window_starts, order)


def _replay_topic(number: int, plan: ReplayPlan, keys: _Keys, rows: _Rows, runs: _Runs) -> Iterator[Sums]:
    topic = plan.topics[number]
    replayed = [
        window
        for window, count in enumerate(topic.partition_counts)
        if count and runs.window_starts[window + 1] > runs.window_starts[window]
    ]
    for window in replayed:
        first, last = runs.window_starts[window : window + 2]
        here = runs.order[runs.starts[first] : runs.starts[last]]
        cells = _sum_by_partition(rows.partitions[here], rows.amounts[here])
        yield Sums(number, window, RECORDED, cells, _recorded_totals(runs.amounts[first:last]))
        heaviest = first + _heaviest(runs.keys[first:last], runs.amounts[first:last], keys)
        top_keys = _describe_top_keys(topic, window, runs.keys[heaviest], runs.amounts[heaviest], keys)
        yield Sums(number, window, TOP_KEYS, top_keys, _NO_TOTALS)
    choices = np.empty(len(runs.keys), dtype=np.int32)
    hashes = _Cache(keys.hashes, runs.keys)
    placed: dict[tuple[Any, ...], _Placed] = {}
    for index, placing in enumerate(topic.placings):
        mask, unknown = _mask_of(placing), _unknown_total_of(placing)
        decisive = (placing.columns, placing.partition_counts, mask, unknown, placing.empty_key)
        if decisive not in placed:  # strategies of one family, asked for one partition count
            for window in replayed:
                first, last = runs.window_starts[window : window + 2]
                taken = hashes.of_runs(placing.columns[window])[first:last]
                choices[first:last] = place_hashes(taken, mask, placing.partition_counts[window])
            placed[decisive] = _place(placing, keys, rows, runs, choices)
        found = placed[decisive]
        for window in replayed:
            first = found.cell_starts[window]
            cells = found.cells[first : first + placing.partition_counts[window]]
            yield Sums(number, window, index, cells, found.totals[window])


class _Placed(NamedTuple):
    cell_starts: NDArray[np.int64]
    cells: NDArray[np.int64]
    totals: NDArray[np.int64]


def _place(placing: Placing, keys: _Keys, rows: _Rows, runs: _Runs, choices: NDArray[np.int32]) -> _Placed:
    """Sums of one placing over all windows, given what its strategy chooses for each run's hash."""
    counts = np.array(placing.partition_counts, dtype=np.int64)
    cell_starts = np.concatenate([[0], np.cumsum(counts)[:-1]]).astype(np.int64)
    cells = np.zeros((int(counts.sum()), kernels.CELL_COUNT), dtype=np.int64)
    totals = np.zeros((len(counts), kernels.TOTAL_COUNT), dtype=np.int64)
    kernels.place_keys(
        *(runs.starts, runs.keys, runs.partitions, runs.amounts, runs.before, runs.window_starts),
        *(runs.order, rows.partitions, rows.amounts, choices, keys.states),
        *(np.array(placing.columns, dtype=np.int64), _EMPTY_RULES[placing.empty_key], _unknown_total_of(placing)),
        *(counts, cell_starts, cells, totals),
    )
    return _Placed(cell_starts, cells, totals)


def _unknown_total_of(placing: Placing) -> int:
    return kernels.UNANSWERED_RECORDS if placing.function is None else kernels.REFUSED_RECORDS


def _mask_of(placing: Placing) -> Mask:
    # an answer is below the partition count already: what is done about its sign does not matter
    return Mask.NOTHING if placing.function is None else placing.function.mask


def _recorded_totals(amounts: NDArray[np.int64]) -> NDArray[np.int64]:
    totals = np.zeros(RECORDED_COUNT, dtype=np.int64)
    totals[KEY_COUNT] = len(amounts)
    for number in range(amounts.shape[1]):
        totals[KEYED_RECORDS + number] = amounts[:, number].sum()
    for number in range(2):
        most = amounts[:, number]
        totals[LARGEST_RECORDS + number] = most.max()
        totals[LARGEST_RECORDS_HIGH + number] = (most if amounts.shape[1] == 2 else most + amounts[:, 2 + number]).max()
    return totals


def _heaviest(ids: NDArray[np.int32], amounts: NDArray[np.int64], keys: _Keys) -> NDArray[np.int64]:
    """Places of the keys of most bytes, at most `TOP_KEY_COUNT`; among equals those of the smallest ids."""
    sizes = amounts[:, 1]
    places = np.arange(len(ids))
    if len(ids) > TOP_KEY_COUNT:
        least = np.partition(sizes, len(sizes) - TOP_KEY_COUNT)[len(sizes) - TOP_KEY_COUNT]
        places = np.flatnonzero(sizes >= least)
    numbers = ids[places]
    return places[np.lexsort((keys.low[numbers], keys.high[numbers], -sizes[places]))][:TOP_KEY_COUNT]


def _describe_top_keys(
    topic: PlannedTopic, window: int, ids: NDArray[np.int32], amounts: NDArray[np.int64], keys: _Keys
) -> NDArray[np.int64]:
    """A row per key: `TOP_KEY_HEAD`, then its partition under each placing, -1 where the key does not decide."""
    described = np.full((len(ids), TOP_KEY_HEAD + len(topic.placings)), -1, dtype=np.int64)
    described[:, 0], described[:, 1] = keys.high[ids].view(np.int64), keys.low[ids].view(np.int64)
    described[:, 2:TOP_KEY_HEAD] = amounts[:, :2]
    for index, placing in enumerate(topic.placings):
        column, count = placing.columns[window], placing.partition_counts[window]
        values = keys.hashes[column, ids].astype(np.int64)
        chosen = take_modulo(placing.function.mask.apply(values) if placing.function else values, count)
        state = keys.states[column, ids]
        chosen[state == kernels.NO_HASH] = -1
        if placing.empty_key is not KeyRule.HASHED:
            chosen[state == kernels.EMPTY] = 0 if placing.empty_key is KeyRule.FIRST else -1
        described[:, TOP_KEY_HEAD + index] = chosen
    return described
