"""Plays each pair's traffic under both its clients and packs what lies on disk: ``make fidelity ARGS="--record-pairs SEED"``.

An archive per run: the topic's segments in the brokers' log directories, the producers' exporter pages, what
`kafka-topics --describe` said, and a manifest with the settings and with what the clients themselves measured.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.lab.archive import pack
from tests.lab.clients import PRODUCERS, exporter_agent
from tests.lab.fidelity.bed import Bed, CpuMeter, start_bed, start_client, write_properties
from tests.lab.fidelity.pairs.figures import measure_run
from tests.lab.fidelity.pairs.pair import ENDING, RDKAFKA, SIDES, Pair, encode_pair
from tests.lab.fidelity.record import describe_bed, warm_up
from tests.lab.fidelity.run import QUIET_CPU_SHARE, make_text
from tests.lab.fidelity.services import sum_batch_bytes
from tests.lab.process import LabError, Process, free_ports, start_program, wait_until
from tests.lab.recording import read_clock_ms, say, sleep_until
from tests.lab.scraper import Target, scraping

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

START_AFTER_MS = 8_000  # metadata fetched, the exporters' first pages served, on a busy machine too
WARM_UP_S = 240
SCRAPE_S = 5
SCRAPE_BEFORE_MS = 800  # the producer is there, and has sent nothing
# A copy of a running broker's directory is cut where its checkpoint says, which by default is up to 5 s old.
CHECKPOINT_MS = 500
SETTINGS = {"replica.high.watermark.checkpoint.interval.ms": str(CHECKPOINT_MS)}
CHECKPOINT = "replication-offset-checkpoint"
METADATA = "__cluster_metadata-0"
INDEX_ENTRY_BYTES = {".index": 8, ".timeindex": 12}


@dataclass(frozen=True)
class Run:
    """One side of a pair while it is recorded, and where its files go."""

    pair: Pair
    side: str
    topic: str
    folder: Path

    @property
    def capture(self) -> Path:
        """What gets packed."""
        return self.folder / "capture"

    @property
    def start_file(self) -> Path:
        """Tells the clients when to start, once all are warm."""
        return self.folder / "start"

    def statistics(self, number: int) -> Path:
        """Where a client of librdkafka writes its statistics."""
        return self.capture / f"scrapes/librdkafka/load-{number}"


@dataclass(frozen=True)
class Stage:
    """Where runs are recorded: their bed, how it is described, a folder to work in, and one for archives."""

    bed: Bed
    described: dict[str, Any]
    root: Path
    output: Path


@dataclass(frozen=True)
class Measured:
    """How long a run took, the processor time that others used meanwhile, and bytes of batches by client and broker."""

    wall_s: float
    foreign_cpu_s: float
    sent: Mapping[tuple[str, int], int]


def replace_pairs(pairs: Sequence[Pair], output: Path) -> None:
    """Records pairs and takes those that lay there before away, once there are new ones."""
    before = set(output.glob(f"*{ENDING}"))
    recorded = record_pairs(pairs, output)
    for archive in before - set(recorded) if recorded else ():
        archive.unlink()


def record_pairs(pairs: Sequence[Pair], output: Path, sides: Sequence[str] = SIDES) -> list[Path]:
    """Runs every side of every pair and writes an archive for each; a run that failed is left out and said so."""
    output.mkdir(parents=True, exist_ok=True)
    archives = []
    root = Path(tempfile.mkdtemp(prefix="partition-health-pairs-"))
    try:
        with start_bed(root, settings=SETTINGS) as bed:
            say("warming the brokers")
            warm_up(bed)
            stage = Stage(bed, describe_bed(), root, output)
            for pair in pairs:
                for side in sides:
                    archives += record_side(stage, [pair], side)
            return archives
    finally:
        shutil.rmtree(root)


def record_side(stage: Stage, pairs: Sequence[Pair], side: str) -> list[Path]:
    """One side of pairs that are sent at the same time, under the delays of the first; an archive for each.

    A run of which a producer failed, was not ready at the start, or had not ended a minute after its time is left out.
    """
    runs = [Run(pair, side, f"{pair.name}-{side}", stage.root / f"{pair.name}-{side}") for pair in pairs]
    for run in runs:
        run.capture.mkdir(parents=True)
        for name in (run.topic, f"{run.topic}-warm-up"):
            stage.bed.create_topic(name, run.pair.leaders, run.pair.replicas)
    meter, started = CpuMeter(stage.bed), time.monotonic()
    archives = []
    try:
        played = play(stage.bed, runs)
        requests = stage.root / "requests.tsv"
        stage.bed.proxy.write_requests(requests)
        measured = Measured(time.monotonic() - started, meter.foreign_cpu_s(), sum_batch_bytes(requests))
        for run, start_ms in played:
            _keep(stage, run, start_ms, measured)
            archives.append(stage.output / f"{run.topic}{ENDING}")
            pack(run.capture, archives[-1])
    except (LabError, ValueError, OSError) as failure:
        say(f"{side} of {', '.join(pair.name for pair in pairs)} left out: {failure}")
    for run in runs:
        shutil.rmtree(run.folder)
    return archives


def _keep(stage: Stage, run: Run, start_ms: int, measured: Measured) -> None:
    """Copies what lies on disk, and writes the manifest."""
    pair, bed = run.pair, stage.bed
    copy_logs(bed, {run.topic: pair.leaders}, run.capture, with_metadata=bool(pair.racks))
    (run.capture / "tools").mkdir()
    described_topic = bed.cluster.run_tool("kafka-topics", "--describe", "--topic", run.topic)
    (run.capture / "tools/topics-describe.txt").write_text(described_topic)
    latencies = [run.folder / f"load-{number}/latencies.bin" for number in range(len(pair.traffic))]
    zones = {"sent": _list_sent(run, measured), "replicas": _list_replicas(bed, run)} if pair.racks else None
    facts = {
        "format": 1,
        "pair": encode_pair(pair),
        "side": run.side,
        "topic": run.topic,
        "cluster_id": bed.cluster.cluster_id,
        "bed": stage.described,
        "clock": {"start_ms": start_ms, "end_ms": start_ms + 1000 * pair.seconds, "recorded_until_ms": read_clock_ms()},
        "foreign_cpu_s": round(measured.foreign_cpu_s, 2),
        "wall_s": round(measured.wall_s, 1),
        "is_quiet": measured.foreign_cpu_s <= QUIET_CPU_SHARE * measured.wall_s,
        "figures": measure_run(run.capture, run.topic, pair.leaders, latencies),
        **({"zones": zones} if zones else {}),
    }
    (run.capture / "manifest.json").write_text(json.dumps(facts, indent=1) + "\n")
    figures = {figure: value for figure, value in facts["figures"].items() if figure != "partitions"}
    say(f"{run.topic}: others' processor time {facts['foreign_cpu_s']} s, {figures}")


def _list_sent(run: Run, measured: Measured) -> dict[str, dict[str, int]]:
    """Bytes of batches that went through the proxy, by the client's id, then broker."""
    found: dict[str, dict[str, int]] = {}
    for (client_id, broker), size in sorted(measured.sent.items()):
        if client_id in {name_client(run.pair, number) for number in range(len(run.pair.traffic))}:
            found.setdefault(client_id, {})[str(broker)] = size
    return found


