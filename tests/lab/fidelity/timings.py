"""What a real client's threads cost, from a run of `TimedLoad.java` behind the noting proxy.

All clocks are `System.nanoTime()` of JVMs on one machine, so instants of client and proxy compare.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tests.lab.fidelity.services import join_services, quantiles_of, read_requests, summarise_services

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

BURST_GAP_NS = 1_000_000
AT_ONCE_NS = 3_000  # a poll that had something to do returns so soon


@dataclass(frozen=True, eq=False)
class TimedRun:
    """Arrays of one run.

    ``records`` rows: before send(), after it, in the callback, partition, offset. ``opens``: whether the record opened a
    batch, so that its send() woke the sender. ``turns`` rows: before ready(), before
    select(), after it, after the sockets were served. ``requests`` rows: broker, connection, partitions, bytes, arrived,
    answered, released, written. All instants in ns.
    """

    records: NDArray[np.int64]
    opens: NDArray[np.bool_]
    turns: NDArray[np.int64]
    requests: NDArray[np.int64]

    @classmethod
    def read(
        cls, records: Path, clock: Path, requests: Path, bases: Mapping[int, NDArray[np.int64]], skip_s: float
    ) -> TimedRun:
        """The files of a run, without its first seconds (code still being compiled).

        Args:
            records: As `TimedLoad.java` writes it.
            clock: The same.
            requests: As `Proxy.java` writes it.
            bases: By partition, the first offsets of its batches.
            skip_s: How many seconds.
        """
        sent = np.fromfile(records, ">i8").astype(np.int64).reshape(-1, 5)
        cut = sent[0, 0] + int(skip_s * 1e9)
        turns = _find_turns(np.fromfile(clock, ">i8").astype(np.int64).reshape(-1, 2))
        sent = sent[sent[:, 0] > cut]
        opens = np.zeros(len(sent), bool)
        for partition, offsets in bases.items():
            opens |= (sent[:, 3] == partition) & np.isin(sent[:, 4], offsets)
        return cls(sent, opens, turns[turns[:, 0] > cut], read_requests(requests, cut))


def summarise(run: TimedRun, delays_ms: Mapping[int, Sequence[float]]) -> dict[str, object]:
    """Quantiles in ns of every cost, each with its number of samples; names say from when to when.

    A turn begins where the client looks for ready nodes. ``returned_to_ready`` is from the return of a `send()` that
    opened a batch and woke the sender; 0 where the sender looked before. ``released_to_ready`` is from when the proxy let
    a response go.
    """
    return {
        "tool": _summarise_tool(run),
        "sender": _summarise_sender(run),
        "services": summarise_services(run.requests, delays_ms),
    }


def _find_turns(clock: NDArray[np.int64]) -> NDArray[np.int64]:
    """Turns of the sender's loop: milliseconds, two readings of nanoseconds in a row, later a third."""
    kinds, instants = clock.T
    nanos = np.flatnonzero(kinds == 1)
    turns = []
    ready = 0
    position = 0
    while position + 2 < len(nanos):
        start, end = nanos[position], nanos[position + 1]
        if end != start + 1:
            position += 1
            continue
        if start > 0:
            ready = instants[start - 1] if kinds[start - 1] == 0 else ready
        turns.append((ready, instants[start], instants[end], instants[nanos[position + 2]]))
        position += 3
    return np.array(turns, np.int64)


def _bursts(run: TimedRun) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Indices of bursts' first records, and for every record its place in its burst."""
    gaps = run.records[1:, 0] - run.records[:-1, 1]
    heads = np.flatnonzero(np.r_[True, gaps > BURST_GAP_NS])
    sizes = np.diff(np.r_[heads, len(run.records)])
    return heads, np.arange(len(run.records)) - np.repeat(heads, sizes)


def _summarise_tool(run: TimedRun) -> dict[str, object]:
    before, after = run.records[:, 0], run.records[:, 1]
    heads, places = _bursts(run)
    sizes = np.diff(np.r_[heads, len(run.records)])
    steps = np.diff(before)
    sleeps = before[heads[1:]] - after[heads[1:] - 1]
    return {
        "burst_records": {
            str(size): int(count) for size, count in zip(*np.unique(sizes, return_counts=True), strict=True)
        },
        "sleep_beyond_3_ms": quantiles_of(sleeps[sleeps > 2_990_000] - 3_000_000),
        "first_send": quantiles_of((after - before)[(places == 0) & run.opens]),
        "first_to_second": quantiles_of(steps[places[1:] == 1]),
        "second_to_third": quantiles_of(steps[places[1:] == 2]),
        "later_steps": quantiles_of(steps[places[1:] > 2]),
    }


def _summarise_sender(run: TimedRun) -> dict[str, object]:
    ready, select, awake, _served = run.turns.T
    heads, _places = _bursts(run)
    heads = heads[run.opens[heads]]
    heads = heads[run.records[heads, 0] < ready[-2]]
    before, after = run.records[heads, 0], run.records[heads, 1]
    turn = np.searchsorted(select, before) - 1
    asleep = (turn >= 0) & (awake[turn] > before)
    busy = awake - select < AT_ONCE_NS
    released = run.requests[:, 6]
    answer = np.searchsorted(select, released) - 1
    slept = (answer >= 0) & (awake[answer] > released) & (answer < len(ready) - 1)
    return {
        "asleep_at_first_send_ratio": round(float(asleep.mean()), 4),
        "returned_to_ready": quantiles_of(np.maximum(ready[turn[asleep] + 1] - after[asleep], 0)),
        "released_to_ready": quantiles_of(ready[answer[slept] + 1] - released[slept]),
        "turn_to_turn_awake": quantiles_of((ready[1:] - ready[:-1])[busy[:-1]]),
        "ready_to_arrived_idle": quantiles_of(_find_transits(run)),
    }


def _find_transits(run: TimedRun) -> NDArray[np.int64]:
    """From the turn that sent a request until it was at the proxy, of requests that found the connection idle."""
    ready, _select, awake, _served = run.turns.T
    transits = []
    for broker in np.unique(run.requests[:, 0]):
        own = run.requests[run.requests[:, 0] == broker]
        arrived = own[1:, 4][join_services(own)[:, -1] == 0]
        turn = np.searchsorted(awake, arrived) - 1
        transits.append((arrived - ready[turn])[turn >= 0])
    return np.concatenate(transits)
