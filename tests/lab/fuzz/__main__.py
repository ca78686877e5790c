"""Fuzzes every target in processes of its own, and writes the table of `docs/evidence/reliability.md`.

``python -m tests.lab.fuzz [--seconds N] [--only NAME] [--add] [--seed N]``: a case that fails is kept in the corpus, for the tests to run
it from then on.
"""

import argparse
import os
import random
import resource
import sys
import time
from mmap import mmap
from typing import NamedTuple

from tests.lab.fuzz.corpus import choose_cases, keep_case, load_cases
from tests.lab.fuzz.mutations import mutate
from tests.lab.fuzz.targets import ROOT, Target, load_targets, run
from tests.paper_rows import read_rows, with_rows

PAPER = ROOT / "docs/evidence/reliability.md"
HEAD = "| parser or kernel | executions | crashes, other errors | longest | memory grown |\n|---|---|---|---|---|\n"
ALL = "all"
MOST_S = 1.0
_CLOCK_EVERY = 64
_SHARED_BYTES = 1 << 16


class Found(NamedTuple):
    """What fuzzing a target came to: executions, failing specimens, CPU seconds of the longest one, MiB of growth."""

    executions: int
    failures: int
    longest_s: float
    grown_mib: int


def main() -> int:
    """Fuzzes; 0 where nothing failed."""
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600, help="for all targets together")
    parser.add_argument("--only", default="", help="targets whose name holds this; the rows of others stay")
    parser.add_argument(
        "--grow", type=int, metavar="N", help="only make N cases for each target, and keep those that say more"
    )
    parser.add_argument("--add", action="store_true", help="add to the rows there are")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    targets = {name: target for name, target in load_targets().items() if options.only in name}
    for name, target in targets.items() if options.grow else ():
        grow_corpus(name, target, count=options.grow, seed=options.seed)
    if options.grow:
        return 0
    found = {}
    for name, target in targets.items():
        found[name] = fuzz(name, target, seconds=options.seconds / len(targets), seed=options.seed)
        sys.stdout.write(format_row(name, found[name]))
        sys.stdout.flush()
    text = PAPER.read_text()
    rows = read_rows(text, HEAD)
    rows.pop(ALL, None)
    for name, each in found.items():
        before = read_row(rows[name]) if options.add and name in rows else Found(0, 0, 0, 0)
        together = Found(
            each.executions + before.executions, each.failures + before.failures, *map(max, each[2:], before[2:])
        )
        rows[name] = format_row(name, together)
    total = sum(int(row.split("|")[2].replace(",", "")) for row in rows.values())
    PAPER.write_text(with_rows(text, HEAD, rows | {ALL: f"| {ALL} | {total:,} | | | |\n"}, targets))
    executions = sum(each.executions for each in found.values())
    sys.stdout.write(f"{executions:,} executions, seed {options.seed}; {total:,} in the paper\n")
    return int(any(each.failures for each in found.values()))


def fuzz(name: str, target: Target, *, seconds: float, seed: int) -> Found:
    """Fuzzes one target until its time is over, in a child; a failing specimen is kept and a new child goes on."""
    ends_s, found, failures, turn = time.monotonic() + seconds, Found(0, 0, 0.0, 0), 0, 0
    while time.monotonic() < ends_s and failures < 10:
        shared = mmap(-1, _SHARED_BYTES)
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(read)
            _work(target, random.Random(f"{seed} {name} {turn}"), shared, write, ends_s)
        os.close(write)
        with os.fdopen(read) as told:
            lines = told.read().splitlines()
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        executions, longest_s, grown_mib = (float(word) for word in (lines or ["0 0 0"])[-1].split())
        found = Found(
            found.executions + int(executions),
            failures,
            max(found.longest_s, longest_s),
            max(found.grown_mib, int(grown_mib)),
        )
        if status:
            failures, turn = failures + 1, turn + 1
            size = int.from_bytes(shared[:4], "big")
            sys.stdout.write(f"{name}: kept in {keep_case(name, shared[4 : 4 + size])}\n")
    return found._replace(failures=failures)


def _work(target: Target, rng: random.Random, shared: mmap, write: int, ends_s: float) -> None:
    """Mutates and reads until the end; what is read lies where it outlives this process."""
    count, longest_s, grown = 0, 0.0, 0
    for case in target.cases:
        run(target, case)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        while count % _CLOCK_EVERY or time.monotonic() < ends_s:
            data = make_case(target, rng)
            shared[: 4 + len(data)] = len(data).to_bytes(4, "big") + data
            started_s = time.thread_time()
            run(target, data)
            took_s = time.thread_time() - started_s
            count, longest_s = count + 1, max(longest_s, took_s)
            assert took_s <= MOST_S, f"{took_s:.1f} s"
            if not count % _CLOCK_EVERY:
                grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10
                os.write(write, f"{count} {longest_s} {grown}\n".encode())
    except BaseException as error:  # noqa: BLE001 - the specimen is kept by the parent
        sys.stderr.write(f"{type(error).__name__}: {error}\n"[:2000])
        os.write(write, f"{count} {longest_s} {grown}\n".encode())
        os._exit(1)
    os.write(write, f"{count} {longest_s} {grown}\n".encode())
    os._exit(0)


def make_case(target: Target, rng: random.Random) -> bytes:
    """A mutated specimen; four of five with checksums made right, where the format has them."""
    data = mutate(rng.choice(target.cases), rng)
    return target.seal(data) if target.seal and rng.random() < 0.8 else data


def grow_corpus(name: str, target: Target, *, count: int, seed: int) -> None:
    """Keeps the smallest case for each thing that the target says of so many."""
    rng = random.Random(f"{seed} {name}")
    for data in choose_cases(target, [*load_cases(name), *(make_case(target, rng) for _ in range(count))]):
        keep_case(name, data)


def format_row(name: str, found: Found) -> str:
    """A target's row of the table."""
    longest = f"{found.longest_s * 1000:,.0f} ms"
    return f"| {name} | {found.executions:,} | {found.failures} | {longest} | {found.grown_mib} MiB |\n"


def read_row(row: str) -> Found:
    """The inverse of `format_row`, to the millisecond."""
    executions, failures, longest_ms, grown_mib = (
        int(cell.split()[0].replace(",", "")) for cell in row.split("|")[2:-1]
    )
    return Found(executions, failures, longest_ms / 1000, grown_mib)


if __name__ == "__main__":
    sys.exit(main())
