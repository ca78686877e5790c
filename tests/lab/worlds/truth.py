"""What must hold of the readings of a life: a window that counts as whole has each broker's bytes, within little.

A window that does not says what it lacks, and problems are named once. `read_directly` needs neither engine nor tables:
a life takes a second.
"""

import random
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from pipeline.jobs.ingest.ingest_input import find_damaged
from pipeline.model.window import TimeWindow, milliseconds_of
from pipeline.sources.cluster_reading import iter_availability, read_cluster
from pipeline.sources.collected.manifest import CollectedAs
from pipeline.sources.collected.reading import plan_collected_tasks
from pipeline.sources.files.cluster_rows import compacted_topics
from pipeline.sources.files.segment_plan import choose_replicas, plan_reads
from pipeline.sources.questions import ClusterQuestion
from pipeline.sources.records.batch_rows import LeaderEpochs
from pipeline.sources.records.pieces import SUMMARY_SCHEMA, Kind
from pipeline.sources.records.record_scan import plan_segment_tasks
from pipeline.sources.records.scan_settings import ScanSettings
from tests.lab.worlds.draw import make_hostile
from tests.lab.worlds.kafka import Kafka
from tests.lab.worlds.lives import Life, Reading, list_topics, live, write_config
from tests.lab.worlds.oracle import STRICT, Ending, World, judge_mails, judge_problems, read, run_windows
from tests.unit.sources.collected.disks import HOUR_MS

FAIR_TOLERANCE = 0.02
TOLERANCE = 0.03
"""Part of a window's bytes: disks are copied one after the other, within a minute."""


@dataclass(frozen=True)
class Told:
    """What a run says of a window: bytes by broker, where it counts as whole what it lacks is empty."""

    size_bytes: Mapping[int, int]
    missing: str


def judge_life(seed: int, folder: Path) -> tuple[Life, list[str], int]:
    """Lets a life pass and reads it; what does not hold, and how many windows counted as whole."""
    life, wrong, whole = live(seed, folder), [], 0
    for number, reading in enumerate(life.readings):
        for window, told in read_directly(life, reading):
            whole += not told.missing
            wrong += [f"reading {number}: {one}" for one in judge_window(life, window, told)]
    return life, wrong, whole


def run_life(seed: int, folder: Path, spark: SparkSession) -> World:
    """Lets a life pass and runs each reading whole, the second once more after one table was restored from before."""
    life, wrong = live(seed, folder), []
    chance, ending, backup = random.Random(seed), Ending(), folder / "backup"
    hosts = sorted(folder.glob("landing-*/broker-*"))
    hostile = chance.choice(hosts) if hosts and not life.is_odd and chance.random() < 0.5 else None
    if hostile:
        life.faults += [f"{one} by {hostile.relative_to(folder)}" for one in make_hostile(chance, hostile)]
    spared = {int(hostile.name.removeprefix("broker-"))} if hostile else set[int]()
    table = folder / "w" / chance.choice(RESTORED)
    runs = [*life.readings, *life.readings[1:] * (chance.random() < 0.5)]
    for number, reading in enumerate(runs):
        if number == 1 and table.exists():
            shutil.copytree(table, backup)
        if number == 2 and backup.exists():
            life.faults.append(f"{table.name} restored")
            shutil.rmtree(table)
            backup.rename(table)
        strict = STRICT | {"limit_ratio": 1.01 + number / 1000}  # else what is judged already is not judged anew
        with ending:
            config = write_config(folder, reading.sources, list_topics(life), gate=strict, freshness="P3653D")
            run_windows(config, reading.span, spark, reading.as_of_ms)
        wrong += [f"run {number}: {one}" for one in (*ending.judge(), *judge_tables(life, folder, spared))]
    end = "done" if ending.error is None else type(ending.error).__name__
    return World(end, life.faults, [*wrong, *judge_problems(folder), *judge_mails(folder)])


RESTORED = (
    "silver/partition_traffic",
    "silver/record_batches",
    "bronze/brokers",
    "bronze/cluster_state",
    "gold/broker_share",
)


