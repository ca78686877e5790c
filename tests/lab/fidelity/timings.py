"""What a real client's threads, the proxy and a broker cost, from a run of `TimedLoad.java` behind the noting proxy.

All clocks are `System.nanoTime()` of JVMs on one machine, so instants of client and proxy compare.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

QUANTILES = (0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 1.0)
BURST_GAP_NS = 1_000_000
IDLE_CLASSES_NS = (0, 100_000, 1_000_000, 3_000_000, 10_000_000, 1 << 62)
BYTE_CLASSES = (0, 4_096, 12_288, 24_576, 1 << 30)
FEW = 30
QUEUED_NS = 60_000  # a request read so soon after the answer before it had been waiting in the socket


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
        noted = np.loadtxt(requests, skiprows=1, dtype=np.int64)
        noted = noted[np.argsort(noted[:, 4], kind="stable")]
        sent = sent[sent[:, 0] > cut]
        opens = np.zeros(len(sent), bool)
        for partition, offsets in bases.items():
            opens |= (sent[:, 3] == partition) & np.isin(sent[:, 4], offsets)
        return cls(sent, opens, turns[turns[:, 0] > cut], noted[noted[:, 4] > cut])


def summarise(run: TimedRun) -> dict[str, object]:
    """Quantiles in ns of every cost, each with its number of samples; names say from when to when."""
    return {
        "quantiles": list(QUANTILES),
        "tool": _summarise_tool(run),
        "sender": _summarise_sender(run),
        "service": _summarise_service(run),
        "responses": _summarise_responses(run),
        "model": _summarise_for_model(run),
    }


def quantiles_of(samples: NDArray[np.int64]) -> dict[str, object]:
    """Number of samples and their quantiles."""
    return {
        "count": len(samples),
        "ns": [int(value) for value in np.quantile(samples, QUANTILES)] if len(samples) else [],
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
        "sleep": quantiles_of(sleeps),
        "sleep_beyond_3_ms": quantiles_of(sleeps[sleeps > 2_990_000] - 3_000_000),
        "first_send": quantiles_of((after - before)[(places == 0) & run.opens]),
        "first_to_second": quantiles_of(steps[places[1:] == 1]),
        "second_to_third": quantiles_of(steps[places[1:] == 2]),
        "later_steps": quantiles_of(steps[places[1:] > 2]),
    }


def _summarise_sender(run: TimedRun) -> dict[str, object]:
    ready, select, awake, served = run.turns.T
    heads, _places = _bursts(run)
    before = run.records[heads[run.opens[heads]], 0]
    before = before[before < ready[-2]]
    turn = np.searchsorted(select, before) - 1
    kept = (turn >= 0) & (awake[turn] > before)
    asleep_share = float(kept.mean())
    before, turn = before[kept], turn[kept]
    written = np.sort(run.requests[:, 7])
    alone = np.searchsorted(written, awake[turn]) == np.searchsorted(written, before - 200_000)
    before, turn = before[alone], turn[alone]
    arrived = np.sort(run.requests[:, 4])
    sent = np.searchsorted(arrived, np.r_[select[1:], select[-1] + 1]) - np.searchsorted(arrived, select)
    own = np.searchsorted(awake, run.requests[:, 4]) - 1
    return {
        "turns_per_s": round(float(len(ready) / ((ready[-1] - ready[0]) / 1e9)), 1),
        "asleep_at_first_send_ratio": round(asleep_share, 4),
        "first_send_to_awake": quantiles_of(awake[turn] - before),
        "awake_to_ready": quantiles_of(ready[turn + 1] - awake[turn]),
        "ready_to_select_with_requests": quantiles_of((select - ready)[sent > 0]),
        "ready_to_select_without": quantiles_of((select - ready)[sent == 0]),
        "select_to_arrived": quantiles_of((run.requests[:, 4] - select[own])[own >= 0]),
        "served_to_ready": quantiles_of(ready[1:] - served[:-1]),
    }


def _summarise_service(run: TimedRun) -> dict[str, object]:
    rows = []
    for broker in np.unique(run.requests[:, 0]):
        own = run.requests[run.requests[:, 0] == broker]
        idle = np.r_[1 << 61, own[1:, 4] - own[:-1, 7]]
        rows.append(np.c_[own[:, 2], own[:, 3], own[:, 5] - own[:, 4], idle])
    partitions, size, service, idle = np.concatenate(rows).T
    by_class = []
    for idle_from, idle_to in pairwise(IDLE_CLASSES_NS):
        for bytes_from, bytes_to in pairwise(BYTE_CLASSES):
            inside = (idle_from <= idle) & (idle < idle_to) & (bytes_from <= size) & (size < bytes_to)
            if inside.sum() >= FEW:
                row = {"idle_from_ns": idle_from, "bytes_from": bytes_from, "mean_bytes": int(size[inside].mean())}
                by_class.append(row | quantiles_of(service[inside]))
    more = {
        str(n): quantiles_of(service[partitions == n]) for n in np.unique(partitions) if (partitions == n).sum() >= FEW
    }
    return {"arrived_to_answered": quantiles_of(service), "by_idle_and_bytes": by_class, "by_partitions": more}


def _summarise_responses(run: TimedRun) -> dict[str, object]:
    _ready, select, awake, _served = run.turns.T
    answered, released, written = run.requests[:, 5], run.requests[:, 6], run.requests[:, 7]
    held = released - answered
    whole_ms = held // 1_000_000 * 1_000_000
    delayed = whole_ms > 0
    turn = np.searchsorted(select, released) - 1
    asleep = (turn >= 0) & (awake[turn] > released)
    return {
        "hold_beyond_whole_ms": quantiles_of((held - whole_ms)[delayed]),
        "answered_to_written_without_delay": quantiles_of((written - answered)[~delayed]),
        "asleep_at_release_ratio": round(float(asleep.mean()), 4),
        "released_to_awake": quantiles_of((awake[turn] - released)[asleep]),
    }


def _summarise_for_model(run: TimedRun) -> dict[str, object]:
    """The same instants joined as the simulator's parts are: `client.ThreadCosts` and `scenario.Service`.

    A turn begins where the client looks for ready nodes. A service lasts from a request's arrival, or from the answer
    before if it had been waiting, until the broker has answered, without what its bytes take; idle is the time between that answer and the start.
    """
    ready, select, awake, _served = run.turns.T
    heads, _places = _bursts(run)
    before = run.records[heads[run.opens[heads]], 0]
    before = before[before < ready[-2]]
    turn = np.searchsorted(select, before) - 1
    kept = (turn >= 0) & (awake[turn] > before)
    busy = awake - select < 3_000
    costs = {
        "first_send_to_ready": quantiles_of(ready[turn[kept] + 1] - before[kept]),
        "turn_to_turn_awake": quantiles_of((ready[1:] - ready[:-1])[busy[:-1]]),
    }
    released = run.requests[:, 6]
    turn = np.searchsorted(select, released) - 1
    asleep = (turn >= 0) & (awake[turn] > released) & (turn < len(ready) - 1)
    costs["released_to_ready"] = quantiles_of(ready[turn[asleep] + 1] - released[asleep])
    rows = _join_requests(run)
    services = [row["service"] for row in rows.values()]
    costs["ready_to_arrived_idle"] = quantiles_of(np.concatenate([row["transit"] for row in rows.values()]))
    size, service, idle = np.concatenate(services).T
    kib_ns = _measure_kib_ns(size[idle < IDLE_CLASSES_NS[1]], service[idle < IDLE_CLASSES_NS[1]])
    without_bytes = np.maximum(service - size * kib_ns // 1024, 1_000)
    return costs | {"kib_ns": kib_ns, "service": _class_services(np.c_[size, without_bytes, idle])}


def _measure_kib_ns(size: NDArray[np.int64], service: NDArray[np.int64]) -> int:
    """What each 1,024 bytes add, from the medians of large and small requests that followed at once."""
    small, large = size < BYTE_CLASSES[1], size >= BYTE_CLASSES[2]
    if min(small.sum(), large.sum()) < FEW:
        return 0
    more_ns = np.median(service[large]) - np.median(service[small])
    return max(round(float(more_ns / (size[large].mean() - size[small].mean()) * 1024)), 0)


def _join_requests(run: TimedRun) -> dict[int, dict[str, NDArray[np.int64]]]:
    """By broker: services as rows of bytes, service and idle time before; transit of those that found it idle."""
    ready, _select, awake, _served = run.turns.T
    joined = {}
    for broker in np.unique(run.requests[:, 0]):
        own = run.requests[run.requests[:, 0] == broker]
        last, own = own[:-1], own[1:]
        queued = own[:, 4] - last[:, 7] < QUEUED_NS
        start = np.where(queued, last[:, 6], own[:, 4])
        turn = np.searchsorted(awake, own[:, 4]) - 1
        joined[int(broker)] = {
            "service": np.c_[own[:, 3], own[:, 5] - start, start - last[:, 6]],
            "transit": (own[:, 4] - ready[turn])[~queued & (turn >= 0)],
        }
    return joined


def _class_services(services: NDArray[np.int64]) -> list[dict[str, object]]:
    size, service, idle = services.T
    classes = []
    for idle_from, idle_to in pairwise(IDLE_CLASSES_NS):
        inside = (idle_from <= idle) & (idle < idle_to)
        if inside.sum() >= FEW:
            row = {"idle_from_ns": idle_from, "mean_bytes": int(size[inside].mean())}
            classes.append(row | quantiles_of(service[inside]))
    return classes
