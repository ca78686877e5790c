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
from tests.lab.process import LabError, Process, free_ports, start_program, wait_until
from tests.lab.recording import read_clock_ms, say, sleep_until
from tests.lab.scraper import Target, scraping

if TYPE_CHECKING:
    from collections.abc import Sequence

START_AFTER_MS = 3_500  # metadata fetched, the exporters' first pages served
WARM_UP_S = 90
SCRAPE_S = 5
SCRAPE_BEFORE_MS = 800  # the producer is there, and has sent nothing
# A copy of a running broker's directory is cut where its checkpoint says, which by default is up to 5 s old.
CHECKPOINT_MS = 500
SETTINGS = {"replica.high.watermark.checkpoint.interval.ms": str(CHECKPOINT_MS)}
CHECKPOINT = "replication-offset-checkpoint"
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
            described = describe_bed()
            for pair in pairs:
                for side in sides:
                    name = f"{pair.name}-{side}"
                    try:
                        folder = record_side(bed, pair, side, root / name, described)
                    except LabError as failure:
                        say(f"{name} left out: {failure}")
                        continue
                    archive = output / f"{name}{ENDING}"
                    pack(folder, archive)
                    archives.append(archive)
                    facts = json.loads((folder / "manifest.json").read_text())
                    figures = {figure: value for figure, value in facts["figures"].items() if figure != "partitions"}
                    size_mb, foreign_cpu_s = archive.stat().st_size / 1e6, facts["foreign_cpu_s"]
                    say(f"{name}: {size_mb:.2f} MB, others' processor time {foreign_cpu_s} s, {figures}")
                    shutil.rmtree(root / name)
            return archives
    finally:
        shutil.rmtree(root)


def record_side(bed: Bed, pair: Pair, side: str, folder: Path, described: dict[str, Any]) -> Path:
    """One run; returns the folder to pack.

    Raises:
        LabError: A producer failed, was not ready at the start, or had not ended a minute after its time.
    """
    run = Run(pair, side, f"{pair.name}-{side}", folder)
    run.capture.mkdir(parents=True)
    for name in (run.topic, f"{run.topic}-warm-up"):
        bed.create_topic(name, pair.leaders)
    meter, started = CpuMeter(bed), time.monotonic()
    start_ms = _play(bed, run)
    wall_s, foreign_cpu_s = time.monotonic() - started, meter.foreign_cpu_s()
    _copy_logs(bed, run)
    (run.capture / "tools").mkdir()
    described_topic = bed.cluster.run_tool("kafka-topics", "--describe", "--topic", run.topic)
    (run.capture / "tools/topics-describe.txt").write_text(described_topic)
    latencies = [run.folder / f"load-{number}/latencies.bin" for number in range(len(pair.traffic))]
    facts = {
        "format": 1,
        "pair": encode_pair(pair),
        "side": side,
        "topic": run.topic,
        "cluster_id": bed.cluster.cluster_id,
        "bed": described,
        "clock": {
            "start_ms": start_ms,
            "end_ms": start_ms + 1000 * pair.seconds,
            "recorded_until_ms": read_clock_ms(),
        },
        "foreign_cpu_s": round(foreign_cpu_s, 2),
        "wall_s": round(wall_s, 1),
        "is_quiet": foreign_cpu_s <= QUIET_CPU_SHARE * wall_s,
        "figures": measure_run(run.capture, run.topic, pair.leaders, latencies),
    }
    (run.capture / "manifest.json").write_text(json.dumps(facts, indent=1) + "\n")
    return run.capture


