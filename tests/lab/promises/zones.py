"""`make promises ARGS=zones`: what `what-if --zones` promises of a real cluster, its plans carried out, and what came.

Four brokers 4.4.0 in the racks a, a, b and c; three Java producers 4.4.0 in zones that are loaded unequally, as their
telemetry (KIP-714) says. Every stage is the same traffic on the same two topics. The first one is judged and asked for advice;
each further one changes one thing: a plan, by Kafka's own tools and the file that `what-if` wrote, rack-aware producers, both.

Oracle: bytes of batches in Produce requests as a proxy counts them, and what the segments of leaders and followers grew by.
"""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.advice.what_ifs import ZoneChange
from pipeline.config.sections import Zones
from tests.integration.live.runs import wait_until
from tests.lab.archive import pack
from tests.lab.cluster import run_tool
from tests.lab.fidelity.arrivals import Series
from tests.lab.fidelity.bed import Bed, CpuMeter, start_bed
from tests.lab.fidelity.pairs.pair import AFTER, BEFORE, ENDING, Client, Pair
from tests.lab.fidelity.pairs.record import SETTINGS, Run, copy_logs, name_client, play
from tests.lab.fidelity.record import warm_up
from tests.lab.fidelity.services import sum_batch_bytes
from tests.lab.fidelity.settings import NEWEST
from tests.lab.process import LabError
from tests.lab.rack_aware.judged import advise, judge_capture
from tests.lab.recording import read_clock_ms, say
from tests.lab.telemetry.pushed import compile_reporter, format_pages, read_pushes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

RACKS = ("a", "a", "b", "c")  # of brokers 0 to 3
SECONDS = 60
PUSHED = "interval.ms=5000,metrics=org.apache.kafka.producer."
PRICE = 0.02
AWARE = "partitioner.rack.aware"
RECORDED = Path("tests/data/zone_advice")
NEAR_POINTS = 2.0  # of a share without a range
Ends = tuple[str, str]


def _draw_pair(name: str, loads: Mapping[str, Series], leaders: tuple[int, ...], replicas: int) -> Pair:
    clients = {
        is_aware: tuple(Client(NEWEST, {AWARE: is_aware, "client.rack": zone}) for zone in loads)
        for is_aware in ("false", "true")
    }
    return Pair(
        name, tuple(loads.values()), clients["false"], clients["true"], (), leaders,
        replicas=replicas, racks=RACKS, zones=tuple(loads),
    )  # fmt: skip


PAIRS = (
    _draw_pair(
        "orders",
        {
            "a": Series("poisson", 240, SECONDS, mean_bytes=400, varied_bytes=True, seed=11),
            "b": Series("poisson", 80, SECONDS, mean_bytes=400, varied_bytes=True, seed=12),
        },
        (0, 1, 2, 3, 2, 3, 2, 3) * 2,
        replicas=3,
    ),
    _draw_pair(
        "payments",
        {"c": Series("poisson", 120, SECONDS, keyed_percent=100, mean_bytes=400, seed=13)},
        (0, 1) * 4,
        replicas=3,
    ),
)
TOPICS = tuple(pair.name for pair in PAIRS)
SEEDS = 20


@dataclass(frozen=True)
class Came:
    """What a stage really was: bytes between zones, and each broker's part of the bytes, in percent."""

    produced: int
    replicated: int
    shares: Mapping[int, float]
    foreign_cpu_s: float


