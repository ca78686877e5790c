"""Recording: the bed is started and warmed, timed, and every setting run on it once."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pipeline.codec.log.segment import scan_headers
from tests.lab.artifacts import BROKER_VERSION, java_program
from tests.lab.clients import PERF_TOOL, PRODUCERS
from tests.lab.fidelity.bed import Bed, CpuMeter, start_bed, start_client
from tests.lab.fidelity.profile import AGAIN, BURSTS
from tests.lab.fidelity.recordings import Recordings, read_recordings, write_recordings
from tests.lab.fidelity.run import make_text, run_setting
from tests.lab.fidelity.settings import MIDDLE, NEW, OLD
from tests.lab.fidelity.timings import TimedRun, summarise
from tests.lab.process import LabError
from tests.lab.recording import read_clock_ms, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from tests.lab.fidelity.run import RealRun
    from tests.lab.fidelity.settings import Setting

WARM_UP_RECORDS = 100_000
TRIES = 2
TIMED_S, TIMED_SKIP_S = 24, 12
TIMED_BYTES, TIMED_DELAY_MS = 512, 20.0
TIMED_AGAIN_EVERY = 4  # settings: how the bed's state changes meanwhile


@dataclass(frozen=True)
class Timing:
    """A load whose client is timed.

    Attributes:
        version: Of the client.
        rate_per_s: Its records.
        burst_records: So many at once; 0 is the perf test's throttle.
        codec: With one, values are text that compresses.
    """

    version: str
    rate_per_s: int = 2048
    burst_records: int = 0
    codec: str = "none"


TIMINGS = {
    MIDDLE: Timing(MIDDLE),
    OLD: Timing(OLD),
    NEW: Timing(NEW),
    BURSTS: Timing(MIDDLE, 1500, burst_records=150),
    f"{NEW} lz4": Timing(NEW, 3000, codec="lz4"),
}
"""What is timed before a recording, by `profile.name_timing`."""


def record(settings: Sequence[Setting], file: Path, *, with_timings: bool = True) -> Recordings:
    """Runs the settings and writes the file after each, so that an end in between keeps what there is.

    A setting whose client failed again and again is left out and said so.

    Args:
        settings: What to run.
        file: Runs of other settings in it are kept.
        with_timings: Measure the bed's speed; else keep what the file has.

    Raises:
        LabError: The bed could not be started, warmed or timed.
    """
    known = read_recordings(file) if file.exists() else Recordings({}, {}, ())
    root = Path(tempfile.mkdtemp(prefix="partition-health-fidelity-"))
    try:
        with start_bed(root) as bed:
            say("warming the brokers")
            warm_up(bed)
            timings = known.timings
            if with_timings or not timings:
                timings = {name: time_client(bed, timing, root) for name, timing in TIMINGS.items()}
            recorded = Recordings(describe_bed(), timings, known.runs)
            for number, setting in enumerate(settings, start=1):
                run = _try_setting(bed, setting, root)
                if run is None:
                    continue
                say(f"{setting.name}: {'quiet' if run.is_quiet else 'not quiet'}, {run.foreign_cpu_s} s, {run.tools}")
                others = [each for each in recorded.runs if each[0].name != setting.name]
                recorded = replace(recorded, runs=(*others, (setting, run)))
                if number % TIMED_AGAIN_EVERY == 0:
                    again = {f"{MIDDLE}{AGAIN} {len(recorded.timings)}": time_client(bed, TIMINGS[MIDDLE], root)}
                    recorded = replace(recorded, timings={**recorded.timings, **again})
                write_recordings(recorded, file)
            return recorded
    finally:
        shutil.rmtree(root)


def _try_setting(bed: Bed, setting: Setting, root: Path) -> RealRun | None:
    """Runs it, again if a client failed, such as one that was not warm in time on a busy machine."""
    for attempt in range(TRIES):
        try:
            return run_setting(bed, setting, root / f"{setting.name}-{attempt}")
        except LabError as failure:
            say(f"{setting.name}, attempt {attempt + 1} of {TRIES}: {failure}")
    return None


def describe_bed() -> dict[str, Any]:
    """Machine, versions and date."""
    java = subprocess.run([str(java_program()), "-version"], capture_output=True, text=True, check=True)
    cpus = [line.partition(": ")[2] for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line]
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "brokers": BROKER_VERSION,
        "clients": [OLD, MIDDLE, NEW],
        "java": java.stderr.splitlines()[0],
        "cores": os.cpu_count(),
        "processor": cpus[0] if cpus else "",
    }


def warm_up(bed: Bed) -> None:
    """Many small requests, so that the brokers' and the proxy's code is compiled before anything is measured."""
    bed.create_topic("warm-up", (0, 1, 2))
    for number in range(2):
        arguments = [
            PERF_TOOL, "--topic", "warm-up", "--num-records", str(WARM_UP_RECORDS // 2), "--record-size", "512",
            "--throughput", "-1", "--producer-props", f"bootstrap.servers={bed.cluster.bootstrap}", "batch.size=1",
            "linger.ms=0",
        ]  # fmt: skip
        client = start_client("warm-up", NEW, arguments, bed.root / f"warm-up-{number}.log")
        try:
            if client.wait(timeout_s=150):
                raise LabError(f"the warm-up failed:\n{client.tail()}")
        finally:
            client.stop()


def time_client(bed: Bed, timing: Timing, root: Path) -> dict[str, Any]:
    """What a client costs on this bed, without linger, one of three brokers slow."""
    topic = f"timed-{timing.version}-{read_clock_ms()}"
    folder = root / topic
    folder.mkdir()
    bed.create_topic(topic, (0, 1, 2))
    now_ms = read_clock_ms()
    bed.proxy.slow(0, now_ms, now_ms + 600_000, TIMED_DELAY_MS)
    config = folder / "client.properties"
    config.write_text(f"bootstrap.servers={bed.cluster.bootstrap}\nlinger.ms=0\ncompression.type={timing.codec}\n")
    payload = folder / "payload.txt"
    payload.write_text("x" * TIMED_BYTES if timing.codec == "none" else make_text(TIMED_BYTES))
    records, clock, requests = (folder / name for name in ("records.bin", "clock.bin", "requests.tsv"))
    bed.proxy.note_requests()
    meter, started_ms = CpuMeter(bed), read_clock_ms()
    arguments = [
        str(PRODUCERS / "TimedLoad.java"), str(config), topic, str(timing.rate_per_s * TIMED_S),
        str(timing.rate_per_s), str(payload), str(records), str(clock), str(timing.burst_records),
    ]  # fmt: skip
    client = start_client(topic, timing.version, arguments, folder / "output.log")
    try:
        if client.wait(timeout_s=90):
            raise LabError(f"{timing} failed:\n{client.tail()}")
    finally:
        client.stop()
    load = {"foreign_cpu_s": round(meter.foreign_cpu_s(), 2), "wall_s": (read_clock_ms() - started_ms) / 1000}
    bed.proxy.write_requests(requests)
    sys.stderr.write(f"timed {timing}: {load}\n")
    bases = {partition: _read_bases(bed.log_directory(topic, partition, partition)) for partition in range(3)}
    return load | summarise(TimedRun.read(records, clock, requests, bases, TIMED_SKIP_S), {0: [TIMED_DELAY_MS]})


def _read_bases(directory: Path) -> NDArray[np.int64]:
    """First offsets of the batches in a partition's log."""
    return np.concatenate([scan_headers(log).rows["base_offset"] for log in sorted(directory.glob("*.log"))])