def _list_replicas(bed: Bed, run: Run) -> dict[str, dict[str, int]]:
    """Bytes of the topic's segments on each broker, by broker, then partition; the leader's own too."""
    return {
        str(broker.node_id): {
            folder.name.rpartition("-")[2]: sum(log.stat().st_size for log in folder.glob("*.log"))
            for folder in sorted(broker.log_directory.glob(f"{run.topic}-[0-9]*"))
        }
        for broker in bed.cluster.brokers
    }


def name_client(pair: Pair, number: int) -> str:
    """The `client.id` of one of its producers: pairs that are sent at the same time differ."""
    return f"{pair.name}-{number}" if pair.racks else f"load-{number}"


def play(bed: Bed, runs: Sequence[Run]) -> list[tuple[Run, int]]:
    """Starts all clients, watches their exporters while they send, and ends them; those without a failure, and their start."""
    ports = iter(free_ports(sum(len(run.pair.traffic) for run in runs)))
    bed.plan_delays((), 0)
    clients: dict[str, list[Process]] = {}
    targets = []
    for run in runs:
        own = [next(ports) for _ in run.pair.traffic]
        clients[run.topic] = [_start(bed, run, number, port) for number, port in enumerate(own)]
        targets += [
            Target(port, run.capture / f"scrapes/producers/load-{number}", SCRAPE_S)
            for number, port in enumerate(own)
            if run.pair.clients(run.side)[number].version != RDKAFKA
        ]
    processes = [process for started in clients.values() for process in started]
    try:
        start_ms = _send(bed, runs, processes, targets)
    finally:
        for process in processes:
            process.stop()
    failed = {topic: client.tail() for topic, own in clients.items() for client in own if not _is_complete(client)}
    for topic, said in failed.items():
        say(f"{topic} left out: {said}")
    return [(run, start_ms) for run in runs if run.topic not in failed]