class Lab:
    """The cluster while it runs, and the folder of what is made."""

    def __init__(self, bed: Bed, folder: Path, pushed: Path) -> None:
        """Creates the topics."""
        self.bed, self.folder, self.pushed = bed, folder, pushed
        for pair in PAIRS:
            for name in (pair.name, f"{pair.name}-warm-up"):
                bed.create_topic(name, pair.leaders, pair.replicas)
        self.placement = self.read_placement()

    def read_placement(self) -> dict[tuple[str, int], tuple[int, list[int]]]:
        """Leader and replicas of each partition, as `kafka-topics` says."""
        said = self.bed.cluster.run_tool("kafka-topics", "--describe")
        found = re.findall(r"Topic: (\S+)\s+Partition: (\d+)\s+Leader: (\d+)\s+Replicas: (\S+)", said)
        return {
            (topic, int(partition)): (int(leader), [int(one) for one in replicas.split(",")])
            for topic, partition, leader, replicas in found
            if topic in TOPICS
        }

    def carry_out(self, plan: Path) -> None:
        """A plan as `what-if` writes it: the replicas, then the first of each leads."""
        server = ("--bootstrap-server", self.bed.cluster.internal_bootstrap)
        tools = self.bed.cluster.tools
        named = ("kafka-reassign-partitions", *server, "--reassignment-json-file", str(plan))
        run_tool(*named, "--execute", artifacts=tools)
        wait_until(lambda: "is still in progress" not in run_tool(*named, "--verify", artifacts=tools), "moves' end")
        elect = ("--election-type", "preferred", "--path-to-json-file", str(plan))
        run_tool("kafka-leader-election", *server, *elect, artifacts=tools)
        wanted = {
            (one["topic"], one["partition"]): one["replicas"] for one in json.loads(plan.read_text())["partitions"]
        }
        now = self.read_placement()
        if any(now[place] != (wanted[place][0], wanted[place]) for place in wanted.keys() & now.keys()):
            raise LabError(f"{plan}: asked for {wanted}, there is {now}")

    def roll_back(self) -> None:
        """The placement of the start."""
        back = [{"topic": t, "partition": p, "replicas": of} for (t, p), (_, of) in self.placement.items()]
        (file := self.folder / "rollback.json").write_text(json.dumps({"version": 1, "partitions": back}))
        self.carry_out(file)

    def run_stage(self, name: str, side: str, *, keeps: bool = False) -> Came:
        """Sends the traffic under one side's clients and counts; `keeps` what the pipeline reads in a folder of that name."""
        say(name)
        runs = [Run(pair, side, pair.name, self.folder / name / pair.name) for pair in PAIRS]
        for run in runs:
            run.capture.mkdir(parents=True)
        placed, before, begun_ms = self.read_placement(), self._measure_logs(), read_clock_ms()
        meter = CpuMeter(self.bed)
        if len(played := play(self.bed, runs)) != len(runs):
            raise LabError(f"{name}: a producer failed")
        requests = self.folder / name / "requests.tsv"
        self.bed.proxy.write_requests(requests)
        foreign_cpu_s = meter.foreign_cpu_s()
        wait_until(lambda: self._are_copied(placed), "followers")
        if self.read_placement() != placed:
            raise LabError(f"{name}: leaders moved meanwhile")
        came = self._count(placed, before, sum_batch_bytes(requests), foreign_cpu_s)
        if keeps:
            self._keep(self.folder / name, runs, played[0][1], begun_ms, came)
        return came

    def _measure_logs(self) -> dict[tuple[str, int, int], int]:
        """Bytes of segments by topic, partition and broker."""
        return {
            (topic, partition, broker): sum(
                log.stat().st_size for log in self.bed.log_directory(topic, partition, broker).glob("*.log")
            )
            for (topic, partition), (_, replicas) in self.read_placement().items()
            for broker in replicas
        }

    def _are_copied(self, placed: Mapping[tuple[str, int], tuple[int, list[int]]]) -> bool:
        now = self._measure_logs()
        return all(now[*place, one] == now[*place, leader] for place, (leader, of) in placed.items() for one in of)

    def _count(
        self,
        placed: Mapping[tuple[str, int], tuple[int, list[int]]],
        before: Mapping[tuple[str, int, int], int],
        sent: Mapping[tuple[str, int], int],
        foreign_cpu_s: float,
    ) -> Came:
        after = self._measure_logs()
        zone_of = {name_client(pair, number): zone for pair in PAIRS for number, zone in enumerate(pair.zones)}
        produced = sum(
            size for (client, broker), size in sent.items() if zone_of.get(client, RACKS[broker]) != RACKS[broker]
        )
        led: Counter[int] = Counter(dict.fromkeys(range(len(RACKS)), 0))
        replicated = 0
        for place, (leader, replicas) in placed.items():
            for broker in replicas:
                grown = after[*place, broker] - before[*place, broker]
                if broker == leader:
                    led[broker] += grown
                elif RACKS[broker] != RACKS[leader]:
                    replicated += grown
        proxied = sum(size for (client, _), size in sent.items() if client in zone_of)
        if proxied != (in_logs := sum(led.values())):
            raise LabError(f"proxy {proxied} bytes, logs {in_logs}")
        shares = {broker: 100 * size / in_logs for broker, size in led.items()}
        return Came(produced, replicated, shares, foreign_cpu_s)

    def _keep(self, folder: Path, runs: Sequence[Run], start_ms: int, begun_ms: int, came: Came) -> None:
        """A capture: logs, pages of both kinds of metrics, and what was counted."""
        capture = folder / "capture"
        copy_logs(self.bed, {pair.name: pair.leaders for pair in PAIRS}, capture, with_metadata=True)
        for run in runs:
            for client, page_folder in enumerate(sorted((run.capture / "scrapes/producers").iterdir())):
                shutil.copytree(page_folder, capture / f"scrapes/{run.topic}-{client}")
        pages = capture / "telemetry/collector"
        pages.mkdir(parents=True)
        pushes = [push for push in read_pushes(self.pushed) if push.at_ms >= begun_ms]
        for at_ms, text in format_pages(pushes, as_strimzi=False):
            (pages / f"{at_ms}.prom").write_text(text)
        facts = {"start_ms": start_ms, "produced": came.produced, "replicated": came.replicated, "shares": came.shares}
        (capture / "manifest.json").write_text(json.dumps(facts, indent=1) + "\n")


