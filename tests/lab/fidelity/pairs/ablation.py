"""``make pairs ARGS=--ablation``: what each piece of calibration and replay buys, on all committed pairs.

Every recording is ingested once and then replayed again and again, each time with one piece of `pieces.py` switched off. What is
judged is kept in a file for each piece, so that an interrupted run goes on; ``--told`` only prints the tables of what is there.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from pipeline.jobs import replay as replay_job
from tests.lab.bench.figures import write_between
from tests.lab.fidelity.pairs.compare import RIGHT_WAY, SHARE_POINTS
from tests.lab.fidelity.pairs.judged import Judged, ingest_pairs
from tests.lab.fidelity.pairs.pieces import NOTHING, PIECES, Piece
from tests.lab.recording import say

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tests.lab.fidelity.pairs.judged import Ingested

KEPT = Path("build/ablation")
SEEDS = 20
LATENCIES = ("latency p50, ms", "latency p95, ms", "latency p99, ms")


def ablate(words: Sequence[str]) -> int:
    """Judges what is not yet judged, and prints the tables; the words are those of the command line."""
    parser = argparse.ArgumentParser(prog="make pairs ARGS=--ablation", description=__doc__)
    names = [piece.name for piece in PIECES]
    parser.add_argument("--pieces", nargs="+", choices=names, default=names, metavar="PIECE", help="; ".join(names))
    parser.add_argument(
        "--only", nargs="*", default=(), metavar="NAME", help="recordings whose names hold one of these"
    )
    parser.add_argument("--seeds", type=int, default=SEEDS, help="of each replay")
    parser.add_argument("--also-off", choices=names, default=NOTHING, metavar="PIECE", help="off in all states")
    parser.add_argument("--scrapes", type=int, default=0, metavar="SECONDS", help="read scrapes so far apart only")
    parser.add_argument("--folder", type=Path, default=KEPT, help="where what is judged is kept")
    parser.add_argument("--told", action="store_true", help="only print what was judged before")
    parser.add_argument("--write", type=Path, metavar="FILE", help="put the tables into this paper")
    arguments = parser.parse_args(words)
    pieces = [piece for piece in PIECES if piece.name in arguments.pieces]
    also_off = next(piece for piece in PIECES if piece.name == arguments.also_off)
    kept = arguments.folder / f"without-{also_off.name}" if also_off.name != NOTHING else arguments.folder
    kept = kept / f"scrapes-{arguments.scrapes}-s" if arguments.scrapes else kept
    if not arguments.told:
        judge_pieces(pieces, arguments.only, kept, arguments.seeds, also_off, scrape_s=arguments.scrapes)
    text = format_pieces({piece.name: read_judged(kept, piece) for piece in pieces})
    print(text)
    if arguments.write:
        write_between(arguments.write, "--ablation", text, word="pairs")
    return 0


def judge_pieces(
    pieces: Sequence[Piece], only: Sequence[str], kept: Path, seeds: int, also_off: Piece, *, scrape_s: float
) -> None:
    """Judges recordings, all or those whose names hold one of some texts, without each piece, as far as that is not kept yet."""

    def list_open(name: str) -> list[tuple[Piece, Path]]:
        files = ((piece, kept / piece.name / f"{name.replace(' ', '-')}-{seeds}.json") for piece in pieces)
        return [(piece, file) for piece, file in files if not file.exists()]

    def is_wanted(name: str) -> bool:
        return bool(list_open(name)) and (not only or any(each in name for each in only))

    for ingested in ingest_pairs(seeds, is_wanted, scrape_s=scrape_s):
        known: dict[str, list[Judged]] = {}
        for piece, file in list_open(ingested.name):
            started_s = time.process_time()
            with also_off.switched_off(), piece.switched_off():
                rows = judge_once(ingested, {} if piece.is_late else known)
            cpu_s = time.process_time() - started_s
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps({"cpu_s": cpu_s, "rows": [asdict(row) for row in rows]}))
            say(
                f"{ingested.name}: without {piece.name}: {sum(row.holds for row in rows)} of {len(rows)}, {cpu_s:.1f} CPU-s"
            )


class _Found(Exception):  # noqa: N818 - it is no error
    """What is to be simulated was judged before."""


def judge_once(ingested: Ingested, known: dict[str, list[Judged]]) -> list[Judged]:
    """Judges a recording, unless calibration found what it found in one of the states known: the rest would be the same."""
    digest = ""

    def look(*given: object, **named: object) -> Any:
        nonlocal digest
        digest = hashlib.sha256(repr((named["sessions"], named["metrics"], named["plan"])).encode()).hexdigest()
        if digest in known:
            raise _Found
        return _list_topics(*given, **named)

    with contextlib.suppress(_Found), patch.object(replay_job, "list_topics", look):
        known[digest] = ingested.judge()  # the key is looked up when the value is there
    return known[digest]


_list_topics = replay_job.list_topics


@dataclass(frozen=True)
class Kept:
    """All that was judged with a piece switched off, by figure, and the CPU-seconds of its replays by file."""

    rows: Mapping[tuple[str, str], Judged]
    cpu_s: Mapping[str, float]


def read_judged(folder: Path, piece: Piece) -> Kept:
    """What is kept of a piece."""
    rows, cpu_s = {}, {}
    for file in sorted((folder / piece.name).glob("*.json")):
        found: dict[str, Any] = json.loads(file.read_text())
        cpu_s[file.name] = found["cpu_s"]
        rows |= {row.key: row for row in (Judged(**each) for each in found["rows"])}
    return Kept(rows, cpu_s)


def format_pieces(kept: Mapping[str, Kept]) -> str:
    """Two tables: shares, directions and trust; then all else, lines and CPU-s. Over recordings that all pieces have."""
    known = {name: one for name, one in kept.items() if one.rows}
    files = set.intersection(*(set(one.cpu_s) for one in known.values())) if known else set()
    common = set.intersection(*(set(one.rows) for one in known.values())) if known else set()
    base = known.get(NOTHING)
    lines = {piece.name: piece.line_count for piece in PIECES}
    does = {piece.name: piece.does for piece in PIECES}
    shares, others = [], []
    for name, one in known.items():
        rows = [one.rows[key] for key in sorted(common)]
        cpu_s = sum(one.cpu_s[file] for file in files)
        lost, gained = compare_verdicts([base.rows[row.key] for row in rows], rows) if base else (0, 0)
        shares.append([f"{name}: {does[name]}", *count_shares(rows)])
        others.append(
            [name, *count_others(rows), f"{lost} / {gained}", f"{cpu_s:.0f}", f"{lines[name]}" if lines[name] else ""]
        )
    of = f"{len(files)} recordings, {len(common)} figures, {sum(map(bool, known))} states"
    return f"{of}\n\n{format_table(SHARE_HEAD, shares)}\n\n{format_table(OTHER_HEAD, others)}"


SHARE_HEAD = (
    "switched off",
    "brokers, other client",
    "that moved",
    "*nothing changes*",
    "brokers, current",
    "partitions, other client",
    "that moved",
    "partitions, current",
    "directions",
    "claimed ones",
    "trusted are right",
    "right are trusted",
)
OTHER_HEAD = (
    "switched off",
    "peaks",
    "records per batch",
    "records/s",
    "p50",
    "p95",
    "p99",
    "shares in range",
    "batches in range",
    "p50, p95, p99 in range",
    "held before, not now / the reverse",
    "CPU-s",
    "lines",
)


def count_shares(rows: Sequence[Judged]) -> list[str]:
    """Shares within two points, and their mean error in points; directions; precision and recall of trust."""
    cells = []
    for place in ("brokers", "partitions"):
        other = [row for row in rows if row.place == place and not row.is_back_test]
        cells += [_near(other), _near([row for row in other if row.is_moved])]
        if place == "brokers":
            cells.append(f"{sum(abs(row.before - row.real) <= SHARE_POINTS for row in other)}")
        cells.append(_near([row for row in rows if row.place == place and row.is_back_test]))
    ways = [row for row in rows if row.way]
    claims = [row for row in ways if row.is_claimed]
    tables: dict[str, list[Judged]] = {}
    for row in rows:
        if row.place:
            tables.setdefault(row.of, []).append(row)
    right = {of for of, own in tables.items() if all(row.holds for row in own)}
    trusted = {of for of, own in tables.items() if own[0].is_trusted}
    return [
        *cells,
        _share(row.way == RIGHT_WAY for row in ways),
        _share(row.way == RIGHT_WAY for row in claims),
        _share(of in right for of in sorted(trusted)),
        _share(of in trusted for of in sorted(right)),
    ]


def count_others(rows: Sequence[Judged]) -> list[str]:
    """What else holds its bar; and what lies in its range, shares that keys decide left out."""
    groups = ("peak-to-mean", "records per batch", "records/s", *LATENCIES)
    cells = [_share(row.holds for row in rows if row.figure.startswith(group)) for group in groups]
    cells.append(_share(row.is_inside for row in rows if row.place and not row.by_keys))
    cells.append(_share(row.is_inside for row in rows if row.figure == "records per batch"))
    return [*cells, ", ".join(f"{sum(row.is_inside for row in rows if row.figure == name)}" for name in LATENCIES)]


def compare_verdicts(base: Sequence[Judged], rows: Sequence[Judged]) -> tuple[int, int]:
    """Of the same figures: how many held and do not now, and how many hold now and did not."""
    changes = Counter((one.holds, other.holds) for one, other in zip(base, rows, strict=True))
    return changes[True, False], changes[False, True]


def _near(rows: Sequence[Judged]) -> str:
    mean = sum(row.off for row in rows) / len(rows) if rows else 0.0
    return f"{_share(row.off <= SHARE_POINTS for row in rows)} ({mean:.2f})"


def _share(found: Iterable[bool]) -> str:
    values = list(found)
    return f"{sum(values)} of {len(values)}"


def format_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """As Markdown."""
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows))