def _send(bed: Bed, runs: Sequence[Run], processes: Sequence[Process], targets: Sequence[Target]) -> int:
    """Lets all clients send once they are warm, and returns the start's instant when they have ended."""
    for process in processes:
        wait_until(lambda process=process: "warm" in process.tail().splitlines(), "warm-up", process, WARM_UP_S)
    bed.proxy.note_requests()
    for target in targets:
        target.fetch()  # the first page costs a second; not while the traffic runs
    start_ms = read_clock_ms() + START_AFTER_MS
    end_ms = start_ms + 1000 * max(run.pair.seconds for run in runs)
    bed.plan_delays(runs[0].pair.delays, start_ms)
    for run in runs:
        (run.folder / "start.partial").write_text(str(start_ms))
        (run.folder / "start.partial").rename(run.start_file)
    with scraping(targets, start_ms - SCRAPE_BEFORE_MS, end_ms + 60_000):
        sleep_until(end_ms)
        for process in processes:
            wait_until(lambda process=process: "sent acked=" in process.tail(), "end", process)
    for target in targets:
        target.scrape()
    return start_ms


def _is_complete(client: Process) -> bool:
    return "late by" not in client.tail() and " failed=0" in client.tail()


def _start(bed: Bed, run: Run, number: int, port: int) -> Process:
    """A client that warms up on a topic of its own, plays its series at the start and stays."""
    pair, topic, client = run.pair, run.topic, run.pair.clients(run.side)[number]
    place = run.folder / f"load-{number}"
    place.mkdir(parents=True)
    named = {"bootstrap.servers": bed.cluster.bootstrap, "client.id": name_client(pair, number)}
    config = {**named, **client.config}
    if "transactional.id" in config:
        config["transactional.id"] = f"{topic}-{number}"
    write_properties(place / "client.properties", config)
    pair.traffic[number].make().tofile(place / "series.bin")
    lines = []
    if pair.text:
        (place / "lines.txt").write_text(make_text(pair.traffic[number].mean_bytes))
        lines = [str(place / "lines.txt")]
    files = [str(place / name) for name in ("client.properties", "series.bin", "latencies.bin")]
    warm_up_topic = "-" if pair.cold else f"{topic}-warm-up"
    words = [files[0], topic, warm_up_topic, files[1], str(run.start_file), files[2]]
    if client.version == RDKAFKA:
        # It reports its statistics by itself, no exporter needed.
        command = [sys.executable, str(PRODUCERS / "rdkafka_traffic.py"), *words, str(run.statistics(number))]
        return start_program(f"load-{number}", command, place / "output.log")
    arguments = [exporter_agent(port), str(PRODUCERS / "PlayTraffic.java"), *words, *lines]
    return start_client(f"load-{number}", client.version, arguments, place / "output.log")


def copy_logs(bed: Bed, leaders: Mapping[str, Sequence[int]], capture: Path, *, with_metadata: bool) -> None:
    """Topics' partitions, where they are led, once the brokers' checkpoints know all of their records.

    Args:
        bed: Where they lie.
        leaders: Of each partition, by topic.
        capture: Where `brokers` goes.
        with_metadata: The metadata log of broker 0 too: it has the brokers' racks.
    """
    sleep_until(read_clock_ms() + 4 * CHECKPOINT_MS)
    for broker in bed.cluster.brokers:
        target = capture / f"brokers/{broker.node_id}"
        target.mkdir(parents=True)
        shutil.copy2(broker.log_directory / "meta.properties", target)
        if with_metadata and broker.node_id == 0:
            shutil.copytree(broker.log_directory / METADATA, target / METADATA)
            for index in (target / METADATA).glob("*index"):
                _cut_index(index)
        written = (broker.log_directory / CHECKPOINT).read_text().splitlines()
        version, _, *entries = written or ("0", "0")  # a broker that never had a partition has not written it
        own = [entry for entry in entries if entry.rsplit(" ", 2)[0] in leaders]
        (target / CHECKPOINT).write_text("\n".join([version, str(len(own)), *own, ""]))
        led = [
            (topic, number) for topic, of in leaders.items() for number, one in enumerate(of) if one == broker.node_id
        ]
        for topic, partition in led:
            source = bed.log_directory(topic, partition, broker.node_id)
            shutil.copytree(source, target / source.name)
            for index in (target / source.name).glob("*index"):
                _cut_index(index)


def _cut_index(index: Path) -> None:
    """To its entries, as a broker's clean stop does: an active segment's has 10 MB, nearly all of it zeros."""
    entry_bytes = INDEX_ENTRY_BYTES[index.suffix]
    used = len(index.read_bytes().rstrip(b"\0"))
    with index.open("r+b") as file:
        file.truncate(-(-used // entry_bytes) * entry_bytes)
