"""Tables for runs made elsewhere: Kafka's published rows, the runs quoted beside them, and recordings made on another bed."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pipeline.simulator.distributions import Steps
from pipeline.simulator.scenario.scenario_file import load_scenario
from tests.lab.archive import unpack_once
from tests.lab.fidelity.compare import (
    CONGESTED_PERCENT,
    OTHER_BATCHES_PERCENT,
    SATURATED_PERCENT,
    SLOW_BATCHES_PERCENT,
    compare,
    describe,
    judge_throughput_and_latency,
)
from tests.lab.fidelity.profile import LAB
from tests.lab.fidelity.published import Comparison, read_published
from tests.lab.fidelity.rows import Row, judge_ratio, judge_share
from tests.lab.fidelity.run import PartitionFigures, RealRun, read_nodes, read_total
from tests.lab.fidelity.settings import Delay, PerfLoad, Setting
from tests.lab.fidelity.simulated import SimulatedFigures, make_scenario, simulate_seeds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from numpy.typing import NDArray

    from pipeline.simulator.clients.client import ThreadCosts
    from pipeline.simulator.engine.result import SimulationResult
    from pipeline.simulator.scenario.scenario import Scenario

    Simulate = Callable[[Scenario, int], SimulationResult]

SCENARIOS = ("kip-794-1mb", "kip-794-2mb")
PUBLISHED_SHARE_POINTS = 3.0
PUBLISHED_THROUGHPUT_PERCENT = 3.0
SLOW_BROKER = 0
FIRST_FIT_MS, FIT_STEPS_MS, FIT_SEEDS = 24.0, (1.0, 0.2, 0.05), range(1, 9)
_SATURATED = dict.fromkeys(CONGESTED_PERCENT, SATURATED_PERCENT)
QUIET_VARIANTS = {
    ("kip-794-1mb", "sticky"): _SATURATED,
    ("kip-794-1mb", "uniform"): CONGESTED_PERCENT,
    ("kip-794-1mb", "adaptive"): CONGESTED_PERCENT,
    ("kip-794-2mb", "uniform"): _SATURATED,
}
"""Real rows that had the machine to themselves: their latencies have bars."""
QUIET_SHARED_RUNS = frozenset({"A_2048_a_r3", "A_2048_b_r3", "A_2048_c_r3", "A_4096_b_r2", "B_2048_k39_l20_b32k"})


def find_runs() -> Path:
    """The folder of runs made on the other bed: all of them where the shared data is at hand, else the committed ones."""
    root = Path(__file__).parents[3]
    shared = Path(os.environ.get("PARTITION_HEALTH_SHARED", root.parent / "shared")) / "data/runs"
    return shared if shared.is_dir() else unpack_once(root / "tests/data/samples.tar.zst", root / "build") / "runs"


def compare_shared_runs(seeds: range, simulate: Simulate) -> Iterator[tuple[str, list[Row]]]:
    """A table for each such run, as really run on the bed that `measured.py` describes."""
    for path in sorted(find_runs().glob("*/run.json")):
        setting, run = read_shared_run(path)
        quiet = "quiet" if run.is_quiet else "not known to be quiet"
        figures = simulate_seeds(make_scenario(setting, LAB, run), seeds, simulate)
        yield f"{setting.name}: {describe(setting)} ({quiet})", compare(setting, run, figures)


def read_shared_run(path: Path) -> tuple[Setting, RealRun]:
    """The setting and the figures of a shared run."""
    data = json.loads(path.read_text())
    [producer] = data["producers"]
    load = PerfLoad(producer["client_version"], producer["rate"], producer["num"], 512, producer["props"])
    delays = tuple(Delay(int(broker), float(ms)) for broker, ms in data["delays_ms"].items() if float(ms))
    partitions = tuple(
        PartitionFigures(int(number), each["broker"], each["records"], each["batches"], each["log_bytes"])
        for number, each in sorted(data["by_partition"].items(), key=lambda item: int(item[0]))
    )
    text = (path.parent / "producer0.out").read_text()
    foreign_cpu_s = 0.0 if path.parent.name in QUIET_SHARED_RUNS else 1e3
    wall_s = (data["end_ms"] - data["start_ms"]) / 1000
    run = RealRun(
        data["name"], data["start_ms"], 0, foreign_cpu_s, wall_s, partitions, (read_total(text),), (read_nodes(text),)
    )
    return Setting(data["name"], (load,), delays, tuple(each.broker for each in partitions)), run


def compare_lab_runs(seeds: range, simulate: Simulate) -> Iterator[tuple[str, list[Row]]]:
    """A table for each variant of the published experiment that has figures beside it.

    Kafka's own rows are simulated with one parameter, the slow broker's time per request, fitted to the old partitioner's
    row; the others follow.
    """
    fitted_ms = fit_delay_ms(simulate)
    [lab_costs] = LAB.costs.values()
    for name in SCENARIOS:
        for variant in load_scenario(name).variants:
            by_label = read_published(name, variant.name)
            if real := by_label.get("real here"):
                figures = simulate_seeds(_with_costs(variant.scenario, lab_costs), seeds, simulate)
                title = f"{name}, {variant.name} (real): {real.source}"
                bars = QUIET_VARIANTS.get((name, variant.name), {})
                yield title, _compare_real(real, by_label.get("published"), figures, variant.scenario, bars)
            if published := by_label.get("published"):
                scenario = _with_delay(variant.scenario, fitted_ms)
                figures = simulate_seeds(scenario, seeds, simulate)
                title = (
                    f"{name}, {variant.name} (published): {published.source}, slow broker fitted to {fitted_ms:.2f} ms"
                )
                yield title, _compare_published(published, figures, scenario)


def fit_delay_ms(simulate: Simulate) -> float:
    """The delay with the least squares of errors in the old partitioner's row, each measured by its bar."""
    [variant] = load_scenario("kip-794-1mb").select(["sticky"])
    wanted = read_published("kip-794-1mb", "sticky")["published"]

    def measure_error(delay_ms: float) -> float:
        scenario = _with_delay(variant.scenario, delay_ms)
        figures = simulate_seeds(scenario, FIT_SEEDS, simulate)
        share = (
            _byte_shares(figures, scenario)[SLOW_BROKER][1].mean() - 100 * wanted.brokers["bytes_share"][SLOW_BROKER]
        )
        ratio = figures.by_load["throughput_records_per_s"].mean() / wanted.figures["throughput_records_per_s"]
        return float((share / PUBLISHED_SHARE_POINTS) ** 2 + (100 * (ratio - 1) / PUBLISHED_THROUGHPUT_PERCENT) ** 2)

    best_ms = FIRST_FIT_MS
    for step_ms in FIT_STEPS_MS:
        best_ms = min((best_ms + step_ms * number for number in range(-4, 5)), key=measure_error)
    return best_ms


