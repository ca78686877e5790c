"""One setting on the real bed: starts its producers, waits for them, and reads what they and the brokers say."""

from __future__ import annotations

import random
import re
import time
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from pipeline.codec.log.segment import scan_headers
from tests.lab.clients import PERF_TOOL, PRODUCERS
from tests.lab.fidelity.bed import CpuMeter, start_client, write_properties
from tests.lab.fidelity.services import QUANTILES, read_requests, summarise_services
from tests.lab.fidelity.settings import PerfLoad, SeriesLoad, Setting
from tests.lab.process import LabError
from tests.lab.recording import read_clock_ms

if TYPE_CHECKING:
    from pathlib import Path

    from tests.lab.fidelity.bed import Bed
    from tests.lab.process import Process

WARM_UP_SUFFIX = "-warm-up"
START_AFTER_MS = 30_000  # JVMs up, classes loaded, code compiled
READY_BEFORE_MS = 1_000
WARM_UP_REQUESTS, WARM_UP_S = 12_000, 5
QUIET_LATE_NS, LATE_QUANTILE = 500_000, QUANTILES.index(0.95)
QUIET_CPU_SHARE = 0.03  # of one processor, used by others, below which a run's latencies count
TOTAL = re.compile(
    r"^(?P<record_count>\d+) records sent, (?P<throughput_records_per_s>[\d.]+) records/sec .*?, "
    r"(?P<latency_avg_ms>[\d.]+) ms avg latency, (?P<latency_max_ms>[\d.]+) ms max latency, "
    r"(?P<latency_p50_ms>[\d.]+) ms 50th, (?P<latency_p95_ms>[\d.]+) ms 95th, "
    r"(?P<latency_p99_ms>[\d.]+) ms 99th, (?P<latency_p999_ms>[\d.]+) ms 99.9th",
    re.MULTILINE,
)
NODE = re.compile(r"^producer-node-metrics:(\S+):\{.*node-id=node-(\d+)\}\s*: (\S+)$", re.MULTILINE)
NODE_METRICS = {
    "outgoing-byte-total": "outgoing_bytes",
    "request-total": "request_count",
    "request-latency-avg": "request_latency_avg_ms",
}


@dataclass(frozen=True)
class PartitionFigures:
    """What a partition's log holds."""

    partition: int
    broker: int
    record_count: int
    batch_count: int
    size_bytes: int


@dataclass(frozen=True)
class RealRun:
    """What a real run gave.

    ``first_record_ms`` is the earliest CreateTime after the start. ``tools`` has the figures of each load's last line; ``nodes`` the metrics per node of perf tools, by load;
    ``services`` what each broker took for requests, see `services.summarise_services`. ``is_warm``: the client had warmed
    up, and the services are those of this run; else the client was measured from its start on, and the services are
    those timed right before.
    """

    setting: str
    at_ms: int
    first_record_ms: int
    foreign_cpu_s: float
    wall_s: float
    partitions: tuple[PartitionFigures, ...]
    tools: tuple[dict[str, float], ...]
    nodes: tuple[dict[str, dict[str, float]], ...]
    services: dict[str, Any] = field(default_factory=dict)
    is_warm: bool = True

    @property
    def is_quiet(self) -> bool:
        """Whether others left the machine alone: latencies are judged on such runs only.

        Where the proxy held answers, how late the machine let them go says so, else the processor time of others.
        """
        late_ns = [each["hold_beyond"]["ns"][LATE_QUANTILE] for each in self.services.values() if each["hold_beyond"]]
        if late_ns:
            return max(late_ns) <= QUIET_LATE_NS
        return self.foreign_cpu_s <= QUIET_CPU_SHARE * self.wall_s

    def to_json(self) -> dict[str, object]:
        """As committed."""
        return asdict(self) | {"is_quiet": self.is_quiet}


def run_setting(bed: Bed, setting: Setting, folder: Path) -> RealRun:
    """Run a setting once.

    Raises:
        LabError: a producer failed, or did not end a minute after its time.
    """
    folder.mkdir(parents=True, exist_ok=True)
    topic = f"{setting.name}-{read_clock_ms()}"
    for suffix in ("", WARM_UP_SUFFIX):
        bed.create_topic(f"{topic}{suffix}", setting.leaders)
    start_ms = read_clock_ms() + START_AFTER_MS
    start_ns = time.monotonic_ns() + START_AFTER_MS * 1_000_000  # the clock the proxy notes by
    bed.plan_delays(setting.delays, start_ms)
    bed.proxy.note_requests()
    meter, started = CpuMeter(bed), time.monotonic()
    clients = [_start(bed, load, topic, start_ms, folder / f"load-{n}") for n, load in enumerate(setting.loads)]
    try:
        for client in clients:
            if client.wait(timeout_s=150):
                raise LabError(f"{client.name} failed:\n{client.tail()}")
        wall_s, foreign_cpu_s = time.monotonic() - started, meter.foreign_cpu_s()
    finally:
        for client in clients:
            client.stop()
    bed.proxy.write_requests(folder / "requests.tsv")
    texts = [client.output.read_text() for client in clients]
    if any("late by" in text for text in texts):
        raise LabError(f"{setting.name}: a client was still warming up at the start")
    logs = [_read_partition(bed, topic, partition, leader) for partition, leader in enumerate(setting.leaders)]
    partitions = tuple(figures for figures, _ in logs)
    first_record_ms = min(first_ms for _, first_ms in logs) - start_ms
    tools, nodes = tuple(map(read_total, texts)), tuple(map(read_nodes, texts))
    delays_ms = {
        delay.broker: [other.delay_ms for other in setting.delays if other.broker == delay.broker]
        for delay in setting.delays
    }
    services = summarise_services(read_requests(folder / "requests.tsv", from_ns=start_ns), delays_ms)
    run = RealRun(
        setting.name,
        start_ms,
        first_record_ms,
        round(foreign_cpu_s, 2),
        round(wall_s, 1),
        partitions,
        tools,
        nodes,
        services,
    )
    sent, stored = sum(tool["record_count"] for tool in tools), sum(each.record_count for each in partitions)
    if sent != stored:
        raise LabError(f"{setting.name}: {sent:.0f} records acknowledged, {stored} in the logs")
    return run