def _play(bed: Bed, run: Run) -> int:
    """Starts the clients, watches their exporters while they send, and ends them; returns the start's instant."""
    ports = free_ports(len(run.pair.traffic))
    bed.plan_delays((), 0)
    clients = [_start(bed, run, number, port) for number, port in enumerate(ports)]
    targets = [
        Target(port, run.capture / f"scrapes/producers/load-{number}", SCRAPE_S)
        for number, port in enumerate(ports)
        if run.pair.clients(run.side)[number].version != RDKAFKA
    ]
    try:
        for client in clients:
            wait_until(lambda client=client: "warm" in client.tail().splitlines(), "warm-up", client, WARM_UP_S)
        for target in targets:
            target.fetch()  # the first page costs a second; not while the traffic runs
        start_ms = read_clock_ms() + START_AFTER_MS
        end_ms = start_ms + 1000 * run.pair.seconds
        bed.plan_delays(run.pair.delays, start_ms)
        (run.folder / "start.partial").write_text(str(start_ms))
        (run.folder / "start.partial").rename(run.start_file)
        with scraping(targets, start_ms - SCRAPE_BEFORE_MS, end_ms + 60_000):
            sleep_until(end_ms)
            for client in clients:
                wait_until(lambda client=client: "sent acked=" in client.tail(), "end", client)
        for target in targets:
            target.scrape()
    finally:
        for client in clients:
            client.stop()
    for client in clients:
        if "late by" in client.tail() or " failed=0" not in client.tail():
            raise LabError(f"{client.name}: {client.tail()}")
    return start_ms


def _start(bed: Bed, run: Run, number: int, port: int) -> Process:
    """A client that warms up on a topic of its own, plays its series at the start and stays."""
    pair, topic, client = run.pair, run.topic, run.pair.clients(run.side)[number]
    place = run.folder / f"load-{number}"
    place.mkdir(parents=True)
    config = {"bootstrap.servers": bed.cluster.bootstrap, "client.id": f"load-{number}", **client.config}
    write_properties(place / "client.properties", config)
    pair.traffic[number].make().tofile(place / "series.bin")
    lines = []
    if pair.text:
        (place / "lines.txt").write_text(make_text(pair.traffic[number].mean_bytes))
        lines = [str(place / "lines.txt")]
    files = [str(place / name) for name in ("client.properties", "series.bin", "latencies.bin")]
    words = [files[0], topic, f"{topic}-warm-up", files[1], str(run.start_file), files[2]]
    if client.version == RDKAFKA:
        # It reports its statistics by itself, no exporter needed.
        command = [sys.executable, str(PRODUCERS / "rdkafka_traffic.py"), *words, str(run.statistics(number))]
        return start_program(f"load-{number}", command, place / "output.log")
    arguments = [exporter_agent(port), str(PRODUCERS / "PlayTraffic.java"), *words, *lines]
    return start_client(f"load-{number}", client.version, arguments, place / "output.log")


def _copy_logs(bed: Bed, run: Run) -> None:
    """The topic's partitions, where they lie, once the brokers' checkpoints know all of their records."""
    sleep_until(read_clock_ms() + 4 * CHECKPOINT_MS)
    for broker in bed.cluster.brokers:
        target = run.capture / f"brokers/{broker.node_id}"
        target.mkdir(parents=True)
        shutil.copy2(broker.log_directory / "meta.properties", target)
        version, _, *entries = (broker.log_directory / CHECKPOINT).read_text().splitlines()
        own = [entry for entry in entries if entry.rsplit(" ", 2)[0] == run.topic]
        (target / CHECKPOINT).write_text("\n".join([version, str(len(own)), *own, ""]))
        for partition, leader in enumerate(run.pair.leaders):
            if leader == broker.node_id:
                source = bed.log_directory(run.topic, partition, leader)
                shutil.copytree(source, target / source.name)
                for index in (target / source.name).glob("*index"):
                    _cut_index(index)


def _cut_index(index: Path) -> None:
    """To its entries, as a broker's clean stop does: an active segment's has 10 MB, nearly all of it zeros."""
    entry_bytes = INDEX_ENTRY_BYTES[index.suffix]
    used = len(index.read_bytes().rstrip(b"\0"))
    with index.open("r+b") as file:
        file.truncate(-(-used // entry_bytes) * entry_bytes)
