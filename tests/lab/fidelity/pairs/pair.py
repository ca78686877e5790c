"""A pair as a value: one traffic, two sets of clients that send it one after the other. Drawn by a seed."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tests.lab.fidelity.arrivals import Series
from tests.lab.fidelity.settings import EVEN, MIDDLE, NEW, OLD, TWELVE_UNEVEN, Delay

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

COMMITTED = Path(__file__).parents[3] / "data/pairs"
ENDING = ".tar.zst"
BEFORE, AFTER = "before", "after"
SIDES = (BEFORE, AFTER)
SECONDS = 60
RDKAFKA = "librdkafka"
_DELAYS_SHOWN = 3


@dataclass(frozen=True)
class Client:
    """A producer's version and what its configuration sets; the rest are that version's defaults.

    The version is the Java client's, or `RDKAFKA`: the one that the Python package brings.
    """

    version: str
    config: dict[str, str] = field(default_factory=dict)

    def describe(self) -> str:
        """In words."""
        return " ".join([self.version, *(f"{name}={value}" for name, value in self.config.items())])


@dataclass(frozen=True)
class Pair:
    """One traffic under two clients.

    Attributes:
        name: Of the pair.
        traffic: What each producer sends, to one topic.
        before: The clients whose run is recorded and replayed, one per producer.
        after: The clients the replay predicts, likewise.
        delays: Of brokers' Produce responses, the same in both runs.
        leaders: Partition i is led by broker ``leaders[i]``.
        text: Values are lines of text, which compress as text does, instead of one letter repeated.
        replicas: Of each partition.
        cold: The JVM has just started when it sends.
        racks: Of the brokers; none without.
        zones: Of the producers, where the replay is told.
    """

    name: str
    traffic: tuple[Series, ...]
    before: tuple[Client, ...]
    after: tuple[Client, ...]
    delays: tuple[Delay, ...]
    leaders: tuple[int, ...] = EVEN
    text: bool = False
    replicas: int = 1
    cold: bool = False
    racks: tuple[str, ...] = ()
    zones: tuple[str, ...] = ()

    def clients(self, side: str) -> tuple[Client, ...]:
        """Who sends on that side."""
        return self.before if side == BEFORE else self.after

    @property
    def seconds(self) -> int:
        """How long it sends."""
        return max(series.seconds for series in self.traffic)

    def describe(self) -> str:
        """Traffic and bed in a line."""
        loads = "; ".join(_describe_series(series) for series in self.traffic)
        delays = ", ".join(f"broker {delay.broker} +{delay.delay_ms:g} ms" for delay in self.delays[:_DELAYS_SHOWN])
        more = f" and {rest} more" if (rest := len(self.delays) - _DELAYS_SHOWN) > 0 else ""
        bed = f" | {self.replicas} replicas" if self.replicas > 1 else ""
        bed += " | cold" if self.cold else ""
        bed += f" | racks {','.join(self.racks)}, producers in {','.join(self.zones)}" if self.racks else ""
        return f"{loads} | {delays or 'no delay'}{more} | leaders {','.join(map(str, self.leaders))}{bed}"


def encode_pair(pair: Pair) -> dict[str, Any]:
    """A pair for JSON."""
    return asdict(pair)


def decode_pair(data: Mapping[str, Any]) -> Pair:
    """The pair again."""
    return Pair(
        data["name"],
        tuple(Series(**each) for each in data["traffic"]),
        tuple(Client(**each) for each in data[BEFORE]),
        tuple(Client(**each) for each in data[AFTER]),
        tuple(Delay(**each) for each in data["delays"]),
        tuple(data["leaders"]),
        data["text"],
        data.get("replicas", 1),
        data.get("cold", False),
        tuple(data.get("racks", ())),
        tuple(data.get("zones", ())),
    )


def draw_pairs(seed: int, seconds: int = SECONDS) -> tuple[Pair, ...]:
    """Seven pairs, one of each kind; sizes, rates, delays, versions and settings are the seed's.

    Three of the first six go from the old client to a newer one and three back, which ones the seed says too. The last
    has keys only, and librdkafka, which hashes them otherwise, gives way to a Java client.
    """
    chance = np.random.default_rng(seed)
    upgrades = chance.permutation([True, True, True, False, False, False])
    kinds = (_slow_broker, _bursts, _uneven, _keyed_mix, _two_producers, _lz4)
    pairs = [
        _draw(kind, np.random.default_rng([seed, number]), seconds, upgrade=bool(upgrade))
        for number, (kind, upgrade) in enumerate(zip(kinds, upgrades, strict=True))
    ]
    return (*pairs, _draw_keyed(np.random.default_rng([seed, len(kinds)]), seconds))


def _draw(
    kind: Callable[[Pair, np.random.Generator, int], Pair], chance: np.random.Generator, seconds: int, *, upgrade: bool
) -> Pair:
    delay = Delay(int(chance.integers(0, 3)), float(chance.integers(10, 26)))
    newer = str(chance.choice([MIDDLE, NEW]))
    versions = (OLD, newer) if upgrade else (newer, OLD)
    before, after = (Client(version, _draw_config(chance, version)) for version in versions)
    pair = kind(Pair("", (), (before,), (after,), (delay,)), chance, seconds)
    return replace(pair, name=f"{kind.__name__.strip('_').replace('_', '-')}-{'old-new' if upgrade else 'new-old'}")


def _draw_keyed(chance: np.random.Generator, seconds: int) -> Pair:
    delay = Delay(int(chance.integers(0, 3)), float(chance.integers(10, 26)))
    before, after = Client(RDKAFKA), Client(str(chance.choice([OLD, MIDDLE, NEW])))
    traffic = (_series(chance, "poisson", seconds, most_per_s=800, keyed_percent=100),)
    return Pair("keyed-librdkafka-java", traffic, (before,), (after,), (delay,), (0, 1, 2) * 4)


def _draw_config(chance: np.random.Generator, version: str) -> dict[str, str]:
    config = {}
    if chance.random() < 0.4:
        config["linger.ms"] = str(chance.choice([0, 2, 5, 20]))
    if chance.random() < 0.25:
        config["batch.size"] = str(chance.choice([8192, 32768, 65536]))
    if version != OLD and chance.random() < 0.25:
        config["partitioner.adaptive.partitioning.enable"] = "false"
    return config


def _slow_broker(pair: Pair, chance: np.random.Generator, seconds: int) -> Pair:
    """Small bursts, as the perf tool's throttle makes them."""
    return replace(pair, traffic=(_series(chance, "bursts", seconds, burst_records=int(chance.integers(4, 9))),))


