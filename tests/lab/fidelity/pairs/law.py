"""A wide law of pairs for blind draws: clusters, producers, traffic and delays of every kind, rare settings among them."""

import numpy as np

from tests.lab.fidelity.arrivals import Series
from tests.lab.fidelity.pairs.pair import RDKAFKA, Client, Pair
from tests.lab.fidelity.settings import MIDDLE, NEW, NEWEST, OLD, Delay

BROKERS = 5
SECONDS = 190  # three whole minutes, wherever it begins
MOST_PER_S = 1_500  # of a pair, all producers together: two cores play two pairs, brokers and proxy at once
CODECS = ("none", "none", "gzip", "snappy", "lz4", "zstd")
PATTERNS = ("poisson", "bursts", "mixed", "on-off", "daily")
JAVA = (OLD, MIDDLE, NEW, NEWEST)
DELAYS = ("none", "fixed", "some of the time", "random", "heavy tail")


def draw_round(seed: int, number: int, at_once: int, seconds: int = SECONDS) -> tuple[Pair, ...]:
    """Pairs that are sent at the same time, so under the same delays; any round of a seed can be drawn by itself."""
    chance = np.random.default_rng([seed, number])
    delays = _draw_delays(chance, seconds)
    return tuple(_draw_pair(chance, f"draw-{number:02}-{each}", delays, seconds) for each in range(at_once))


def _draw_delays(chance: np.random.Generator, seconds: int) -> tuple[Delay, ...]:
    """Delays of one broker mostly, or of several, each by a law of its own."""
    count = int(chance.choice([1, 2, 3, 4, 5], p=[0.6, 0.16, 0.08, 0.08, 0.08]))
    slow = chance.permutation(3 if count <= 3 else BROKERS)[:count].tolist()
    return tuple(delay for broker in slow for delay in _draw_delays_of(chance, broker, seconds))


def _draw_delays_of(chance: np.random.Generator, broker: int, seconds: int) -> tuple[Delay, ...]:
    kind = chance.choice(DELAYS)
    delay_ms = round(float(10 ** chance.uniform(0.5, 1.5)), 1)
    if kind == "none":
        return ()
    if kind == "fixed":
        return (Delay(broker, delay_ms),)
    if kind == "some of the time":
        from_s = float(chance.uniform(0, seconds / 2))
        return (Delay(broker, delay_ms, from_s, from_s + seconds / 3),)
    lengths_s = chance.uniform(1, 5, seconds)
    ends_s = np.minimum(np.cumsum(lengths_s), seconds)
    count = int(np.searchsorted(ends_s, seconds)) + 1
    spread = chance.lognormal(0, 0.5, count) if kind == "random" else np.minimum(chance.pareto(1.5, count) + 0.3, 10)
    starts_s = [0.0, *ends_s[: count - 1].tolist()]
    return tuple(
        Delay(broker, round(delay_ms * float(factor), 1), round(start_s, 2), round(float(end_s), 2))
        for factor, start_s, end_s in zip(spread, starts_s, ends_s[:count], strict=True)
    )


def _draw_pair(chance: np.random.Generator, name: str, delays: tuple[Delay, ...], seconds: int) -> Pair:
    producers = int(chance.choice([1, 2, 3, 4], p=[0.55, 0.25, 0.1, 0.1]))
    codec = str(chance.choice(CODECS))
    before, after = _draw_client(chance, codec, (*JAVA, RDKAFKA)), _draw_client(chance, codec)
    rate_per_s = int(chance.integers(200, MOST_PER_S)) // producers
    traffic = tuple(_draw_series(chance, rate_per_s, seconds, is_varied=codec == "none") for _ in range(producers))
    brokers = int(chance.integers(3, BROKERS + 1))
    weights = chance.dirichlet(np.full(brokers, 3.0))
    extra = chance.choice(brokers, int(chance.integers(0, 25 - brokers)), p=weights)
    leaders = tuple(sorted([*range(brokers), *extra.tolist()]))
    return Pair(
        name,
        traffic,
        (before,) * producers,
        (after,) * producers,
        delays,
        leaders,
        text=codec != "none",
        replicas=int(chance.integers(1, 4)),
        cold=bool(chance.random() < 0.25),
    )


def _draw_client(chance: np.random.Generator, codec: str, versions: tuple[str, ...] = JAVA) -> Client:
    version = str(chance.choice(versions))
    config = {} if codec == "none" else {"compression.type": codec}
    if chance.random() < 0.6:
        config["linger.ms"] = str(int(chance.choice([0, 1, 5, 20, 50, chance.integers(0, 101)])))
    if chance.random() < 0.4:
        config["batch.size"] = str(int(chance.choice([4096, 8192, 32768, 65536, 262144])))
    if chance.random() < 0.25:
        config |= {"acks": "1", "enable.idempotence": "false"}
    elif version != RDKAFKA and chance.random() < 0.15:
        config["transactional.id"] = "drawn"
    if version in {MIDDLE, NEW, NEWEST} and chance.random() < 0.2:
        config["partitioner.adaptive.partitioning.enable"] = "false"
    return Client(version, config)


def _draw_series(chance: np.random.Generator, rate_per_s: int, seconds: int, *, is_varied: bool) -> Series:
    pattern = str(chance.choice(PATTERNS))
    is_bursty = pattern in {"bursts", "mixed"}
    return Series(
        pattern,
        rate_per_s,
        seconds,
        burst_records=int(10 ** chance.uniform(0.6, 2.3)) if is_bursty else 1,
        keyed_percent=int(chance.choice([0, 0, 0, 30, 100])),
        mean_bytes=int(chance.choice([200, 400, 800])),
        varied_bytes=bool(is_varied and chance.random() < 0.7),
        seed=int(chance.integers(1, 1 << 30)),
        sizes=str(chance.choice(["lognormal", "two-humped"])),
        burst_step_us=float(chance.choice([0, 0, 5, 15])) if is_bursty else 0.0,
    )
