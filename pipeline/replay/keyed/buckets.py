"""One bucket of keys through every candidate: joined with their hashes, put in order, assigned, summed up.

Pure: packed columns in, sums out. Sums are of whole numbers, so they do not depend on how keys fell into buckets.

An *entry* is all rows of one key in one window: mostly one row, more where the key's records lie on several partitions. A
*pair* is a topic in a window. All pairs that ask the same of their keys are assigned together.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pipeline.arrays import Flags, Floats, Ints
from pipeline.partitioners.hashes import Mask, place_hashes
from pipeline.partitioners.strategy import KeyRule
from pipeline.replay.keyed.plan import HashColumn, KeyedPlan
from pipeline.replay.keyed.sums import (
    KEYS,
    NAMED,
    NO_HASH,
    TOP_KEY_COUNT,
    AssignedKeys,
    KeyTotals,
    MoveTotals,
    TopicSums,
    TopKey,
    sum_by_partition,
)

Columns = dict[str, NDArray[Any]]

TEXT_COLUMN = "java_string"  # a hash that keys have which are UTF-8, and no others
_SEVERAL, _NOWHERE, _STAYS = -1, -2, -1  # in place of a partition
_PLAIN, _EMPTY, _HASHLESS = range(3)  # states of a key in a column: with a hash to assign it by; of no bytes; neither


class _Keys(NamedTuple):
    """Keys whose hashes are known: uint64 ids, rising, and by column of the plan a hash and a state of each."""

    ids: NDArray[np.uint64]
    hashes: NDArray[np.uint32]
    states: NDArray[np.uint8]


class _Rule(NamedTuple):
    column: int
    partition_count: int
    mask: Mask
    is_custom: bool
    empty_key: KeyRule


class _Entries(NamedTuple):
    """Rows summed up by pair and key, in this order; an element per entry but for the last four, which are of rows."""

    pairs: Ints
    keys: Ints
    partitions: NDArray[np.int32]  # where it is, or `_SEVERAL`
    before: NDArray[np.int32]  # where the key was in the window before: a partition, `_SEVERAL` or `_NOWHERE`
    records: Floats  # its records, as doubles, which are exact below 2^53; like `sizes`, their bytes
    sizes: Floats
    row_entries: Ints
    row_partitions: NDArray[np.int32]
    row_amounts: Ints  # of each row records, bytes and how many more bytes there may be
    split_rows: Ints  # rows of entries with several partitions


def sum_unassigned(plan: KeyedPlan, kind: str, rows: Columns) -> Iterator[tuple[int, int, TopicSums]]:
    """Records that no assignment moves, by number of the topic and of the window."""
    amounts = np.stack([rows["record_count"], rows["size_bytes"]], axis=1).astype(np.int64)
    ranks = rows["topic"].astype(np.int64) * len(plan.window_starts_ms) + rows["window"]
    for rank in np.unique(ranks).tolist():
        topic, window = divmod(rank, len(plan.window_starts_ms))
        if plan.topics[topic].partition_counts[window]:
            here = ranks == rank
            yield topic, window, TopicSums({kind: sum_by_partition(rows["partition"][here], amounts[here])})


def replay_bucket(
    plan: KeyedPlan, traffic: Columns, hashes: Columns, answers: Columns
) -> Iterator[tuple[int, int, TopicSums]]:
    """Assigns a bucket's keys under every candidate, by number of topic and window; `key` is an id's first 64 bits."""
    keys = _index(plan, hashes, answers)
    numbers = _find(traffic["key"], keys.ids)
    lost = numbers < 0
    if lost.any():
        yield from sum_unassigned(plan, NO_HASH, {name: column[lost] for name, column in traffic.items()})
        traffic, numbers = {name: column[~lost] for name, column in traffic.items()}, numbers[~lost]
    if not len(numbers):
        return
    pairs, entries = _make_entries(plan, traffic, numbers, len(keys.ids))
    bounds = np.searchsorted(entries.pairs, np.arange(len(pairs) + 1))
    sums_of: dict[int, TopicSums] = {}
    heaviest: dict[int, Ints] = {}
    users: dict[_Rule, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for pair, (topic, window) in enumerate(divmod(int(rank), len(plan.window_starts_ms)) for rank in pairs):
        if plan.topics[topic].partition_counts[window]:
            here = slice(bounds[pair], bounds[pair + 1])
            sums_of[pair], heaviest[pair] = _describe_recorded(entries, here, keys)
            for number, assignment in enumerate(plan.topics[topic].assignments):
                function, count = assignment.function, assignment.partition_counts[window]
                mask = function.mask if function else Mask.NOTHING
                # equal for strategies of one family that are asked for one partition count
                rule = _Rule(assignment.columns[window], count, mask, function is None, assignment.empty_key)
                users[rule][pair].append(number)
    chosen_of_top: dict[int, dict[int, NDArray[np.int32]]] = defaultdict(dict)
    for rule, by_pair in users.items():
        for pair, assigned, chosen in _assign_pairs(entries, keys, rule, list(by_pair), heaviest):
            for number in by_pair[pair]:
                sums_of[pair].assigned[number], chosen_of_top[pair][number] = assigned, chosen
    for pair, sums in sums_of.items():
        partitions = np.array([chosen_of_top[pair][number] for number in sorted(chosen_of_top[pair])]).T
        names = (f"{key:016x}" for key in keys.ids[entries.keys[heaviest[pair]]].tolist())
        amounts = (amount[heaviest[pair]].astype(np.int64).tolist() for amount in (entries.records, entries.sizes))
        sums.top_keys = [TopKey(*of_key) for of_key in zip(names, *amounts, partitions, strict=True)]
        yield *divmod(int(pairs[pair]), len(plan.window_starts_ms)), sums


def _index(plan: KeyedPlan, hashes: Columns, answers: Columns) -> _Keys:
    ids, first = np.unique(hashes.get("key", np.zeros(0, np.uint64)), return_index=True)
    values = np.zeros((len(plan.columns), len(ids)), np.uint32)
    is_known = np.zeros(values.shape, np.bool_)
    for number, column in enumerate(plan.columns):
        if isinstance(column, HashColumn) and len(ids):
            stored = hashes[column.name][first].astype(np.int64)
            is_known[number] = stored >= 0
            if column.is_text:
                is_known[number] &= hashes[TEXT_COLUMN][first].astype(np.int64) >= 0
            values[number] = np.maximum(stored, 0)
    if answers:
        rows, chosen = _find(answers["key"], ids), answers["answer"].astype(np.int64)
        fits = (rows >= 0) & (chosen >= 0)  # an answer that is no partition stays unknown
        where = answers["column"][fits].astype(np.int64), rows[fits]
        values[where], is_known[where] = chosen[fits], True
    states = np.where(is_known, np.uint8(_PLAIN), np.uint8(_HASHLESS))
    if len(ids):
        states[is_known & hashes["is_empty"][first]] = _EMPTY
    return _Keys(ids, values, states)


def _find(sought: NDArray[np.uint64], ids: NDArray[np.uint64]) -> Ints:
    """Index of each key among distinct ones, or -1."""
    indices = pc.index_in(pa.array(sought), value_set=pa.array(ids))
    indexes: Ints = pc.fill_null(indices, -1).to_numpy().astype(np.int64)
    return indexes


def _make_entries(plan: KeyedPlan, traffic: Columns, numbers: Ints, key_count: int) -> tuple[Ints, _Entries]:
    """Sums up rows, given their keys' numbers: the pairs there are, as topic times windows plus window, and entries."""
    window_count = len(plan.window_starts_ms)
    ranks = (traffic["topic"].astype(np.int64) * window_count + traffic["window"]) * key_count + numbers
    order = np.argsort(ranks)
    ranks = ranks[order]
    is_first = np.diff(ranks, prepend=-1) != 0
    starts, row_entries = np.flatnonzero(is_first), np.cumsum(is_first) - 1
    ranks = ranks[starts]
    of_pair, entry_keys = np.divmod(ranks, key_count)
    is_new = np.diff(of_pair, prepend=-1) != 0
    pairs, entry_pairs = of_pair[is_new], np.cumsum(is_new) - 1
    rows = traffic["partition"][order].astype(np.int32)
    names = ("record_count", "size_bytes", "size_error_bytes")
    amounts = np.stack([traffic[name][order] for name in names], axis=1).astype(np.int64)
    least, most = np.minimum.reduceat(rows, starts), np.maximum.reduceat(rows, starts)
    partitions = np.where(least == most, least, np.int32(_SEVERAL))
    windows = pairs % window_count
    previous = np.array(plan.previous)[windows]
    # the same key's rank in the window before
    sought = np.where(previous >= 0, pairs - windows + previous, -1)[entry_pairs] * key_count + entry_keys
    earlier = np.minimum(np.searchsorted(ranks, sought), len(ranks) - 1)
    return pairs, _Entries(
        pairs=entry_pairs,
        keys=entry_keys,
        partitions=partitions,
        before=np.where(ranks[earlier] == sought, partitions[earlier], np.int32(_NOWHERE)),
        records=np.add.reduceat(amounts[:, 0], starts).astype(np.float64),
        sizes=np.add.reduceat(amounts[:, 1], starts).astype(np.float64),
        row_entries=row_entries,
        row_partitions=rows,
        row_amounts=amounts,
        split_rows=np.flatnonzero((partitions == _SEVERAL)[row_entries]),
    )


