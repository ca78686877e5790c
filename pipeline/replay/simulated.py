"""The keyless and mixed replay over Spark: tasks read the arrivals of units and simulate them.

A task is a list of runs: unit, candidate, seed. A lost executor costs the runs of its tasks, which Spark does again: each
run's chance follows from its seed and its unit, so the result is the same whoever does it.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from pipeline.replay.unit_arrivals import prepare_arrivals
from pipeline.replay.unit_runs import CELLS, TopicRun, run_unit
from pipeline.replay.unit_scenario import lay_out_unit
from pipeline.simulator.engine.latency_histogram import BUCKET_COUNT, LatencyHistogram

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pipeline.calibration.session_traffic import SessionTraffic
    from pipeline.replay.key_places import KeyHashes
    from pipeline.replay.run_plan import RunPlan
    from pipeline.replay.units import ReplayUnit

    ReadArrivals = Callable[[ReplayUnit], Iterable[SessionTraffic]]
    ReadHashes = Callable[[ReplayUnit], KeyHashes]


class RunRow(NamedTuple):
    """A topic of a unit in one run; topic and candidate by number in the plan."""

    unit: int
    topic: int
    candidate: int
    seed: int
    run: TopicRun


def simulate_runs(
    runs: Sequence[tuple[int, int, int]], plan: RunPlan, *, read_arrivals: ReadArrivals, read_hashes: ReadHashes
) -> Iterator[pa.RecordBatch]:
    """Simulates the runs of one task.

    Args:
        runs: From `deal_runs`.
        plan: What they are about.
        read_arrivals: Gives a unit's arrivals.
        read_hashes: Gives the hashes of a unit's keys.

    Yields:
        A row for each run and topic; `read_runs` reads them.
    """
    for rows in _simulate_each(plan, runs, read_arrivals, read_hashes):
        yield _as_batch(rows)


def _simulate_each(
    plan: RunPlan, runs: Sequence[tuple[int, int, int]], read_arrivals: ReadArrivals, read_hashes: ReadHashes
) -> Iterator[list[RunRow]]:
    """Run after run; arrivals are read once per unit, and a unit is put under a candidate once."""
    for unit_number, of_unit in itertools.groupby(sorted(runs), key=lambda run: run[0]):
        unit = plan.units[unit_number]
        arrivals = prepare_arrivals(unit, read_arrivals(unit))
        hashes = read_hashes(unit)
        for candidate, of_candidate in itertools.groupby(of_unit, key=lambda run: run[1]):
            planned = lay_out_unit(unit, arrivals, plan.candidates[candidate], hashes)
            for _, _, seed in of_candidate:
                found = run_unit(planned, arrivals, seed)
                yield [RunRow(unit_number, topic, candidate, seed, run) for topic, run in enumerate(found)]
        del arrivals  # before the next ones are read


def _as_batch(rows: Sequence[RunRow]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {
            **{name: pa.array([getattr(row, name) for row in rows], pa.int32()) for name in _NUMBERS},
            "cells": pa.array([row.run.cells.astype("<i8").tobytes() for row in rows], pa.binary()),
            "totals": pa.array([_pack_totals(row.run) for row in rows], pa.binary()),
            "latencies": pa.array([_pack_latencies(row.run.latencies) for row in rows], pa.binary()),
        }
    )


def read_runs(batches: Iterable[pa.RecordBatch]) -> Iterator[RunRow]:
    """The rows of `simulate_runs`, collected.

    Args:
        batches: In any order.
    """
    for row in (row for batch in batches for row in batch.to_pylist()):
        sent, failed, refused, first_ns, last_ns, told_ns, *extremes = np.frombuffer(row["totals"], "<i8").tolist()
        places, found = np.frombuffer(row["latencies"], "<i8").reshape(2, -1)
        counts = np.zeros(BUCKET_COUNT, np.int64)
        counts[places] = found
        run = TopicRun(
            cells=np.frombuffer(row["cells"], "<i8").reshape(-1, len(CELLS)).astype(np.int64),
            sent_count=sent,
            failed_count=failed,
            refused_count=refused,
            first_sent_ns=first_ns,
            last_done_ns=last_ns,
            latencies=LatencyHistogram(counts, *extremes),
            told_latency_sum_ns=told_ns,
        )
        yield RunRow(row["unit"], row["topic"], row["candidate"], row["seed"], run)


_NUMBERS = ("unit", "topic", "candidate", "seed")


def _pack_totals(run: TopicRun) -> bytes:
    latencies = run.latencies
    counts = (run.sent_count, run.failed_count, run.refused_count)
    told = (*counts, run.first_sent_ns, run.last_done_ns, run.told_latency_sum_ns)
    return np.array([*told, latencies.sum_ns, latencies.min_ns, latencies.max_ns], "<i8").tobytes()


def _pack_latencies(latencies: LatencyHistogram) -> bytes:
    places = np.flatnonzero(latencies.counts)
    return np.stack([places, latencies.counts[places]]).astype("<i8").tobytes()
