"""`make clients`: keyless producers of many clients, real ones through real brokers, and simulated beside them.

Each sends through a proxy that holds the answers of one broker. Oracle: the batch headers in the leaders' logs as the lab reads
them. `ARGS=--recorded` compares the committed runs with the simulator as it is now.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pipeline.simulator.engine.simulate import simulate
from tests.lab.bench.figures import write_between
from tests.lab.fidelity.bed import start_bed
from tests.lab.fidelity.simulated import SimulatedFigures, simulate_seeds
from tests.lab.keyless.real import read_runs, run_client, write_runs
from tests.lab.keyless.settings import CLIENTS, LEADERS, SLOW, draw_setting
from tests.lab.keyless.simulated import make_scenario

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.lab.keyless.real import KeylessRun

SEEDS = range(20)
SLOWED = np.array(LEADERS) == SLOW
HEAD = (
    "client, run",
    "setting",
    "bytes on the slow broker, %",
    "records per batch there",
    "elsewhere",
    "peak-to-mean of partitions",
    "misses",
    "named by `silver.producer_sessions`",
)


class KeylessFigure(NamedTuple):
    """A figure, real and simulated by seed; the bar is in its own unit."""

    name: str
    real: float
    simulated: np.ndarray
    bar: float
    unit: str

    @property
    def error(self) -> float:
        """How far the mean over the seeds is off, in points or percent."""
        mean = float(self.simulated.mean())
        return mean - self.real if self.unit == "pt" else 100 * (mean / self.real - 1)

    @property
    def misses(self) -> bool:
        """It is off by more than the bar, and by more than 2.5 standard deviations over the seeds."""
        deviation = float(self.simulated.std())
        spread = deviation if self.unit == "pt" else 100 * deviation / self.real
        return abs(self.error) > max(self.bar, 2.5 * spread if self.name in {"share", "peak-to-mean"} else 0)

    def format(self) -> str:
        """Formats it for a table."""
        low, high = np.quantile(self.simulated, [0.01, 0.99])
        return f"{self.real:.4g} / {self.simulated.mean():.4g} [{low:.4g}, {high:.4g}]"


def compare(run: KeylessRun) -> list[KeylessFigure]:
    """A run beside its simulation; bars are those of Java's figures."""
    found = simulate_seeds(make_scenario(run), SEEDS, simulate)
    records, batches, sizes = run.counts.T
    return [
        KeylessFigure("share", 100 * _share(sizes[None])[0], 100 * _share(found.bytes_by_partition), 2.0, "pt"),
        *(
            KeylessFigure(name, *(_per_batch(*pair, chosen) for pair in _pairs(records, batches, found)), bar, "%")
            for name, chosen, bar in (("slow batches", SLOWED, 8.0), ("other batches", ~SLOWED, 15.0))
        ),
        KeylessFigure("peak-to-mean", float(_peak(sizes[None])[0]), _peak(found.bytes_by_partition), 5.0, "%"),
    ]


def _pairs(
    records: np.ndarray, batches: np.ndarray, found: SimulatedFigures
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    yield records, batches
    yield found.records_by_partition, found.batches_by_partition


def _share(sizes: np.ndarray) -> np.ndarray:
    return sizes[:, SLOWED].sum(axis=1) / sizes.sum(axis=1)


def _per_batch(records: np.ndarray, batches: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    return records[..., chosen].sum(axis=-1) / batches[..., chosen].sum(axis=-1)


def _peak(sizes: np.ndarray) -> np.ndarray:
    return sizes.max(axis=1) / sizes.mean(axis=1)


def format_table(runs: Sequence[KeylessRun]) -> str:
    """A row for each client, real / simulated mean and range of 98 %."""
    lines = [f"| {' | '.join(HEAD)} |", "|---" * len(HEAD) + "|"]
    seen: Counter[str] = Counter()
    for run in runs:
        seen[run.setting.client] += 1
        figures = compare(run)
        missed = ", ".join(f"**{each.name} {each.error:+.1f} {each.unit}**" for each in figures if each.misses)
        client = f"{run.setting.client}, {seen[run.setting.client]}"
        cells = (
            client,
            run.setting.describe(),
            *(each.format() for each in figures),
            missed or "none",
            run.named or "not asked",
        )
        lines.append(f"| {' | '.join(cells)} |")
    missing = [client for client in CLIENTS if client not in {run.setting.client for run in runs}]
    loads = [run.load for run in runs]
    lines.append(f"\nLoad of the machine, two cores: {min(loads):.0f} to {max(loads):.0f}.")
    return "\n".join([*lines, *(f"Not run: {client}." for client in missing)])


def record(clients: Sequence[str]) -> None:
    """Runs clients, and keeps what came of them after all earlier runs."""
    runs = read_runs()
    with tempfile.TemporaryDirectory(prefix="keyless-") as named, start_bed(Path(named)) as bed:
        for client in clients:
            runs.append(run_client(bed, draw_setting(client)))
            print(f"{client}: done", file=sys.stderr, flush=True)
    write_runs(sorted(runs, key=lambda run: CLIENTS.index(run.setting.client)))


def main() -> int:
    """Runs every client once, or none."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--client", action="append", choices=CLIENTS, help="run only this one; may be repeated")
    parser.add_argument("--recorded", action="store_true", help="run none: compare the committed runs")
    parser.add_argument("--write", type=Path, metavar="FILE", help="paper to write the table into")
    arguments = parser.parse_args()
    if not arguments.recorded:
        record(arguments.client or CLIENTS)
    text = format_table(read_runs())
    print(text)
    if arguments.write:
        write_between(arguments.write, "--write", text, word="clients")
    return 0


if __name__ == "__main__":
    sys.exit(main())