def _with_costs(scenario: Scenario, costs: ThreadCosts) -> Scenario:
    """Clients' threads as on another bed."""
    return replace(scenario, producers=tuple(replace(each, costs=costs) for each in scenario.producers))


def _with_delay(scenario: Scenario, delay_ms: float) -> Scenario:
    """Broker 0 takes so much longer per request."""
    slow, *others = scenario.brokers
    return replace(scenario, brokers=(replace(slow, delay_ns=Steps.constant(round(delay_ms * 1e6))), *others))


def _compare_real(
    real: Comparison,
    published: Comparison | None,
    simulated: SimulatedFigures,
    scenario: Scenario,
    bars: Mapping[str, float],
) -> list[Row]:
    rows = []
    shares = published.brokers["bytes_share"] if published else {}
    for broker, seeds in _byte_shares(simulated, scenario):
        rows.append(
            judge_share(
                f"bytes on broker {broker}, %", 100 * real.brokers["bytes_share"][broker], seeds,
                published=100 * shares[broker] if shares else None,
            )
        )  # fmt: skip
    leaders = np.array(scenario.leaders)
    for broker, count in real.brokers.get("batch_count", {}).items():
        seeds = simulated.batches_by_partition[:, leaders == broker].sum(axis=1).astype(float)
        slow = broker == SLOW_BROKER
        rows.append(
            judge_ratio(
                f"batches on broker {broker}{' (slow)' if slow else ''}", count, seeds,
                SLOW_BATCHES_PERCENT if slow else OTHER_BATCHES_PERCENT, is_cell=True,
            )
        )  # fmt: skip
    loads = {name: values[:, 0] for name, values in simulated.by_load.items()}
    return rows + judge_throughput_and_latency(
        real.figures, loads, bars=bars, published=published.figures if published else {}
    )


def _compare_published(published: Comparison, simulated: SimulatedFigures, scenario: Scenario) -> list[Row]:
    shares = published.brokers["bytes_share"]
    rows = [
        judge_share(
            f"bytes on broker {broker}, %", None, seeds,
            published=100 * shares[broker], points=PUBLISHED_SHARE_POINTS,
        )
        for broker, seeds in _byte_shares(simulated, scenario)
    ]  # fmt: skip
    loads = {name: values[:, 0] for name, values in simulated.by_load.items()}
    return rows + judge_throughput_and_latency(
        {}, loads, throughput_percent=PUBLISHED_THROUGHPUT_PERCENT, published=published.figures
    )


def _byte_shares(simulated: SimulatedFigures, scenario: Scenario) -> list[tuple[int, NDArray[np.float64]]]:
    leaders = np.array(scenario.leaders)
    total = simulated.bytes_by_partition.sum(axis=1)
    return [
        (broker, 100 * simulated.bytes_by_partition[:, leaders == broker].sum(axis=1) / total)
        for broker in range(len(scenario.brokers))
    ]
