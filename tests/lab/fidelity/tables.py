"""Tables for runs made elsewhere: Kafka's published rows, the runs quoted beside them, and the shared recordings."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pipeline.simulator.scenario_file import load_scenario
from tests.lab.fidelity.compare import compare, describe, judge_throughput_and_latency
from tests.lab.fidelity.profile import LAB
from tests.lab.fidelity.rows import Row, judge_ratio, judge_share
from tests.lab.fidelity.run import PartitionFigures, RealRun, read_nodes, read_total
from tests.lab.fidelity.settings import Delay, PerfLoad, Setting
from tests.lab.fidelity.simulated import SimulatedFigures, make_scenario, simulate_seeds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pipeline.simulator.comparison import Comparison
    from pipeline.simulator.result import SimulationResult
    from pipeline.simulator.scenario import Scenario

    Simulate = Callable[[Scenario, int], SimulationResult]

SCENARIOS = ("kip-794-1mb", "kip-794-2mb")
PUBLISHED_SHARE_POINTS = 3.0
PUBLISHED_THROUGHPUT_PERCENT = 3.0
QUIET_SHARED_RUNS = frozenset({"A_2048_a_r3", "A_2048_b_r3", "A_2048_c_r3", "A_4096_b_r2", "B_2048_k39_l20_b32k"})


def find_shared_runs() -> Path | None:
    """The folder of shared runs, beside the checkout or where the variable says."""
    shared = Path(os.environ.get("PARTITION_HEALTH_SHARED", Path(__file__).parents[4] / "shared"))
    folder = shared / "data" / "runs"
    return folder if folder.is_dir() else None


def compare_shared_runs(seeds: range, simulate: Simulate) -> Iterator[tuple[str, list[Row]]]:
    """A table for each shared run, as really run on the bed that `measured.py` describes."""
    folder = find_shared_runs()
    for path in sorted(folder.glob("*/run.json")) if folder else ():
        setting, run = read_shared_run(path)
        quiet = "quiet" if run.is_quiet else "not known to be quiet"
        figures = simulate_seeds(make_scenario(setting, LAB), seeds, simulate)
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
        data["name"], data["start_ms"], foreign_cpu_s, wall_s, partitions, (read_total(text),), (read_nodes(text),)
    )
    return Setting(data["name"], (load,), delays, tuple(each.broker for each in partitions)), run


def compare_lab_runs(seeds: range, simulate: Simulate) -> Iterator[tuple[str, list[Row]]]:
    """A table for each variant of the published experiment that has figures beside it."""
    for name in SCENARIOS:
        for variant in load_scenario(name).variants:
            by_label = {each.label: each for each in variant.comparisons}
            if by_label:
                figures = simulate_seeds(variant.scenario, seeds, simulate)
                title = f"{name}, {variant.name}: {'; '.join(each.source for each in variant.comparisons)}"
                yield title, _compare_variant(by_label, figures, variant.scenario)


def _compare_variant(by_label: dict[str, Comparison], simulated: SimulatedFigures, scenario: Scenario) -> list[Row]:
    """Against the real run where there is one, else against the published row with its own bars."""
    published = by_label.get("published")
    real = by_label.get("real here") or published
    assert real is not None
    is_published = "real here" not in by_label
    leaders = np.array(scenario.leaders)
    rows = []
    total = simulated.bytes_by_partition.sum(axis=1)
    for broker in range(len(scenario.brokers)):
        share = 100 * simulated.bytes_by_partition[:, leaders == broker].sum(axis=1) / total
        own = real.brokers["bytes_share"][scenario.brokers[broker].broker_id]
        theirs = published.brokers["bytes_share"].get(broker) if published else None
        rows.append(
            judge_share(
                f"bytes on broker {broker}, %", 100 * own, share, None if theirs is None else 100 * theirs,
                PUBLISHED_SHARE_POINTS if is_published else 2.0,
            )
        )  # fmt: skip
    if not is_published and "batch_count" in real.brokers:
        for broker in range(len(scenario.brokers)):
            is_slow = any(scenario.brokers[broker].delay_ns.values)
            rows.append(
                judge_ratio(
                    f"batches on broker {broker}{' (slow)' if is_slow else ''}",
                    real.brokers["batch_count"][broker],
                    simulated.batches_by_partition[:, leaders == broker].sum(axis=1).astype(float),
                    8.0 if is_slow else 15.0, is_cell=True,
                )
            )  # fmt: skip
    published_figures = published.figures if published else {}
    return rows + judge_throughput_and_latency(
        real.figures, {name: values[:, 0] for name, values in simulated.by_load.items()},
        throughput_percent=PUBLISHED_THROUGHPUT_PERCENT if is_published else 2.0,
        published=published_figures,
    )  # fmt: skip
