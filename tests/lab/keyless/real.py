"""Runs a real client through the proxy, and keeps what came of it."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pipeline.calibration.partitioner.baseline import identify_baseline
from tests.lab.clients import PRODUCERS
from tests.lab.facts import read_partition
from tests.lab.fidelity.settings import Delay
from tests.lab.keyless.settings import LEADERS, SECONDS, SLOW, KeylessSetting
from tests.lab.recording import read_clock_ms
from tests.recorded_sessions import read_sessions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.lab.fidelity.bed import Bed

ROOT = Path(__file__).parents[3]
PROGRAMS = ROOT / "tests/integration/clients"
BUILT = ROOT / "build/keyless"
AIOKAFKA, NODE_RDKAFKA = "aiokafka==0.14.0", "node-rdkafka@3.6.1"
RECORDED = ROOT / "tests/golden/keyless_clients.json"


@dataclass(frozen=True, eq=False)
class KeylessRun:
    """A run of a real client.

    Attributes:
        setting: Of the client.
        at_ns: When each record was handed over, from the first.
        counts: Records, batches and bytes in the leader's log, a row for each partition.
        load: Of the machine when it ended: processes that ran or waited, a mean over a minute.
        named: Strategy and confidence that `silver.producer_sessions` has for it; "" where that was not asked.
    """

    setting: KeylessSetting
    at_ns: np.ndarray
    counts: np.ndarray
    load: float
    named: str

    def encode(self) -> dict[str, Any]:
        """For JSON; times in microseconds."""
        gaps = np.diff(self.at_ns // 1000, prepend=0).astype("<i4")
        packed = base64.b64encode(zlib.compress(gaps.tobytes(), 9)).decode()
        return {
            "setting": self.setting,
            "load": self.load,
            "named": self.named,
            "counts": self.counts.tolist(),
            "gaps_us": packed,
        }

    @classmethod
    def decode(cls, data: Mapping[str, Any]) -> KeylessRun:
        """From JSON."""
        gaps = np.frombuffer(zlib.decompress(base64.b64decode(data["gaps_us"])), "<i4")
        at_ns = 1000 * np.cumsum(gaps, dtype=np.int64)
        return cls(KeylessSetting(*data["setting"]), at_ns, np.array(data["counts"]), data["load"], data["named"])


def read_runs() -> list[KeylessRun]:
    """The runs that were kept."""
    return [KeylessRun.decode(each) for each in json.loads(RECORDED.read_text())]


def write_runs(runs: Sequence[KeylessRun]) -> None:
    """Keeps runs, a line each."""
    lines = (json.dumps(run.encode(), separators=(",", ":")) for run in runs)
    RECORDED.write_text("[\n" + ",\n".join(lines) + "\n]\n")


def run_client(bed: Bed, setting: KeylessSetting) -> KeylessRun:
    """Runs a client with its setting on a topic of its own."""
    topic = f"keyless-{read_clock_ms()}"
    bed.create_topic(topic, LEADERS)
    command, environment = _prepare(setting.client)
    bed.plan_delays((Delay(SLOW, setting.delay_ms),), read_clock_ms())
    argument = json.dumps(setting.encode(bed.cluster.bootstrap.partition(",")[0], topic))
    done = subprocess.run(
        [*command, argument], env=os.environ | environment, capture_output=True, text=True, check=False, timeout=300
    )
    if done.returncode:
        raise SystemExit(f"{setting.client} failed:\n{done.stderr[-2000:]}")
    at_ns = np.array(json.loads(done.stdout.splitlines()[-1]), np.int64)
    logs = [(topic, number, leader, bed.log_directory(topic, number, leader)) for number, leader in enumerate(LEADERS)]
    facts = [read_partition(log, 0) for *_, log in logs]
    counts = np.array([(one.record_count, one.batch_count, sum(one.bytes_by_minute.values())) for one in facts])
    stored = int(counts[:, 0].sum())
    if not len(at_ns) == setting.count == stored:
        raise SystemExit(
            f"{setting.client}: {setting.count} records asked for, {len(at_ns)} sent, {stored} in the logs"
        )
    assert at_ns[-1] < 1.2 * SECONDS * 1e9, f"{setting.client} did not keep its rate: {at_ns[-1] / 1e9:.1f} s"
    return KeylessRun(setting, at_ns - at_ns[0], counts, round(os.getloadavg()[0], 1), _name(logs))


def _name(logs: Sequence[tuple[str, int, int, Path]]) -> str:
    """What a replay takes the session's partitioner for, by the same function."""
    [(traffic, batches)] = read_sessions(logs).values()
    found = identify_baseline(traffic, batches, len(LEADERS))
    return f"{found.strategy}, {found.confidence:.1%}" if found.strategy else "unknown"


def _prepare(client: str) -> tuple[list[str], dict[str, str]]:
    """The program that sends by a client, and what its environment needs; what is to be built lands in `build/`."""
    BUILT.mkdir(parents=True, exist_ok=True)
    library = client.partition(",")[0]
    if library in {"franz-go", "Sarama", "kafka-go"}:
        program = BUILT / "send"
        _build(["go", "build", "-o", str(program), "./send"], PROGRAMS / "go")
        return [str(program)], {}
    if library in {"KafkaJS", "node-rdkafka"}:
        folder = BUILT / "node"
        shutil.copytree(PROGRAMS / "node", folder, dirs_exist_ok=True)
        if not (folder / "node_modules" / library.lower()).exists():
            what = ["ci"] if library == "KafkaJS" else ["install", "--no-save", NODE_RDKAFKA]
            _build(["npm", *what, "--no-audit", "--no-fund"], folder)
        return ["node", str(folder / "send.mjs")], {}
    environment = {}
    if library == "aiokafka":
        folder = BUILT / "python"
        if not folder.exists():
            uv = next(iter(ROOT.glob("build/setup/uv-*/bin/uv")))
            _build([str(uv), "pip", "install", "--python", sys.executable, "--target", str(folder), AIOKAFKA], ROOT)
        environment["PYTHONPATH"] = str(folder)
    return [sys.executable, str(PRODUCERS / "keyless.py")], environment


def _build(command: list[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