def format_state(title: str, promised: Mapping[str, Any], came: Came) -> list[str]:
    """Rows of the table: one state of an advice, promised and come."""
    rows = [
        f"| {title} | {name} between zones, MB | {promised[key] / 1e6:.2f} | | {size / 1e6:.2f} | "
        f"{f'{100 * (promised[key] / size - 1):+.1f} %' if size else 'none came'} |"
        for name, key, size in (
            ("produced", "produced_between_zones_bytes", came.produced),
            ("replicated", "replicated_between_zones_bytes", came.replicated),
        )
    ]
    for one in promised["brokers"]:
        share, low, high = (
            None if one[name] is None else 100 * one[name] / len(RACKS)
            for name in ("share_ratio", "share_ratio_low", "share_ratio_high")
        )
        real = came.shares[one["broker_id"]]
        is_kept = abs(share - real) <= NEAR_POINTS if low is None else low <= real <= high
        told = "" if low is None else f"{low:.1f} to {high:.1f}"
        verdict = f"{share - real:+.1f} points" + ("" if is_kept else ": **missed**")
        rows.append(f"| | broker {one['broker_id']}, % | {share:.1f} | {told} | {real:.1f} | {verdict} |")
    return rows


def run(folder: Path) -> str:
    """The stages, as a table; two of them are kept as recordings."""
    (pushed := folder / "pushed").mkdir(parents=True)
    classes = compile_reporter(folder / "classes")
    settings = {**SETTINGS, "metric.reporters": "ClientMetrics", "lab.telemetry.folder": str(pushed)}
    with start_bed(folder / "bed", len(RACKS), settings, version=NEWEST, racks=RACKS, classes=classes) as bed:
        subscribe = ("--alter", "--entity-type", "client-metrics", "--entity-name", "lab")
        bed.cluster.run_tool("kafka-configs", *subscribe, "--add-config", PUSHED)
        warm_up(bed)
        lab = Lab(bed, folder, pushed)
        now = lab.run_stage("plain", BEFORE, keeps=True)
        capture = folder / "plain/capture"
        judged = judge_capture(
            capture, folder / "judged", TOPICS, Zones(price_per_gb=PRICE), metrics=["telemetry"], seeds=SEEDS
        )
        advice = advise(judged, folder)
        then = lab.run_stage("rack-aware", AFTER, keeps=True)
        came = {ZoneChange.RACK_AWARE: then}
        planned = {}
        for change, side in (
            (ZoneChange.RACK_AWARE, AFTER),
            (ZoneChange.LEADERS, BEFORE),
            (ZoneChange.REPLICAS, BEFORE),
        ):
            lab.carry_out(folder / f"{change}.json")
            planned[change] = lab.run_stage(f"plan-{change}", side)
            lab.roll_back()
    RECORDED.mkdir(parents=True, exist_ok=True)
    for name in ("plain", "rack-aware"):
        pack(folder / name / "capture", RECORDED / f"{name}{ENDING}")
    (folder / "advice.json").write_text(json.dumps(advice, indent=1))
    lines = ["| advice | | promised | nine times of ten | came | off by |", "|---|---|---|---|---|---|"]
    lines += format_state("none, as counted", advice[ZoneChange.LEADERS]["now"], now)
    lines += format_state("`rack-aware`", advice[ZoneChange.RACK_AWARE]["then"], came[ZoneChange.RACK_AWARE])
    for change, found in planned.items():
        moved = advice[change]["moved_partition_count"]
        lines += format_state(f"`{change}`, plan of {moved} partitions", advice[change]["planned"], found)
    reasons = sorted({reason for one in advice.values() for reason in one["not_replayed"]})
    others = sum(one.foreign_cpu_s for one in (now, then, *planned.values()))
    lines += [
        "",
        f"Not replayed: {'; '.join(reasons) or 'nothing'}. Others used {others:.0f} processor seconds meanwhile.",
    ]
    return "\n".join(lines)