def _describe_recorded(entries: _Entries, here: slice, keys: _Keys) -> tuple[TopicSums, Ints]:
    """What was recorded of a pair, and the entries of its heaviest keys."""
    rows = slice(*np.searchsorted(entries.row_entries, [here.start, here.stop]))
    amounts, sizes = entries.row_amounts[rows], entries.sizes[here]
    high = sizes + np.bincount(entries.row_entries[rows] - here.start, amounts[:, 2])
    totals = (len(sizes), amounts[:, 0].sum(), amounts[:, 1].sum(), sizes.max(), high.max())
    cells = sum_by_partition(entries.row_partitions[rows], amounts[:, :2])
    # the keys of most bytes, at most `TOP_KEY_COUNT`; among equals those of the smallest ids
    ids = keys.ids[entries.keys[here]]
    least = -np.partition(-sizes, TOP_KEY_COUNT - 1)[TOP_KEY_COUNT - 1] if len(ids) > TOP_KEY_COUNT else 0
    candidates = np.flatnonzero(sizes >= least)
    order = np.lexsort((ids[candidates], -sizes[candidates]))
    return TopicSums({NAMED: cells}, KeyTotals(*map(int, totals))), here.start + candidates[order][:TOP_KEY_COUNT]


def _assign_pairs(
    entries: _Entries, keys: _Keys, rule: _Rule, pairs: Sequence[int], heaviest: dict[int, Ints]
) -> Iterator[tuple[int, AssignedKeys, NDArray[np.int32]]]:
    """Assigns the keys of some pairs: what becomes of them, and the partition of each heaviest key."""
    count = rule.partition_count
    local = np.full(int(entries.pairs[-1]) + 1, -1)
    local[pairs] = np.arange(len(pairs))
    own = local[entries.pairs]
    chosen = place_hashes(keys.hashes[rule.column][entries.keys], rule.mask, count)
    states = keys.states[rule.column][entries.keys]
    chosen[(states == _HASHLESS) | (own < 0)] = _STAYS
    if rule.empty_key is not KeyRule.HASHED:
        chosen[states == _EMPTY] = 0 if rule.empty_key is KeyRule.FIRST else _STAYS
    cells, totals = _sum_moves(entries, own, chosen, (len(pairs), count))
    stays = (chosen == _STAYS) & (own >= 0)
    if stays.any():
        totals |= _keep(entries, own, states, stays, rule=rule, cells=cells)
    names, columns = tuple(totals), np.array(tuple(totals.values())).T.tolist()
    for pair, of_pair, values in zip(pairs, cells, columns, strict=True):
        yield pair, AssignedKeys(of_pair, MoveTotals(**dict(zip(names, values, strict=True)))), chosen[heaviest[pair]]


