"""A law of pairs for zones: brokers 4.4 in racks, producers in equal and unequal zones, rack-aware on one of the two sides."""

import numpy as np

from tests.lab.fidelity.arrivals import Series
from tests.lab.fidelity.pairs.pair import Client, Pair
from tests.lab.fidelity.settings import MIDDLE, NEW, NEWEST, OLD, Delay

RACKS = ("a", "a", "b", "c")
"""Of brokers 0 to 3: a zone has twice the brokers of the others."""
SECONDS = 75
MOST_PER_S = 800  # of a pair: two cores play two pairs, four brokers and a proxy at once
LEADING = {"equal": (0, 2, 3), "unequal": (0, 1, 2, 3), "one zone leads nothing": (0, 1, 2)}
"""Brokers that lead partitions."""
AWARE = {"partitioner.rack.aware": "true"}


def draw_round(seed: int, number: int, at_once: int, seconds: int = SECONDS) -> tuple[Pair, ...]:
    """Pairs that are sent at the same time; every other round a broker answers late. Of two pairs one becomes rack-aware."""
    chance = np.random.default_rng([seed, number, 44])
    delays = ()
    if (number + seed) % 2:
        delays = (Delay(int(chance.integers(0, len(RACKS))), round(float(10 ** chance.uniform(0.8, 1.4)), 1)),)
    return tuple(
        _draw_pair(chance, f"zones-{number:02}-{each}", delays, seconds, becomes_aware=(number + each) % 2 == 0)
        for each in range(at_once)
    )


def _draw_pair(
    chance: np.random.Generator, name: str, delays: tuple[Delay, ...], seconds: int, *, becomes_aware: bool
) -> Pair:
    producers = int(chance.choice([2, 3]))
    zones = tuple(str(zone) for zone in chance.choice(["a", "b", "c"], producers, p=[0.4, 0.4, 0.2]))
    config = {"linger.ms": str(int(chance.choice([0, 5, 20])))} if chance.random() < 0.5 else {}
    if chance.random() < 0.25:
        config["batch.size"] = str(int(chance.choice([8192, 32768, 65536])))
    version = str(chance.choice([OLD, MIDDLE, NEW, NEWEST]))
    plain = (Client(version, config),) * producers
    aware = tuple(Client(NEWEST, {**config, **AWARE, "client.rack": zone}) for zone in zones)
    weights = chance.dirichlet(np.full(producers, 3.0))
    rate_per_s = int(chance.integers(300, MOST_PER_S))
    brokers = LEADING[str(chance.choice(list(LEADING)))]
    extra = chance.choice(brokers, int(chance.integers(0, 9)))
    return Pair(
        name,
        tuple(_draw_series(chance, max(30, round(rate_per_s * float(part))), seconds) for part in weights),
        plain if becomes_aware else aware,
        aware if becomes_aware else plain,
        delays,
        tuple(sorted([*brokers, *extra.tolist()])),
        replicas=int(chance.integers(1, 4)),
        racks=RACKS,
        zones=zones,
    )


def _draw_series(chance: np.random.Generator, rate_per_s: int, seconds: int) -> Series:
    pattern = str(chance.choice(["poisson", "bursts", "on-off"]))
    return Series(
        pattern,
        rate_per_s,
        seconds,
        burst_records=int(chance.integers(4, 60)) if pattern == "bursts" else 1,
        keyed_percent=int(chance.choice([0, 0, 0, 30])),
        mean_bytes=int(chance.choice([200, 400, 800])),
        varied_bytes=bool(chance.random() < 0.5),
        seed=int(chance.integers(1, 1 << 30)),
    )
