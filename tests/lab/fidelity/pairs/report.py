"""The report over all pairs: table after table, then the sum of it and every miss with its reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipeline.config.pipeline_config import Spark
from pipeline.storage.session import running_session
from tests.lab.fidelity.pairs.compare import EXACT, SHARE_POINTS, WRONG_WAY, format_rows
from tests.lab.fidelity.pairs.errors import RANGED, SHARE, format_errors
from tests.lab.fidelity.pairs.misses import explain
from tests.lab.fidelity.pairs.pair import SIDES
from tests.lab.fidelity.pairs.tables import compare_pairs, read_recordings
from tests.lab.fidelity.rows import HOLDS, MISSES, NO_BAR

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from tests.lab.fidelity.pairs.compare import PairRow
    from tests.lab.fidelity.pairs.tables import PairTable

SEEDS = 20
WIDEST_POINTS_OFF = 4.0  # of a share, whatever chance explains: beyond it a prediction says nothing
HELD, WAY, CLAIMED, TRUSTED, NEAR, PRECISION, RECALL = (
    "held",
    "right way",
    "claimed way",
    "trusted way",
    "near shares",
    "trusted and right",
    "right and trusted",
)
"""Further kinds of a tally."""
SUBJECTS = {"records per batch": "records per batch", "latency": "latency"}
"""Of figures that have a trust of their own, the beginning, and what the trust is in; that of all others is shares'."""
DIRECTION = "direction"
SPARK = Spark(master="local[2]", driver_memory="2g")
DOCUMENT = """\
# Replayed and real runs

Written by `make fidelity ARGS="--pairs --write FILE"`: a line for each replay, and in full those in which a figure misses its bar. Without
`--write` it prints all.

**How.** Each pair is one traffic, sent twice to real brokers behind a proxy that delays: under one client (*before*), then under another
(*after*). Each record is sent at the same instant of the run, with the same size and key. `partition-health replay` reads the segments of
one run and its producers' scrapes, and nothing of the other run. It predicts the result of the other client (*replayed*), and that of the
recorded one: the back-test. A seed drew rates, sizes, delays, versions and settings (`make fidelity ARGS="--record-pairs SEED"`). The
captures are in `tests/data/pairs`.

**Bars.** A broker's or partition's share of the bytes 2 points (back-test 1.5) or 2.5 standard deviations over the seeds, whichever is
wider; peak-to-mean 5 % (of bytes before compression, as the replay counts it), records per batch 15 %, records/s 3 %, latencies 30 %. If
keys alone decide, every partition to the record.

* *Right way*: the change between the two runs is larger than the bar (of shares: than the chance of both), and the replay's change has the
  same sign.
* *Nine times of ten*: the range of one more run, if the seeds' law is the real one. It includes the model's error, which was fitted to the
  blind draw (`make draw ARGS=--ranges`).

**First sight.** The code was frozen before the settings were drawn (seed 1757) and the runs recorded. 312 of 338 figures held their bar, and
78 of 79 changes had the right sign. The tables below are of later code, so they are not blind.

```text
"""


@dataclass(frozen=True)
class Report:
    """What was printed, whether some miss has no known reason, and of each kind of figure how many are right, of how many."""

    text: str
    has_new_miss: bool
    tally: Mapping[str, Sequence[int]]


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
    tally = count_figures(told)
    parts.append("\n".join([*format_tally(tally), *format_errors(told), *_format_misses(told)]))
    print(parts[-1])
    has_new_miss = any(_is_off(row) and _explain(table, row) is None for table, row in told)
    return Report("\n\n".join(parts), has_new_miss, tally)


def _is_off(row: PairRow) -> bool:
    return row.verdict == MISSES or row.way == WRONG_WAY


def _explain(table: PairTable, row: PairRow) -> str | None:
    return explain(table.recording, table.kind, row.figure, row.off)


def is_figure_trusted(table: PairTable, row: PairRow) -> bool:
    """The prediction of such a figure is."""
    subject = next((subject for begin, subject in SUBJECTS.items() if row.figure.startswith(begin)), None)
    return table.is_trusted if subject is None else bool(table.trusts(subject))


