"""Who is found to be in use where it is known: `make bench ARGS=calibration`.

Sessions are simulated with every strategy, settings, arrivals, width and delay here, or (`--drawn`) with those that a seed
draws from a wide law, then identified from their batches; for half of the drawn ones the brokers' delays are known, as from
metrics. Printed: a confusion table, how often a confidence was right, and where `linger.ms` lay.
"""

from __future__ import annotations

import argparse
from collections import Counter, defaultdict
from contextlib import redirect_stdout
from dataclasses import dataclass, field, replace
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pipeline.calibration.partitioner.baseline import identify_baseline
from pipeline.calibration.service.batch_fit import choose_variant
from pipeline.calibration.service.latency_fit import sharpen_services
from pipeline.calibration.service.model import assume_service
from pipeline.calibration.service.trial import SessionTopic
from tests.lab.bench.figures import write_between
from tests.simulated_sessions import EPOCH_MS, RATE_PER_S, delayed, make_scenario, record_session

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pipeline.calibration.partitioner.baseline import Baseline

JAVA, LIBRDKAFKA = "kafka-clients", "librdkafka"
TIMED = "librdkafka-consistent_random"


@dataclass(frozen=True)
class Case:
    """What is simulated."""

    strategy: str
    client: str
    version: str
    config: Mapping[str, str]
    pattern: str
    partition_count: int
    delay_ms: float
    seconds: int
    seed: int
    rate_per_s: int = RATE_PER_S
    value_bytes: int = 512
    has_producer_id: bool = True
    has_metrics: bool = False


@dataclass
class Found:
    """What came out."""

    case: Case
    baseline: Baseline
    is_right: bool = field(init=False)

    def __post_init__(self) -> None:
        self.is_right = self.baseline.strategy == self.case.strategy


CLIENTS = (
    ("java-sticky-2.4", JAVA, "3.2.3"),
    ("java-builtin", JAVA, "3.9.1"),
    ("java-builtin-uniform", JAVA, "3.9.1"),
    ("java-round-robin-2.4", JAVA, "3.9.1"),
    ("java-round-robin-3.9.2", JAVA, "4.1.1"),
    ("librdkafka-consistent_random", LIBRDKAFKA, "2.10.0"),
    ("librdkafka-consistent_random-1.5", LIBRDKAFKA, "1.5.3"),
)
LINGERS = ("0", "2", "5", "20", "100")


def list_cases(*, seconds: tuple[int, ...], seeds: range) -> Iterator[Case]:
    """Every combination, the seeds differing between them."""
    number = 0
    for strategy, client, version in CLIENTS:
        for linger in LINGERS if strategy != TIMED else LINGERS[1:]:  # with linger.ms=0 it draws for every record
            for pattern in ("perf-test", "steady", "on-off"):
                for partition_count in (3, 12):
                    for delay_ms in (0.0, 20.0):
                        for length in seconds:
                            for seed in seeds:
                                number += 1
                                size = ("16384", "65536")[number % 2] if client == JAVA else "1000000"
                                config = {"linger.ms": linger, "batch.size": size}
                                yield Case(
                                    strategy,
                                    client,
                                    version,
                                    config,
                                    pattern,
                                    partition_count,
                                    delay_ms,
                                    length,
                                    number + seed,
                                    has_producer_id=client == JAVA,
                                )


def draw_case(seed: int, number: int) -> Case:
    """One session of a wide law, settings that hardly anybody writes among them."""
    chance = np.random.default_rng([seed, number])
    strategy, client, version = CLIENTS[chance.integers(len(CLIENTS))]
    linger = int(chance.choice([*map(int, LINGERS), chance.integers(0, 101)]))
    size = int(chance.choice([4096, 16384, 16384, 65536, 262144, chance.integers(4096, 262144)]))
    if client == LIBRDKAFKA:
        linger, size = max(linger, int(strategy == TIMED)), 1_000_000
    return Case(
        strategy,
        client,
        version,
        {"linger.ms": str(linger), "batch.size": str(size)},
        str(chance.choice(["perf-test", "steady", "on-off"])),
        int(chance.integers(2, 25)),
        float(chance.choice([0, 0, 2, 5, 10, 20, 40])),
        int(chance.choice([5, 20, 40])),
        int(chance.integers(1 << 30)),
        int(10 ** chance.uniform(2.3, 3.7)),
        int(10 ** chance.uniform(2, 3.3)),
        bool(client == JAVA or chance.random() < 0.5),
        bool(chance.random() < 0.5),
    )


