"""``make pairs ARGS=--constants``: how the committed pairs' figures move when a constant of calibration or replay does.

Every number of the paper of constants that somebody chose is halved and doubled, one at a time; a part of one moves half of the way to it. A state in which calibration finds
what it found before is not simulated again. Lists, and numbers that compiled code holds, stay as they are.
"""

from __future__ import annotations

import argparse
import re
import sys
from dataclasses import replace
from pathlib import Path
from pkgutil import resolve_name
from types import ModuleType
from typing import TYPE_CHECKING, Any

from tests.lab.bench.figures import write_between
from tests.lab.fidelity.pairs.ablation import (
    SEEDS,
    Kept,
    compare_verdicts,
    count_shares,
    format_table,
    judge_pieces,
    read_judged,
)
from tests.lab.fidelity.pairs.pieces import NOTHING, PIECES, Piece

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PAPER = Path("docs/evidence/constants.md")
KEPT = Path("build/constants")
ROW = re.compile(r"^\| `([\w.]+)\.(\w+)` \| [\d./]+ \| (?!Kafka)", re.MULTILINE)
FACTORS = (0.5, 2.0)
HEAD = ("constant", "by", "held before, not now / the reverse", "brokers, other client", "that moved", "trusted are right", "right are trusted")  # fmt: skip


def vary_constants(words: Sequence[str]) -> int:
    """Judges each constant at half and at twice its value, as far as that is not kept, and prints what moves."""
    parser = argparse.ArgumentParser(prog="make pairs ARGS=--constants", description=__doc__)
    parser.add_argument(
        "--only", nargs="*", default=(), metavar="NAME", help="recordings whose names hold one of these"
    )
    parser.add_argument("--folder", type=Path, default=KEPT, help="where what is judged is kept")
    parser.add_argument("--told", action="store_true", help="only print what was judged before")
    parser.add_argument("--write", type=Path, metavar="FILE", help="put the table into this paper")
    arguments = parser.parse_args(words)
    nothing = next(piece for piece in PIECES if piece.name == NOTHING)
    pieces = list(list_states(PAPER.read_text()))
    if not arguments.told:
        judge_pieces([nothing, *pieces], arguments.only, arguments.folder, SEEDS, nothing, scrape_s=0)
    text = format_states(
        read_judged(arguments.folder, nothing), {piece: read_judged(arguments.folder, piece) for piece in pieces}
    )
    print(text)
    if arguments.write:
        write_between(arguments.write, "--constants", text, word="pairs")
    return 0


def list_states(paper: str) -> Iterator[Piece]:
    """Each number of the paper at half and at twice its value, wherever a module holds it."""
    for place, name in ROW.findall(paper):
        owner = resolve_name(place)
        value = getattr(owner, name)
        for factor in FACTORS:
            changed = max(1, round(value * factor)) if isinstance(value, int) else value * factor
            if value < 1 <= changed:  # a part of one stays one
                changed = (value + 1) / 2
            if isinstance(owner, ModuleType):
                found = list_holders(name, value, changed)
            else:  # a field of something that a module holds
                found = list_holders(place.rpartition(".")[2], owner, replace(owner, **{name: changed}))
            yield Piece(f"{place.removeprefix('pipeline.')}.{name} x{factor:g}", f"{value} as {changed}", found)


def list_holders(name: str, value: Any, changed: Any) -> tuple[tuple[ModuleType, str, Any], ...]:
    """Modules that hold a value by this name, its own and those that import it."""
    modules = [module for path, module in sys.modules.items() if path.startswith("pipeline.")]
    return tuple((module, name, changed) for module in modules if vars(module).get(name) is value)


def format_states(nothing: Kept, states: dict[Piece, Kept]) -> str:
    """A row for each state in which a figure changes; then the constants with which none does."""
    rows, still = [], dict[str, int]()
    for piece, kept in states.items():
        common = sorted(nothing.rows.keys() & kept.rows.keys())
        found = [kept.rows[key] for key in common]
        lost, won = compare_verdicts([nothing.rows[key] for key in common], found)
        shares = count_shares(found)
        name, _, factor = piece.name.rpartition(" ")
        if lost or won or count_shares([nothing.rows[key] for key in common]) != shares:
            rows.append([f"`{name}`", factor, f"{lost} / {won}", shares[0], shares[1], *shares[-2:]])
        else:
            still[name] = still.get(name, 0) + 1
    silent = sorted(f"`{name}`" for name, count in still.items() if count == len(FACTORS))
    return (
        f"{len(nothing.cpu_s)} recordings, {len(nothing.rows)} figures\n\n{format_table(HEAD, rows)}\n\n"
        f"Halved or doubled, {len(silent)} constants change no figure: {', '.join(silent)}"
    )
