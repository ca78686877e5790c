"""Further settings, drawn from a seed over the space the committed ones were chosen from."""

import numpy as np

from tests.lab.fidelity.arrivals import Series
from tests.lab.fidelity.settings import (
    EVEN,
    MIDDLE,
    NEW,
    OLD,
    SECONDS,
    TWELVE_UNEVEN,
    Delay,
    PerfLoad,
    SeriesLoad,
    Setting,
)

LEADERS = (EVEN, (0, 0, 1, 2), (0, 1, 2, 0, 1, 2), TWELVE_UNEVEN)
SCHEDULES = (
    lambda broker, delay_ms: (Delay(broker, delay_ms),),
    lambda broker, delay_ms: (Delay(broker, delay_ms, 8, 22),),
    lambda broker, delay_ms: (Delay(broker, delay_ms, 0, 15), Delay((broker + 1) % 3, delay_ms, 15, SECONDS)),
)


def draw_settings(seed: int, count: int) -> tuple[Setting, ...]:
    """So many settings; the first n of a seed are the same whatever the count."""
    return tuple(_draw(np.random.default_rng([seed, number]), f"drawn-{seed}-{number}") for number in range(count))


def _draw(chance: np.random.Generator, name: str) -> Setting:
    load_count = 2 if chance.random() < 0.2 else 1
    loads = tuple(_draw_load(chance, load_count) for _ in range(load_count))
    schedule = SCHEDULES[chance.choice(len(SCHEDULES), p=[0.6, 0.2, 0.2])]
    delays = schedule(int(chance.integers(0, 3)), float(chance.integers(8, 31)))
    return Setting(name, loads, delays, LEADERS[chance.choice(len(LEADERS), p=[0.5, 0.15, 0.15, 0.2])])


def _draw_load(chance: np.random.Generator, load_count: int) -> PerfLoad | SeriesLoad:
    version = str(chance.choice([OLD, MIDDLE, NEW]))
    config = {
        "linger.ms": str(chance.choice([0, 0, 0, 2, 5, 20])),
        "batch.size": str(chance.choice([4096, 16384, 16384, 32768, 65536])),
    }
    if version != OLD and chance.random() < 0.25:
        config["partitioner.adaptive.partitioning.enable"] = "false"
    rate = int(chance.integers(500, 2500)) // load_count
    value_bytes = int(chance.choice([200, 512, 512, 1000]))
    if chance.random() < 0.6:
        return PerfLoad(version, rate, rate * SECONDS, value_bytes, config)
    pattern = str(chance.choice(["poisson", "steady", "bursts"]))
    series = Series(
        pattern,
        rate,
        SECONDS,
        burst_records=int(chance.integers(20, 200)) if pattern == "bursts" else 1,
        keyed_percent=int(chance.choice([0, 0, 30, 70])),
        mean_bytes=value_bytes,
        varied_bytes=bool(chance.random() < 0.5),
        seed=int(chance.integers(1, 1 << 30)),
    )
    return SeriesLoad(version, series, config)