def count_figures(told: Sequence[tuple[PairTable, PairRow]]) -> dict[str, list[int]]:
    """How many figures hold, lie in their ranges, are near and go the right way, and what trust is worth: right ones and all.

    Shares that keys alone decide have no range. A prediction is right where all its shares are within their bars, at most
    4 points.
    """
    found: dict[str, list[bool]] = {kind: [] for kind in (HELD, WAY, CLAIMED, TRUSTED, *RANGED.values(), NEAR)}
    keyed = {table.title for table, row in told if row.figure.startswith(EXACT)}
    trusted = {table.title for table, _ in told if table.is_trusted}
    shares: dict[str, list[bool]] = {}
    for table, row in told:
        if row.verdict != NO_BAR:
            found[HELD].append(row.verdict == HOLDS)
        if row.way:
            found[WAY].append(row.way != WRONG_WAY)
            if row.is_claimed:
                found[CLAIMED].append(row.way != WRONG_WAY)
            if row.is_claimed and is_figure_trusted(table, row):
                found[TRUSTED].append(row.way != WRONG_WAY)
        kind = next((kind for kind in RANGED if row.figure.startswith(kind)), None)
        if not row.predicted or kind is None:
            continue
        off = abs(row.predicted.median - row.after)
        if not (kind == SHARE and table.title in keyed):
            found[RANGED[kind]].append(row.predicted.holds(row.after))
        if kind == SHARE:
            found[NEAR].append(off <= SHARE_POINTS)
            shares.setdefault(table.title, []).append(row.verdict == HOLDS and off <= WIDEST_POINTS_OFF)
    right = {title for title, near in shares.items() if all(near)}
    found[PRECISION] = [title in right for title in sorted(trusted)]
    found[RECALL] = [title in trusted for title in sorted(right)]
    for subject, answers in judge_answers(told).items():
        found[f"{PRECISION}, {subject}"] = [is_right for is_trusted, is_right in answers if is_trusted]
        found[f"{RECALL}, {subject}"] = [is_trusted for is_trusted, is_right in answers if is_right]
    return {kind: [sum(each), len(each)] for kind, each in found.items()}


def judge_answers(told: Sequence[tuple[PairTable, PairRow]]) -> dict[str, list[tuple[bool, bool]]]:
    """Of each question but that for shares and of each table that answers it: whether it is trusted, and whether it is right.

    Right is what all figures that are shown hold; a direction that of the broker with most bytes, where its share really
    changed by more than the bar.
    """
    rows: dict[str, list[PairRow]] = {}
    tables = {table.title: table for table, _ in told}
    for table, row in told:
        rows.setdefault(table.title, []).append(row)
    found: dict[str, list[tuple[bool, bool]]] = {}
    for title, table in tables.items():
        own = {
            subject: [row.verdict == HOLDS for row in rows[title] if row.figure.startswith(begin) and row.predicted]
            for begin, subject in SUBJECTS.items()
        }
        hottest = max((row for row in rows[title] if row.figure.startswith("bytes on")), key=lambda row: row.before)
        own[DIRECTION] = [hottest.way != WRONG_WAY] if hottest.way else []
        for subject, held in own.items():
            if held and (is_trusted := table.trusts(subject)) is not None:
                found.setdefault(subject, []).append((is_trusted, all(held)))
    return found


def format_tally(tally: Mapping[str, Sequence[int]]) -> list[str]:
    """A tally in words; goals are those of the blind draw."""

    def say(kind: str) -> str:
        right, count = tally.get(kind, (0, 0))
        return f"{right} of {count}"

    return [
        f"{say(HELD)} figures hold their bar, {say(WAY)} changes beyond the bar have the right sign (goal 98 %)"
        + (f", {say(CLAIMED)} of those larger than the ranges of what is predicted" if CLAIMED in tally else "")
        + (f", {say(TRUSTED)} of those that are trusted, too" if TRUSTED in tally else ""),
        f"{say(NEAR)} shares are within 2 points (goal 95 %)",
        f"in the range where nine of ten should be: {', '.join(f'{say(kind)} {kind}' for kind in RANGED.values())}",
        f"trust: {say(PRECISION)} trusted predictions are within their bars (goal 98 %), "
        f"{say(RECALL)} within their bars are trusted (goal 80 %)",
        *(
            f"trust in {kind.removeprefix(f'{PRECISION}, ')}: {say(kind)} trusted answers are right (goal 98 %), "
            f"{say(kind.replace(PRECISION, RECALL))} right ones are trusted (goal 80 %)"
            for kind in tally
            if kind.startswith(f"{PRECISION}, ")
        ),
    ]


def _format_misses(told: Sequence[tuple[PairTable, PairRow]]) -> list[str]:
    return [
        f"  {table.title.partition(' |')[0]}: {row.figure}, "
        f"{f'off by {row.off} (bar {row.bar})' if row.predicted else 'not predicted'}"
        f"{', wrong way' if row.way == WRONG_WAY else ''}: {_explain(table, row) or 'NOT EXPLAINED'}"
        for table, row in told
        if _is_off(row)
    ]