def _bursts(pair: Pair, chance: np.random.Generator, seconds: int) -> Pair:
    return replace(pair, traffic=(_series(chance, "bursts", seconds, burst_records=int(chance.integers(50, 200))),))


def _uneven(pair: Pair, chance: np.random.Generator, seconds: int) -> Pair:
    return replace(pair, leaders=TWELVE_UNEVEN, traffic=(_series(chance, "poisson", seconds),))


def _keyed_mix(pair: Pair, chance: np.random.Generator, seconds: int) -> Pair:
    keyed_percent = int(chance.integers(25, 60))
    traffic = (_series(chance, "poisson", seconds, keyed_percent=keyed_percent, varied_bytes=True),)
    return replace(pair, traffic=traffic, leaders=(0, 1, 2, 0, 1, 2))


def _two_producers(pair: Pair, chance: np.random.Generator, seconds: int) -> Pair:
    traffic = (
        _series(chance, "poisson", seconds, most_per_s=1000),
        _series(chance, "bursts", seconds, burst_records=int(chance.integers(4, 9)), most_per_s=1000),
    )
    return replace(pair, traffic=traffic, before=pair.before * 2, after=pair.after * 2)


def _lz4(pair: Pair, chance: np.random.Generator, seconds: int) -> Pair:
    packed = (replace(each, config=each.config | {"compression.type": "lz4"}) for each in (*pair.before, *pair.after))
    before, after = ((client,) for client in packed)
    traffic = (_series(chance, "poisson", seconds, most_per_s=800),)
    return replace(pair, traffic=traffic, before=before, after=after, text=True)


def _series(
    chance: np.random.Generator,
    pattern: str,
    seconds: int,
    *,
    most_per_s: int = 2000,
    burst_records: int = 1,
    keyed_percent: int = 0,
    varied_bytes: bool = False,
) -> Series:
    rate_per_s = int(chance.integers(most_per_s // 2, most_per_s))
    mean_bytes = int(chance.choice([200, 400, 512, 800]))
    seed = int(chance.integers(1, 1 << 30))
    return Series(
        pattern, rate_per_s, seconds, burst_records, keyed_percent, mean_bytes, varied_bytes=varied_bytes, seed=seed
    )


def _describe_series(series: Series) -> str:
    keyed = f", {series.keyed_percent} % keyed" if series.keyed_percent else ""
    bursts = f" of {series.burst_records}" if series.burst_records > 1 else ""
    bursts += f" {series.burst_step_us:g} us apart" if series.burst_step_us else ""
    sizes = "about " if series.varied_bytes else ""
    return f"{series.pattern}{bursts} at {series.rate_per_s}/s x {sizes}{series.mean_bytes} B for {series.seconds} s{keyed}"