def _sum_moves(
    entries: _Entries, own: Ints, chosen: NDArray[np.int32], shape: tuple[int, int]
) -> tuple[Ints, dict[str, Ints]]:
    """Records, bytes and keys by pair and partition, and by pair what moves and whose order is at risk."""
    is_moved = entries.partitions != chosen
    is_risky = (entries.before != chosen) & (entries.before != _NOWHERE)
    groups = ((own * shape[1] + chosen) << 2) + (is_moved.view(np.int8) << 1) + is_risky.view(np.int8)
    decided: Any = slice(None)
    if (chosen == _STAYS).any():
        decided = np.flatnonzero(chosen != _STAYS)
        groups = groups[decided]
    weights = (entries.records[decided], entries.sizes[decided], None)
    sums = np.array([np.bincount(groups, weight, shape[0] * shape[1] * 4) for weight in weights]).astype(np.int64)
    sums = sums.reshape(3, *shape, 2, 2)
    moved, at_risk = sums[:, :, :, 1].sum(axis=(2, 3)), sums[:, :, :, :, 1].sum(axis=(2, 3))
    if len(entries.split_rows):  # what is already where the key goes does not move
        of_row = entries.row_entries[entries.split_rows]
        is_there = (chosen[of_row] == entries.row_partitions[entries.split_rows]) & (own[of_row] >= 0)
        rows, pair_of_row = entries.split_rows[is_there], own[of_row[is_there]]
        for number in range(2):
            moved[number] -= np.bincount(pair_of_row, entries.row_amounts[rows, number], shape[0]).astype(np.int64)
    totals = dict(zip(("moved_records", "moved_bytes", "moved_keys"), moved, strict=True))
    totals |= dict(zip(("at_risk_records", "at_risk_bytes", "at_risk_keys"), at_risk, strict=True))
    return np.ascontiguousarray(np.moveaxis(sums.sum(axis=(3, 4)), 0, 2)), totals


def _keep(
    entries: _Entries, own: Ints, states: NDArray[np.uint8], stays: Flags, *, rule: _Rule, cells: Ints
) -> dict[str, Ints]:
    """Leaves records where they were, as far as those partitions are there: adds them to `cells`."""
    rows = np.flatnonzero(stays[entries.row_entries] & (entries.row_partitions < rule.partition_count))
    places = own[entries.row_entries[rows]], entries.row_partitions[rows]
    np.add.at(cells[:, :, :KEYS], places, entries.row_amounts[rows, :2])
    np.add.at(cells[:, :, KEYS], places, 1)

    def count(which: Flags, *, keys: bool = False) -> Ints:
        places = np.flatnonzero(which & stays)
        return np.bincount(own[places], None if keys else entries.records[places], len(cells)).astype(np.int64)

    hashless, refused = count(states == _HASHLESS), count(states == _EMPTY) * (rule.empty_key is KeyRule.REFUSED)
    return {
        "kept_keys": count(stays, keys=True),
        "kept_records": count(stays),
        "refused_records": refused if rule.is_custom else refused + hashless,  # bytes that are no text are refused
        "unanswered_records": hashless * rule.is_custom,
    }
