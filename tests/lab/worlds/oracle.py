"""What must hold of a world, whatever its hostile host and server do.

1. The run ends, by itself or by an error that is raised on purpose: one line, or what a gate found.
2. Records of the other hosts are as in the sound world, or no verdict can rest on the windows: they are incomplete.
3. Each problem is one row of quarantine, without hidden characters.
4. No share is judged in a window that is incomplete.
5. Each message that is queued is delivered once; a warehouse that could not be written at first holds all the same.
"""

import os
import random
import shutil
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import yaml
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from pipeline.config.pipeline_config import PipelineConfig
from pipeline.config_file import load_config
from pipeline.errors import DataGateError, PipelineError
from pipeline.jobs import deliver_alerts
from pipeline.model.cluster import Timeline
from pipeline.model.window import TimeWindow
from pipeline.sources.collected.stored_folder import StoredFolder
from pipeline.steps import ingest_windows, judge_windows
from pipeline.storage.session import SparkErrors
from tests.engines import on_sail
from tests.lab.faults.disks import mounted, run_tool
from tests.lab.worlds.draw import Surroundings, draw_answer, draw_surroundings, make_hostile
from tests.spark.capture_runs import plan, stored
from tests.unit.sources.collected.disks import CONFIG, FIRST_MS, HOUR_MS, NOW_MS, SPAN, tell
from tests.unit.sources.collected.forgery import make_three, own_partitions
from tests.unit.sources.http_servers import answering

HOSTILE = "broker-3"
OTHERS = (0, 1)  # partitions that other brokers lead
AS_USUAL = Surroundings(clock_ms=0, zone="UTC", shown_in="UTC", is_read_only=False)
STRICT = {"k": 1, "n": 1, "limit_ratio": 1.01, "resolve_ratio": 1.005, "floor_bytes_per_s": 0, "chance_level": 0.5}
_ROOM = "64m"


@dataclass(frozen=True)
class World:
    """How a world ended: `done` or the error's class, what was done to it, and what does not hold."""

    end: str
    faults: list[str]
    wrong: list[str]


class Ending:
    """Keeps the error that ends a block, whatever it is: an oracle looks for all of them."""

    error: BaseException | None = None

    def __enter__(self) -> None:
        """Begins."""

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> bool:
        self.error = error
        return not isinstance(error, KeyboardInterrupt)

    def judge(self) -> list[str]:
        """What is wrong with an error."""
        if self.error is None:
            return []
        said = str(self.error)
        if not isinstance(self.error, PipelineError):
            return [f"{type(self.error).__name__}: {said[:300]!r}"]
        lines = said.splitlines() if isinstance(self.error, DataGateError) else [said]
        hidden = not all(line.isprintable() for line in lines)
        return [f"an error of several lines, or with hidden characters: {said!r}"] if hidden else []


class SoundWorld:
    """Three honest hosts, collected and run once on Sail; hostile worlds are copies of it, run on an engine."""

    def __init__(self, folder: Path, *, may_mount: bool = False) -> None:
        self._folder, self._may_mount = folder, may_mount
        (folder / "partition-health.yaml").write_text(CONFIG)
        (folder / "secret").write_text("a7" * 32)
        (folder / "secret").chmod(0o600)
        landing = StoredFolder(str(folder / "landing"))
        make_three(load_config(folder / "partition-health.yaml"), landing, folder)
        compacted = {"orders": Timeline((FIRST_MS - HOUR_MS,), ({"cleanup.policy": "compact"},))}
        for one in (1, 2, 3):
            tell(landing, f"broker-{one}", *own_partitions(), topic_configs=compacted)
        with on_sail() as spark:
            run_in(folder, spark, AS_USUAL)
        self._traffic = read_traffic(folder)
        assert set(self._traffic) == {0, 1, 2}
        assert not is_incomplete(folder)
        assert judge_shares(folder)

    def run_hostile(self, seed: int, spark: SparkSession) -> World:
        """Makes the world of a seed and runs it."""
        chance = random.Random(seed)
        folder = self._folder / f"world-{seed}"
        folder.mkdir()
        for name in ("landing", "secret", "partition-health.yaml"):
            source = self._folder / name
            (shutil.copytree if source.is_dir() else shutil.copy2)(source, folder / name)
        faults = make_hostile(chance, folder / "landing" / HOSTILE)
        answer, is_asked = draw_answer(chance), chance.random() < 0.5
        around = draw_surroundings(chance)
        with answering(answer) as url:
            run = partial(run_in, folder, spark, around, url=url if is_asked else None)
            refused = self._run_read_only(run, folder) if around.is_read_only and self._may_mount else []
            ending = Ending()
            with ending:
                run()
        wrong = [*refused, *ending.judge(), *self._judge(folder)]
        shutil.rmtree(folder)
        end = "done" if ending.error is None else type(ending.error).__name__
        return World(end, [*faults, str(around)], wrong)

    def _run_read_only(self, run: partial[None], folder: Path) -> list[str]:
        """A run that cannot write the warehouse: what is wrong with its end."""
        ending = Ending()
        with mounted(folder / "w", _ROOM):
            run_tool("mount", "-o", "remount,ro", folder / "w")
            with ending:
                run()
        return ending.judge() if ending.error is not None else ["a read-only warehouse ended no run"]

    def _judge(self, folder: Path) -> list[str]:
        wrong = []
        traffic = read_traffic(folder)
        incomplete = is_incomplete(folder)
        differ = [partition for partition in OTHERS if traffic.get(partition) != self._traffic[partition]]
        if differ and has_rows(folder, "silver.partition_traffic") and not incomplete:
            wrong.append(f"other hosts' partitions {differ} differ, and the windows are complete")
        wrong += judge_problems(folder)
        judged = judge_shares(folder)
        if incomplete and judged:
            wrong.append(f"shares of incomplete windows are judged: {sorted(judged)}")
        return wrong + judge_mails(folder)


