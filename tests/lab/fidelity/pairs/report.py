"""The report over all pairs: table after table, then the sum of it and every miss with its reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipeline.config.pipeline_config import Spark
from pipeline.replay.back_tests import WIDEST_BAR_POINTS
from pipeline.storage.session import running_session
from tests.lab.fidelity.pairs.compare import EXACT, WRONG_WAY, format_rows, format_verdict
from tests.lab.fidelity.pairs.misses import explain
from tests.lab.fidelity.pairs.pair import SIDES
from tests.lab.fidelity.pairs.tables import compare_pairs, read_recordings
from tests.lab.fidelity.rows import HOLDS, MISSES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.lab.fidelity.pairs.compare import PairRow
    from tests.lab.fidelity.pairs.tables import PairTable

SEEDS = 20
_RANGED = {
    "bytes": "shares",
    "records per batch": "records per batch",
    "records/s": "records/s",
    "latency p50": "p50",
    "latency p99": "p99",
}
"""What the figures of a table begin with, and what they are called in the sum."""
SPARK = Spark(master="local[2]", driver_memory="2g")
DOCUMENT = """\
# Replayed and real runs

Written by `make fidelity ARGS="--pairs --write FILE"`: a line for each replay, and whole those in which a figure misses its bar;
without `--write` it prints all. Each pair is one traffic, sent twice to real brokers behind a proxy
that delays: under one client (*before*) and under another (*after*), one after the other, each record at the same instant
of the run with the same size and key. `partition-health replay` reads the recorded run's segments and its producers'
scrapes, nothing of the other run. It predicts what the other client would have given (*replayed*), and what the recorded one
should have given: the back-test. Rates, sizes, delays, versions and settings were drawn by a seed
(`make fidelity ARGS="--record-pairs SEED"`), the captures lie in `tests/data/pairs`.

Ranges are those of `--json`: one more run lies in them nine times of ten, if the seeds' law is the real one.

Bars: share of a broker's or partition's bytes 2 points (back-test 1.5) or 2.5 standard deviations over the seeds, whichever
is wider; peak-to-mean 5 % (of bytes before compression, as the replay counts it), records per batch 15 %, records/s 3 %, latencies 30 %; where keys alone decide, every partition to the record. *Right
way*: the change between the two runs is larger than the bar (of shares: than the chance of both), and the replay's has the
same sign.

The settings were drawn (seed 1757) and the runs recorded when the code was frozen; replayed by that code 312 of 338 figures
held their bar, and 78 of 79 changes had the right sign. What missed led to corrections, so the tables below are no longer blind to
these recordings: full batches now bound `batch.size` where bursts hide where runs end; a delay is tried by simulation where
bursts queue on an idle connection; a codec's cost per batch and its cost per byte are two numbers; peaks are compared in the same
bytes. Later each seed drew what calibration leaves open (a delay within its range, what a client's threads cost), and ranges
became those in which one more run lies: since then the part of real figures inside stands below the tables.

```text
"""


@dataclass(frozen=True)
class Report:
    """What was printed, and whether some miss has no known reason."""

    text: str
    has_new_miss: bool


def report_pairs(folder: Path, only: Sequence[str] = (), sides: Sequence[str] = SIDES, seeds: int = SEEDS) -> Report:
    """Prints the tables of a folder's recordings.

    Args:
        folder: Of archives.
        only: Names of pairs; all without.
        sides: Which recordings to replay.
        seeds: How many.
    """
    parts, told = [], []
    with running_session(SPARK) as spark:
        for table in compare_pairs(spark, read_recordings(folder), seeds, only, sides):
            parts.append(f"{format_rows(table.title, table.rows)}\n{table.note}")
            print(parts[-1], end="\n\n", flush=True)
            told += [(table, row) for row in table.rows]
    verdict = format_verdict([row for _, row in told])
    parts.append("\n".join([verdict, _format_inside(told), format_trust(told), *_format_misses(told)]))
    print(parts[-1])
    return Report("\n\n".join(parts), any(_is_off(row) and _explain(table, row) is None for table, row in told))


def _is_off(row: PairRow) -> bool:
    return row.verdict == MISSES or row.way == WRONG_WAY


def _explain(table: PairTable, row: PairRow) -> str | None:
    return explain(table.recording, table.kind, row.figure, row.off)


def _format_inside(told: Sequence[tuple[PairTable, PairRow]]) -> str:
    """How many real figures lie in the replay's ranges; shares that keys alone decide have none."""
    keyed = {table.title for table, row in told if row.figure.startswith(EXACT)}
    by_kind: dict[str, list[bool]] = {}
    for table, row in told:
        kind = next((kind for kind in _RANGED if row.figure.startswith(kind)), None)
        if kind and row.predicted and not (kind == "bytes" and table.title in keyed):
            by_kind.setdefault(kind, []).append(row.predicted.holds(row.after))
    counts = (f"{sum(inside)} of {len(inside)} {_RANGED[kind]}" for kind, inside in by_kind.items())
    return f"in the range where nine of ten should be: {', '.join(counts)}"


def format_trust(told: Sequence[tuple[PairTable, PairRow]]) -> str:
    """Trust's precision and recall over the predictions, each right where all its shares are within their bars, at most 4 points."""
    shares: dict[str, list[bool]] = {}
    trusted = {table.title for table, _ in told if table.is_trusted}
    for table, row in told:
        if row.figure.startswith("bytes") and row.predicted:
            is_near = row.verdict == HOLDS and abs(row.predicted.median - row.after) <= WIDEST_BAR_POINTS
            shares.setdefault(table.title, []).append(is_near)
    right = {title for title, near in shares.items() if all(near)}
    return (
        f"trust: {len(right & trusted)} of {len(trusted)} trusted predictions are within their bars (goal 98 %), "
        f"{len(right & trusted)} of {len(right)} within their bars are trusted (goal 80 %)"
    )


def _format_misses(told: Sequence[tuple[PairTable, PairRow]]) -> list[str]:
    return [
        f"  {table.title.partition(' |')[0]}: {row.figure}, "
        f"{f'off by {row.off} (bar {row.bar})' if row.predicted else 'not predicted'}"
        f"{', wrong way' if row.way == WRONG_WAY else ''}: {_explain(table, row) or 'NOT EXPLAINED'}"
        for table, row in told
        if _is_off(row)
    ]
