"""`make promises ARGS=stages`: advice carried out on a real cluster, and the mails that say what came of it.

Two keys of `orders` and most leaders of `ledger` put broker 1 above its share. A Java producer is started anew with
`partitioner.ignore.keys=true`, then Kafka's tools hand over leaders with the files of the advice: the incident resolves.
Another advice, to split the heaviest key, is left. Then somebody takes the setting back, twice.

The wrong model is planted afterwards: in a copy of the warehouse each promise of that setting is lowered by 15 points of share
before later windows are judged again.

Oracle: what was done, and the brokers' shares by the batch headers in the leaders' logs as the lab reads them.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections import Counter
from email import message_from_bytes
from email.policy import default
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml
from confluent_kafka import Producer
from deltalake import DeltaTable

from pipeline.config_file import load_config
from pipeline.jobs import deliver_alerts, recommend
from pipeline.model.number_text import format_clock, format_percent
from pipeline.model.window import TimeWindow, instant_of, milliseconds_of
from pipeline.partitioners.registry import find_strategy
from pipeline.partitioners.strategy import choose_partition
from pipeline.runs import RunContext, plan_runs
from pipeline.steps import STEPS, take_steps
from pipeline.storage.predicates import format_datafusion_instant
from pipeline.storage.rows import load_rows
from pipeline.tables.health import PROMISES, RECOMMENDATIONS
from tests.integration.live.runs import wait_for_checkpoints, wait_until
from tests.lab.artifacts import BROKER, class_path
from tests.lab.clients import PRODUCERS, QUIET
from tests.lab.cluster import WRITES_ONLY_CHANGES, Cluster, run_tool, start_cluster
from tests.lab.facts import read_partition
from tests.lab.live_traffic import MINUTE_MS, coming_minutes
from tests.lab.process import start_java
from tests.mail_parts import text_of

if TYPE_CHECKING:
    from collections.abc import Sequence

TOPICS = {"orders": "0:1,1:2,2:0,0:2,1:0,2:1", "ledger": "1:0,1:2,2:1"}
RECORDS = 30_000  # of `orders` in a minute; `ledger` gets two thirds
SECTION = "WHAT WAS PROMISED, AND WHAT CAME OF IT"
SMALL = "batch.size=1024"  # so that chance moves a share by no more than a point
SETTING = "partitioner.ignore.keys=true"
CANDIDATE = {"name": "keys-ignored", "partitioner": "java-builtin-ignore-keys", "topics": ["orders"]}
ACTION = "replay:keys-ignored"
WRONG_BY = 0.15  # of all bytes
COUNTED = 0.0006  # shares are shown to a tenth of a point


class Stage(NamedTuple):
    """Some minutes of traffic under one setup."""

    name: str
    start_ms: int
    minutes: int

    @property
    def span(self) -> TimeWindow:
        """All of it."""
        return TimeWindow(self.start_ms, self.start_ms + self.minutes * MINUTE_MS)


class Lab:
    """The cluster, the pipeline's configuration, and what happened in which stage."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        """Writes the configuration."""
        self.cluster, self.folder = cluster, folder
        self.stages: list[Stage] = []
        self.shares: dict[int, float] = {}  # broker 1's part of the bytes by minute, as the lab reads them
        disks = {"kind": "log_directories", "paths": [str(broker.log_directory) for broker in cluster.brokers]}
        gate = {"k": 2, "n": 2, "limit_ratio": 1.25}
        document = {
            "warehouse": "warehouse",
            "outbox": "outbox",
            "window": "PT1M",
            "keys": {"secret": "secret"},
            "candidates": [CANDIDATE],
            "replay": {"seeds": 4},
            "clusters": {"lab": {"sources": [disks], "topics": list(TOPICS), "gate": gate}},
        }
        self.path = folder / "partition-health.yaml"
        self.path.write_text(yaml.safe_dump(document))
        self.config = load_config(self.path)

    def run_stage(self, name: str, minutes: int, *settings: str) -> None:
        """Writes traffic for the next minutes, and takes the steps of `partition-health run` over them."""
        start_ms = max(coming_minutes(), self.stages[-1].span.end_ms if self.stages else 0)
        stage = Stage(name, start_ms, minutes)
        print(f"{format_clock(start_ms)}: {name}", file=sys.stderr, flush=True)
        self.stages.append(stage)
        self._produce(stage, settings)
        self._count_shares(stage)
        (run,) = runs = self.plan(stage)

        def on_error(_run: RunContext, _step: object, error: Exception) -> None:
            raise error

        take_steps(runs, STEPS, on_error)
        deliver_alerts.run(self.config, None, now_ms=run.now_ms)

    def plan(self, stage: Stage) -> tuple[RunContext, ...]:
        """A run over a stage, a minute after it."""
        return plan_runs(load_config(self.path), stage.span, run_id=stage.name, now_ms=stage.span.end_ms + MINUTE_MS)

    def _produce(self, stage: Stage, settings: Sequence[str]) -> None:
        count, span_ms = RECORDS * stage.minutes, stage.span.duration_ms
        arguments = (self.cluster.bootstrap, "orders", stage.start_ms, span_ms, count, heavy_keys(), SMALL, *settings)
        command = [QUIET, "-cp", class_path(BROKER), str(PRODUCERS / "StampedLoad.java"), *map(str, arguments)]
        load = start_java("orders", command, self.folder / f"{stage.start_ms}.log")
        ledger = Producer({"bootstrap.servers": self.cluster.bootstrap, "batch.num.messages": 10})
        for number in range(count * 2 // 3):
            stamp = stage.start_ms + number * span_ms // (count * 2 // 3)
            ledger.produce("ledger", bytes(200), partition=number % 3, timestamp=stamp)
            ledger.poll(0)
        assert ledger.flush(120) == 0
        assert load.wait(240) == 0
        assert load.tail().endswith(f"sent acked={count} failed=0\n"), load.tail()
        wait_for_checkpoints(self.cluster, topics=TOPICS)

    def _count_shares(self, stage: Stage) -> None:
        written: Counter[tuple[int, int]] = Counter()
        text = self.cluster.run_tool("kafka-topics", "--describe")
        for topic, partition, leader in re.findall(r"Topic: (\S+)\s+Partition: (\d+)\s+Leader: (\d+)", text):
            if topic in TOPICS:
                log = self.cluster.brokers[int(leader)].log_directory / f"{topic}-{partition}"
                for minute, size in read_partition(log, stage.start_ms).bytes_by_minute.items():
                    written[minute, int(leader)] += size
        for minute in range(stage.minutes):
            total = sum(size for (of, _), size in written.items() if of == minute)
            self.shares[stage.start_ms + minute * MINUTE_MS] = written[minute, 1] / total

    def hand_over_leaders(self) -> None:
        """Carries out the newest plan with Kafka's tools."""
        plans = [row for row in self.rows(RECOMMENDATIONS) if row["action"] == "move_leaders"]
        plan = max(plans, key=lambda row: row["window_start"])
        for name in ("reassignment", "election"):
            (self.folder / f"{name}.json").write_text(plan[f"{name}_json"])
        server = ("--bootstrap-server", self.cluster.internal_bootstrap)
        files = ("--reassignment-json-file", str(self.folder / "reassignment.json"))
        tools = self.cluster.artifacts
        run_tool("kafka-reassign-partitions", *server, *files, "--execute", artifacts=tools)
        count = len(json.loads(plan["reassignment_json"])["partitions"])
        verify = ("kafka-reassign-partitions", *server, *files, "--verify")
        wait_until(
            lambda: run_tool(*verify, artifacts=tools).count("is completed.") == count, "end of the reassignment"
        )
        elect = ("--election-type", "preferred", "--path-to-json-file", str(self.folder / "election.json"))
        assert "Successfully completed" in run_tool("kafka-leader-election", *server, *elect, artifacts=tools)

    def rows(self, table: Any, warehouse: Path | None = None) -> list[dict[str, Any]]:
        """Rows of a table, by window."""
        rows = load_rows(warehouse or self.config.warehouse, table).to_pylist()
        return sorted(rows, key=lambda row: row["window_start"])

    def mails(self) -> list[tuple[str, str]]:
        """Badge and text of each mail, in their order."""
        found = [message_from_bytes(path.read_bytes(), policy=default) for path in self.config.outbox.glob("*.eml")]
        found.sort(key=lambda mail: mail["X-Partition-Health-Window"])
        return [(mail["Subject"].split("]")[0].strip("["), text_of(mail)) for mail in found]


def heavy_keys() -> str:
    """A key for each partition of `orders` that broker 1 leads."""
    place = find_strategy("java-builtin")
    keys = {choose_partition(place, f"heavy-{number}".encode(), 6): f"heavy-{number}" for number in range(99)}
    return ",".join(keys[partition] for partition in (1, 4))


def plant_wrong_model(lab: Lab) -> list[dict[str, Any]]:
    """Lowers each promise of the setting in a copy, judges the later stages again; returns the advice of the last one."""
    folder = lab.folder / "wrong"
    folder.mkdir()
    shutil.copytree(lab.config.warehouse, folder / "warehouse")
    shutil.copy(lab.path, folder)
    shutil.copy(lab.folder / "secret", folder)
    wrong = Lab(lab.cluster, folder)
    for stage in lab.stages:
        (run,) = wrong.plan(stage)
        recommend.run(run, run.windows)
        names = ("predicted_ratio", "predicted_ratio_low", "predicted_ratio_high")
        where = f"action = '{ACTION}' AND window_start >= {format_datafusion_instant(stage.start_ms)}"
        table = DeltaTable(wrong.config.warehouse / "gold" / "recommendations")
        table.update(updates={name: f"{name} - {3 * WRONG_BY}" for name in names}, predicate=where)
    return wrong.rows(RECOMMENDATIONS)


def describe(lab: Lab, wrong: Sequence[dict[str, Any]]) -> str:
    """The resolved mail's section, promises beside what was done, and the ranks under the wrong model."""
    mails = lab.mails()
    resolved = [text for badge, text in mails if badge == "RESOLVED"]
    lines = [f"mails: {', '.join(badge for badge, _ in mails)}", ""]
    lines += [section_of(resolved[0]) if resolved else "no mail says that the incident is resolved: MISSES", ""]
    lines += [*describe_promises(lab), "", *describe_ranks(lab, wrong)]
    return "\n".join(lines)


def section_of(text: str) -> str:
    """The section of a mail's text that is about promises."""
    after = text.partition(SECTION)[2].splitlines()
    end = next((number for number, line in enumerate(after) if line and line == line.upper()), len(after))
    return "\n".join([SECTION, "", *after[:end]]).replace("\n\n\n", "\n\n").rstrip()


def describe_promises(lab: Lab) -> list[str]:
    """A line per promise and the first window that decided it, its share beside the lab's."""
    lines = [f"{'window':22s}{'action':22s}{'without':>9s}{'promised':>10s}{'it is':>8s}{'by logs':>9s}  outcome"]
    seen = set()
    for row in lab.rows(PROMISES):
        key = (row["promised_at"], row["subject"], row["action"])
        if key in seen or row["subject"] != "broker 1" or row["outcome"] not in {"kept", "broken"}:
            continue
        seen.add(key)
        start_ms = milliseconds_of(row["window_start"])
        shares = [row[name] * row["expected_share"] for name in ("without_ratio", "corrected_ratio", "actual_ratio")]
        found = "" if abs(shares[2] - lab.shares[start_ms]) < COUNTED else "  MISSES"
        texts = [format_percent(share, 1) for share in (*shares, lab.shares[start_ms])]
        cells = f"{texts[0]:>9s}{texts[1]:>10s}{texts[2]:>8s}{texts[3]:>9s}"
        lines.append(f"{format_clock(start_ms):22s}{row['action']:22s}{cells}  {row['outcome']}{found}")
    left = {row["action"] for row in lab.rows(PROMISES)} - {
        row["action"] for row in lab.rows(PROMISES) if row["carried_out_at"] is not None
    }
    return [*lines, f"never carried out: {', '.join(sorted(left))}"]


def describe_ranks(lab: Lab, wrong: Sequence[dict[str, Any]]) -> list[str]:
    """The advice for the last window with this model's promises and the wrong one's."""
    lines = []
    for name, rows in (("as predicted", lab.rows(RECOMMENDATIONS)), ("wrong model planted", wrong)):
        last = instant_of(lab.stages[-1].span.end_ms - MINUTE_MS)
        ranked = sorted((row["rank"], row["action"]) for row in rows if row["window_start"] == last)
        lines.append(f"{name}: " + ", ".join(f"{rank} {action}" for rank, action in ranked))
        reasons = [row["text"] for row in rows if row["window_start"] == last and "It comes last" in row["text"]]
        lines += [reason[reason.index("It comes last") :] for reason in islice(reasons, 1)]
    return lines


def run(folder: Path) -> str:
    """The stages, as text."""
    unasked = {"auto.leader.rebalance.enable": "false", **WRITES_ONLY_CHANGES}  # nothing elects leaders unasked
    with start_cluster(folder / "cluster", 3, controller_settings=unasked, heap_mb=256) as cluster:
        for topic, replicas in TOPICS.items():
            cluster.create_topic(topic, replicas)
        lab = Lab(cluster, folder)
        lab.run_stage("keys choose partitions", 2)
        lab.run_stage(f"{SETTING} is set", 2, SETTING)
        lab.hand_over_leaders()
        lab.run_stage("leaders are handed over", 3, SETTING)
        lab.run_stage("the setting is taken back", 2)
        lab.run_stage(f"{SETTING} is set once more", 2, SETTING)
        lab.run_stage("the setting is taken back once more", 2)
        return describe(lab, plant_wrong_model(lab))