def judge_problems(folder: Path) -> list[str]:
    """What is wrong with quarantine: a problem that is named twice, or hides something."""
    rows = read(folder, "bronze.quarantine", "path", "position", "reason")
    is_plain = all((row["path"] + row["reason"]).isprintable() for row in rows)
    counts = Counter((row["path"], row["position"], row["reason"]) for row in rows)
    wrong = [f"named {count} times: {key}" for key, count in counts.items() if count > 1]
    return wrong + ["hidden characters in quarantine"] * (not is_plain)


def judge_mails(folder: Path) -> list[str]:
    """What is wrong with the messages of a world: one that is not a file, or several files of one."""
    queued = read(folder, "gold.alert_outbox", "message_id", "delivered_at", "attempt_count")
    files = len([*(folder / "o").glob("*.eml")])
    sent = [row for row in queued if row["delivered_at"] is not None]
    wrong = [f"{row['message_id']} was sent {row['attempt_count']} times" for row in sent if row["attempt_count"] > 1]
    return wrong + ([f"{len(sent)} messages are delivered, {files} files are there"] if len(sent) != files else [])


@contextmanager
def _in_zone(zone: str):
    """The process in another time zone, within a block."""
    before = os.environ.get("TZ")
    os.environ["TZ"] = zone
    time.tzset()
    try:
        yield
    finally:
        os.environ.pop("TZ")
        if before is not None:
            os.environ["TZ"] = before
        time.tzset()


def run_in(folder: Path, spark: SparkSession, around: Surroundings, url: str | None = None) -> None:
    """Ingests and judges the windows of a world's folder in this process, and delivers what was queued, twice."""
    document = yaml.safe_load(CONFIG)
    demo = document["clusters"]["demo"]
    demo |= {"gate": STRICT, "time_zone": around.shown_in, "freshness": "P3653D"}
    if url is not None:
        demo["sources"].append({"kind": "prometheus", "url": url, "access": {"timeout_s": 2, "attempts": 1}})
    document["mail"] = {"to": ["kafka-platform@example.org"]}
    (folder / "partition-health.yaml").write_text(yaml.safe_dump(document))
    config = load_config(folder / "partition-health.yaml")
    with _in_zone(around.zone):
        run_windows(config, SPAN, spark, NOW_MS + around.clock_ms)


def run_windows(config: PipelineConfig, span: TimeWindow, spark: SparkSession, now_ms: int) -> None:
    """Ingests, judges, and delivers twice."""
    context = plan(config, span, now_ms=now_ms)
    with SparkErrors():
        ingest_windows(spark, context)
        judge_windows(spark, context)
    for _ in range(2):
        deliver_alerts.run(config, None, now_ms=context.now_ms).check()


def read(folder: Path, name: str, *columns: str) -> list[dict[str, object]]:
    """Rows of a table; none where a run ended before it was made."""
    return stored(folder / "w", name, *columns) if has_rows(folder, name) else []


def has_rows(folder: Path, name: str) -> bool:
    """Whether a table is there."""
    return DeltaTable.is_deltatable(str(folder / "w" / name.replace(".", "/")))


def judge_shares(folder: Path) -> set[object]:
    """Verdicts on brokers' shares that do not say that data is missing."""
    rows = read(folder, "gold.verdicts", "rule", "verdict")
    return {row["verdict"] for row in rows if row["rule"] == "broker_share"} - {"incomplete", "stale"}


def read_traffic(folder: Path) -> dict[int, Counter]:
    """Rows of `silver.partition_traffic` by partition, without what a run has of its own."""
    found: dict[int, Counter] = {}
    for row in read(folder, "silver.partition_traffic"):
        kept = tuple((name, str(value)) for name, value in sorted(row.items()) if name != "run_id")
        found.setdefault(row["partition"], Counter())[kept] += 1
    return found


def is_incomplete(folder: Path) -> bool:
    """Whether every window lacks something of the records' source, so that no verdict rests on it."""
    rows = read(folder, "bronze.window_status", "source", "expected_count", "arrived_count")
    counts = [(row["arrived_count"], row["expected_count"]) for row in rows if row["source"] == "collected"]
    return all(arrived < expected for arrived, expected in counts)