def identify(case: Case) -> Found:
    """Simulates and identifies."""
    leaders = tuple(partition % 3 for partition in range(case.partition_count))
    scenario = make_scenario(
        case.strategy,
        client=case.client,
        version=case.version,
        config=case.config,
        pattern=case.pattern,
        seconds=case.seconds,
        leaders=leaders,
        delays_ms={1: case.delay_ms},
        value_bytes=case.value_bytes,
        rate_per_s=case.rate_per_s,
    )
    traffic, batches, _ = record_session(scenario, case.seed, producer_id=1 if case.has_producer_id else -1)
    baseline = identify_baseline(traffic, batches, case.partition_count)
    if baseline.strategy == "java-builtin" and case.delay_ms:
        topic = SessionTopic(traffic, batches, leaders, baseline)
        end_ms = EPOCH_MS + 1000 * case.seconds
        brokers = sorted(set(leaders))
        if case.has_metrics:
            known = {each: delayed(each, case.delay_ms if each == 1 else 0.0) for each in brokers}
            models = {each: replace(model, is_identifiable=True) for each, model in known.items()}
        else:
            models = sharpen_services([topic], {each: assume_service(each) for each in brokers}, [], EPOCH_MS, end_ms)
        baseline = choose_variant([topic], models, EPOCH_MS, end_ms)
    return Found(case, baseline)


def print_confusion(found: list[Found]) -> None:
    """Rows are what was simulated, columns what was found."""
    names = [strategy for strategy, _, _ in CLIENTS]
    others = sorted({str(each.baseline.strategy) for each in found} - set(names))
    columns = [*names, *others]
    counts = Counter((each.case.strategy, str(each.baseline.strategy)) for each in found)
    for number, name in enumerate(columns):
        print(f"  {number}: {name}")
    print(f"{'simulated':36}" + "".join(f"{number:>6}" for number in range(len(columns))))
    for name in names:
        print(f"{name:36}" + "".join(f"{counts[name, column] or '.':>6}" for column in columns))
    print(f"{sum(each.is_right for each in found)} of {len(found)} right")


def print_calibration(found: list[Found]) -> None:
    """How often what is said with a confidence is so."""
    by_confidence = defaultdict(list)
    for each in found:
        by_confidence[min(int(each.baseline.confidence * 10), 9)].append(each)
    for tenth, members in sorted(by_confidence.items()):
        mean = sum(each.baseline.confidence for each in members) / len(members)
        right = sum(each.is_right for each in members) / len(members)
        print(
            f"confidence {tenth / 10:.1f} to {(tenth + 1) / 10:.1f}: said {mean:.2f}, right {right:.2f} of {len(members)}"
        )


def print_linger(found: list[Found]) -> None:
    """Whether the bounds hold the truth, and how far the value is from it."""
    for linger in LINGERS:
        members = [each for each in found if each.case.config["linger.ms"] == linger and each.baseline.settings]
        settings = [each.baseline.settings["linger.ms"] for each in members]
        held = sum((s.low or 0) <= float(linger) <= (float("inf") if s.high is None else s.high) for s in settings)
        near = sum(float(linger) / 2 <= float(s.value) <= max(2 * float(linger), 1) for s in settings)
        print(f"linger.ms={linger}: of {len(members)} bounds hold {held}, within a factor of 2 are {near}")


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="sessions of 3 seconds too")
    parser.add_argument("--write", type=Path, metavar="FILE", help="put the tables between the markers of FILE")
    parser.add_argument("--wrong", action="store_true", help="list what was found wrongly")
    parser.add_argument("--drawn", type=int, metavar="N", help="so many sessions drawn from a wide law instead")
    parser.add_argument("--seed", type=int, default=1, help="with --drawn: another one draws other sessions")
    arguments = parser.parse_args()
    if arguments.drawn:
        cases = (draw_case(arguments.seed, number) for number in range(arguments.drawn))
    else:
        cases = list_cases(seconds=(3, 20) if arguments.short else (20,), seeds=range(1))
    found = [identify(case) for case in cases]
    with redirect_stdout(StringIO()) as text:
        print(
            f"partitioners found in simulated sessions{f' drawn by seed {arguments.seed}' if arguments.drawn else ''};"
            " as many uniform as adaptive"
        )
        print_confusion(found)
        print_calibration(found)
        print_linger(found)
    print(text.getvalue(), end="")
    if arguments.write:
        write_between(arguments.write, "calibration", f"```text\n{text.getvalue()}```")
    for each in found if arguments.wrong else []:
        setting = each.baseline.settings.get("linger.ms")
        truth = float(each.case.config["linger.ms"])
        is_held = setting is None or (setting.low or 0) <= truth <= (
            float("inf") if setting.high is None else setting.high
        )
        if not is_held:
            print("linger.ms", each.case, setting)
        if not each.is_right:
            print(each.case, each.baseline.strategy, f"{each.baseline.confidence:.2f}", each.baseline.reason)


if __name__ == "__main__":
    main()
