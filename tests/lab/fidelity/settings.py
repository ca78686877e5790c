"""What is run for real and simulated: a setting as a value, and the list of those whose results are committed."""

from dataclasses import dataclass, field

from tests.lab.fidelity.arrivals import Series

OLD, MIDDLE, NEW, NEWEST = "3.2.3", "3.9.1", "4.1.1", "4.4.0"
SECONDS = 30
EVEN = (0, 1, 2)
TWELVE_UNEVEN = (0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2)


@dataclass(frozen=True)
class Delay:
    """A broker's Produce responses are held, from one second of the run to another."""

    broker: int
    delay_ms: float
    from_s: float = 0.0
    to_s: float = 1e6


@dataclass(frozen=True)
class PerfLoad:
    """The perf tool of a client's own version, with its throttle."""

    version: str
    rate_per_s: int
    record_count: int
    value_bytes: int = 512
    config: dict[str, str] = field(default_factory=dict)
    text: bool = False  # values are lines of text, which compress, instead of one letter repeated

    @property
    def seconds(self) -> float:
        """How long it sends."""
        return self.record_count / self.rate_per_s


@dataclass(frozen=True)
class SeriesLoad:
    """A client that plays a given series of records."""

    version: str
    series: Series
    config: dict[str, str] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """How long it sends."""
        return self.series.seconds


@dataclass(frozen=True)
class Setting:
    """One experiment: partition i is led by broker ``leaders[i]``; all loads run at once on one topic."""

    name: str
    loads: tuple[PerfLoad | SeriesLoad, ...]
    delays: tuple[Delay, ...] = (Delay(0, 20),)
    leaders: tuple[int, ...] = EVEN


def _perf(version: str, rate: int = 2048, count: int = 0, **config: str) -> PerfLoad:
    names = {name.replace("_", "."): value for name, value in config.items()}
    return PerfLoad(version, rate, count or rate * SECONDS, config=names)


SETTINGS: tuple[Setting, ...] = (
    Setting("sticky-linger-0", (_perf(OLD, count=2048 * 60),)),  # saturated: figures grow with its length
    Setting("built-in-linger-0", (_perf(MIDDLE),)),
    Setting("uniform-linger-0", (_perf(MIDDLE, partitioner_adaptive_partitioning_enable="false"),)),
    Setting("built-in-linger-5", (_perf(NEW),)),
    Setting("sticky-linger-5", (_perf(OLD, linger_ms="5"),)),
    Setting("built-in-linger-20-batch-32k", (_perf(NEW, linger_ms="20", batch_size="32768"),)),
    Setting("built-in-batch-4k", (_perf(MIDDLE, 1536, batch_size="4096"),), (Delay(0, 10),)),
    Setting("built-in-batch-64k", (_perf(MIDDLE, 3072, batch_size="65536"),)),
    Setting(
        "lz4-text",
        (PerfLoad(NEW, 3000, 3000 * SECONDS, text=True, config={"compression.type": "lz4", "linger.ms": "0"}),),
    ),
    Setting("twelve-uneven-leaders", (_perf(MIDDLE, 3000),), (Delay(1, 20),), TWELVE_UNEVEN),
    Setting("two-producers", (_perf(OLD, 1024), _perf(NEW, 1024))),
    Setting("delay-schedule", (_perf(MIDDLE),), (Delay(0, 30, 6, 14), Delay(1, 15, 14, 24), Delay(0, 5, 24, 30))),
    Setting("keyed-mix-old", (SeriesLoad(OLD, Series("poisson", 1500, SECONDS, keyed_percent=40)),)),
    Setting(
        "keyed-mix-new", (SeriesLoad(NEW, Series("poisson", 1500, SECONDS, keyed_percent=40), {"linger.ms": "0"}),)
    ),
    Setting("bursts", (SeriesLoad(MIDDLE, Series("bursts", 1500, SECONDS, burst_records=150)),)),
)