def judge_tables(life: Life, folder: Path, spared: Set[int]) -> Iterator[str]:
    """What is wrong with stored windows whose shares are judged, and with those that say nothing of what they lack.

    Of the brokers that are spared, whose hosts are hostile, any load may be told.
    """
    status = ("window_start", "source", "expected_count", "arrived_count", "missing")
    lacking = {}
    for row in read(folder, "bronze.window_status", *status):
        if row["expected_count"] is not None and row["arrived_count"] < row["expected_count"]:
            lacking[row["window_start"]] = row["missing"]
    verdicts = read(folder, "gold.verdicts", "window_start", "rule", "verdict")
    shares = read(folder, "gold.broker_share", "window_start", "broker_id", "size_bytes", "expected_share")
    for start in sorted({row["window_start"] for row in verdicts}):
        of_rule = {row["verdict"] for row in verdicts if row["window_start"] == start and row["rule"] == "broker_share"}
        window = TimeWindow(milliseconds_of(start), milliseconds_of(start) + HOUR_MS)
        if of_rule <= {"incomplete", "stale"}:
            continue
        if start in lacking:
            yield f"{window} is judged {of_rule}, and lacks {lacking[start]}"
        own = [row for row in shares if row["window_start"] == start]
        sizes = {row["broker_id"]: row["size_bytes"] for row in own}
        yield from judge_window(life, window, Told(sizes, ""), spared)
        joined = [of[0][0] for of in life.kafka.up.values() if of and window.start_ms < of[0][0] < window.end_ms]
        if joined or any(window.start_ms < at_ms for at_ms, _, _ in life.kafka.snapshots):
            continue  # who joins counts as if it had stood, and who stood before the metadata log begins nobody knows
        yield from judge_fair_shares(life.kafka, window, {row["broker_id"]: row["expected_share"] for row in own})
    for start, missing in lacking.items():
        if not missing:
            yield f"{start} lacks something without a name"


def judge_fair_shares(kafka: Kafka, window: TimeWindow, told: Mapping[int, float]) -> Iterator[str]:
    """What is wrong with fair shares: each broker's is the part of the time in which it stood."""
    stood = {broker: kafka.stood(broker, window) for broker in kafka.disks}
    total = sum(stood.values())
    for broker, part in stood.items():
        # of one that was away all the time, what was sent to it with other times may show
        if abs(told.get(broker, 0.0) - part / total) > FAIR_TOLERANCE:
            yield f"{window}: the fair share of broker {broker} is {told.get(broker)}, it stood {part:.2f} of {total:.2f}"


def judge_window(life: Life, window: TimeWindow, told: Told, spared: Set[int] = frozenset()) -> Iterator[str]:
    """What is wrong with what is said of a window that counts as whole."""
    if told.missing:
        return
    kafka = life.kafka
    least, most = kafka.count(window, life.left_out)
    room = TOLERANCE * max(1, most.total())
    for broker in sorted(({*kafka.disks} | {*told.size_bytes}) - spared):
        size = told.size_bytes.get(broker, 0)
        if not least[broker] - room <= size <= most[broker] + room:
            yield f"{window} is whole, and broker {broker} has {size} bytes of {least[broker]} to {most[broker]}"


def read_directly(life: Life, reading: Reading) -> Iterator[tuple[TimeWindow, Told]]:
    """Reads as an ingest does, in this process."""
    cluster = write_config(life.folder, reading.sources, list_topics(life)).clusters["demo"]
    starts = range(reading.span.start_ms, reading.span.end_ms, HOUR_MS)
    windows = tuple(TimeWindow(one, one + HOUR_MS) for one in starts)
    question = ClusterQuestion(name="demo", topics=cluster.topics, windows=windows, as_of_ms=reading.as_of_ms)
    found = read_cluster(cluster, question)
    state = found.history.state_at(reading.as_of_ms)
    compacted = compacted_topics(state, found.tree)
    settings = ScanSettings(as_of_ms=reading.as_of_ms, span=reading.span, window_ms=HOUR_MS, compacted_topics=compacted)
    leaders = LeaderEpochs.of(found.history, found.tree, found.replicas)
    if found.collected is None:
        reads = plan_reads(choose_replicas(found.tree, state.leaders, cluster.topics), reading.span)
        tasks = plan_segment_tasks(reads, settings, leaders, 1)
    else:
        collected_as = found.collected.hosts[0].manifest.collected_as if found.collected.hosts else None
        tasks = plan_collected_tasks(found.collected, settings, collected_as or CollectedAs.of(settings), leaders)
    pieces = [piece for task in tasks for piece in task.run()]
    told = [row for piece in pieces if piece.kind is Kind.SUMMARIES for row in piece.rows.to_pylist()]
    lost = [row for row in told if row["row_kind"] == "shortfall"]
    if found.collected is None:
        found = replace(found, damaged=find_damaged(pa.Table.from_pylist(lost, SUMMARY_SCHEMA)))
    else:
        found = replace(found, collected=found.collected.doubting([row["reason"] for row in lost], ()))
    loads = {window.start_ms: Counter[int]() for window in windows}
    for rows in (piece.rows for piece in pieces if piece.kind is Kind.BATCHES):
        columns = (rows[name].to_pylist() for name in ("window_start", "leader_id", "size_bytes"))
        for start, leader, size in zip(*columns, strict=True):
            loads[int(start.timestamp() * 1000)][leader] += size
    for window, _, brought in iter_availability(cluster, found, windows, None, listed={}):
        unknown = "who led is not known" * (loads[window.start_ms][-1] > 0)
        lacks = brought.expected_count is not None and brought.arrived_count < brought.expected_count
        missing = "; ".join(filter(None, [unknown, (brought.missing or "nothing is named") if lacks else ""]))
        yield window, Told(loads[window.start_ms], missing)