def read_total(text: str) -> dict[str, float]:
    """The perf tool's last line of figures.

    Raises:
        LabError: there is none.
    """
    found = TOTAL.search(text)
    if found is None:
        raise LabError(f"no total in the tool's output:\n{text[-2000:]}")
    return {name: float(value) for name, value in found.groupdict().items()}


def read_nodes(text: str) -> dict[str, dict[str, float]]:
    """Metrics per node of ``--print-metrics``, without bootstrap connections."""
    nodes: dict[str, dict[str, float]] = {}
    for name, node, value in NODE.findall(text):
        if name in NODE_METRICS:
            nodes.setdefault(node, {})[NODE_METRICS[name]] = float(value)
    return nodes


def _start(bed: Bed, load: PerfLoad | SeriesLoad, topic: str, start_ms: int, folder: Path) -> Process:
    """A client that warms up on a topic of its own and begins at the instant.

    Thousands of one-record requests, then some seconds of the load itself: both ways through the client are compiled.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if isinstance(load, PerfLoad):
        program = [str(PRODUCERS / "StartAt.java"), str(start_ms), PERF_TOOL]
        lists = _perf_arguments(bed, load, topic, folder)
    else:
        program = [str(PRODUCERS / "PlayArrivals.java")]
        lists = _player_arguments(bed, load, topic, start_ms, folder)
    warm_ups = [word for each in lists[:-1] for word in (*each, "--")]
    return start_client(folder.name, load.version, [*program, *warm_ups, *lists[-1]], folder / "output.log")


def _perf_arguments(bed: Bed, load: PerfLoad, topic: str, folder: Path) -> list[list[str]]:
    payload = folder / "payload.txt"
    payload.write_text(make_text(load.value_bytes) if load.text else "x" * load.value_bytes)
    config = {"bootstrap.servers": bed.cluster.bootstrap, **load.config}
    single = config | {"batch.size": "1", "linger.ms": "0"}

    def words(to: str, count: int, rate: int, config: dict[str, str]) -> list[str]:
        return [
            "--topic", to, "--num-records", str(count), "--payload-file", str(payload), "--throughput", str(rate),
            "--print-metrics", "--producer-props", *(f"{name}={value}" for name, value in config.items()),
        ]  # fmt: skip

    warm = f"{topic}{WARM_UP_SUFFIX}"
    return [
        words(warm, WARM_UP_REQUESTS, -1, single),
        words(warm, load.rate_per_s * WARM_UP_S, load.rate_per_s, config),
        words(topic, load.record_count, load.rate_per_s, config),
    ]


def _player_arguments(bed: Bed, load: SeriesLoad, topic: str, start_ms: int, folder: Path) -> list[list[str]]:
    serializer = "org.apache.kafka.common.serialization.ByteArraySerializer"
    series = folder / "arrivals.bin"
    records = load.series.make()
    records.tofile(series)
    begin = folder / "first-arrivals.bin"
    records[records["due_ns"] < WARM_UP_S * 10**9].tofile(begin)
    files = []
    for name, more in (("single", {"batch.size": "1", "linger.ms": "0"}), ("client", {})):
        config = {"bootstrap.servers": bed.cluster.bootstrap, **load.config, **more}
        config |= {"key.serializer": serializer, "value.serializer": serializer}
        files.append(folder / f"{name}.properties")
        write_properties(files[-1], config)
    single, client = map(str, files)
    warm = f"{topic}{WARM_UP_SUFFIX}"
    flat_out, in_time = "0", str(start_ms - READY_BEFORE_MS - WARM_UP_S * 1000)
    return [
        [single, warm, str(series), flat_out],
        [client, warm, str(begin), in_time],
        [client, topic, str(series), str(start_ms)],
    ]


def make_text(value_bytes: int, lines: int = 64) -> str:
    """Lines of made-up JSON, one payload each."""
    chance = random.Random(1)
    words = [f'"{name}":{{}}' for name in ("order", "customer", "amount", "currency", "placed_at", "note", "total")]
    return "\n".join(
        ",".join(chance.choice(words).format(chance.randrange(10**9)) for _ in range(value_bytes))[:value_bytes]
        for _ in range(lines)
    )


def _read_partition(bed: Bed, topic: str, partition: int, leader: int) -> tuple[PartitionFigures, int]:
    """What its log holds, and the earliest CreateTime in it."""
    records = batches = size_bytes = 0
    first_ms = 1 << 62
    for log in sorted(bed.log_directory(topic, partition, leader).glob("*.log")):
        rows = scan_headers(log).rows
        records += int(rows["record_count"].sum())
        batches += len(rows)
        size_bytes += int(rows["size_bytes"].sum())
        first_ms = min(first_ms, int(rows["base_timestamp_ms"].min(initial=first_ms)))
    return PartitionFigures(partition, leader, records, batches, size_bytes), first_ms
