"""What a further cluster costs a run: one window of a topic of the committed capture, as 1, 4 and 20 clusters.

    make bench ARGS="clusters --clusters 20"

One cluster of the last row has damaged logs, one a broker that does not answer. Writes the table of `docs/evidence/scale.md`.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

from pipeline.model.window import TimeWindow
from tests.lab.bench.processes import CpuTime, PeakMemory
from tests.lab.demo.recording import CLUSTER, prepare_demo
from tests.lab.process import free_ports
from tests.paper_rows import read_rows, with_rows

PAPER = Path(__file__).parents[3] / "docs/evidence/scale.md"
HEAD = "| clusters | s | CPU-s | CPU-s per further one | memory, MiB | came to a verdict |\n|---|---|---|---|---|---|\n"
TOPIC, MINUTE_MS = "audit", 60_000
DONE = {0, 4}


def write_config(folder: Path, base: dict, logs: Path, count: int, *, with_broken: bool) -> Path:
    """Clusters of one recording; of the first two, where asked for, one is damaged and one away."""
    well = base["clusters"][CLUSTER] | {
        "topics": [TOPIC],
        "sources": [{"kind": "log_directories", "paths": [str(logs)]}],
    }
    clusters = {f"cluster-{number:02}": well for number in range(count)}
    if with_broken:
        log = folder / f"damaged/0/{TOPIC}-0/00000000000000000000.log"
        log.parent.mkdir(parents=True)
        log.write_bytes(b"\xff" * 65_536)
        (port,) = free_ports(1)
        clusters["cluster-00"] = well | {"sources": [{"kind": "log_directories", "paths": [str(folder / "damaged")]}]}
        away = {"kind": "live_cluster", "bootstrap_servers": f"127.0.0.1:{port}"}
        clusters["cluster-01"] = {"sources": [away]}
    folder.mkdir(exist_ok=True)
    document = base | {"clusters": clusters, "candidates": [{"name": "builtin", "partitioner": "java-builtin"}]}
    file = folder / "partition-health.yaml"
    file.write_text(yaml.safe_dump(document, sort_keys=False))
    return file


def measure(config: Path, window: TimeWindow) -> tuple[float, float, float, int]:
    """Seconds, CPU-s and peak MiB of `run`, and how many clusters came to a verdict."""
    command = [sys.executable, "-m", "pipeline", "run", "--config", str(config), "--window", str(window)]
    started_s = time.monotonic()
    with CpuTime() as cpu, PeakMemory() as memory:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    seconds = time.monotonic() - started_s
    verdicts = done.stdout.count("healthy, no broker fails")
    assert verdicts, done.stderr[-2000:]
    return seconds, cpu.cpu_s, memory.most / 2**20, verdicts


def main() -> None:
    """Prints the rows and writes them into the paper."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clusters", type=int, default=20, help="of the last two rows")
    parser.add_argument("--broken", action="store_true", help="the last row alone")
    options = parser.parse_args()
    most, rows, one_cpu_s = options.clusters, {}, 0.0
    with tempfile.TemporaryDirectory(prefix="clusters-") as name:
        folder = Path(name)
        demo = prepare_demo(folder / "base")
        base, logs = yaml.safe_load(demo.config.read_text()), folder / "base/capture/brokers"
        start_ms = demo.span.start_ms + 5 * MINUTE_MS
        window = TimeWindow(start_ms, start_ms + MINUTE_MS)
        warm_up = write_config(folder / "warm", base, logs, 1, with_broken=False)
        measure(warm_up, window)
        well = () if options.broken else ((1, False), (4, False), (most, False))
        for count, with_broken in (*well, (most, True)):
            title = f"{count}, two of them broken" if with_broken else str(count)
            config = write_config(folder / title.replace(" ", "-"), base, logs, count, with_broken=with_broken)
            seconds, cpu_s, mib, verdicts = measure(config, window)
            one_cpu_s = cpu_s if count == 1 else one_cpu_s
            further = f"{(cpu_s - one_cpu_s) / (count - 1):.1f}" if one_cpu_s and count > 1 else ""
            rows[title] = f"| {title} | {seconds:.0f} | {cpu_s:.0f} | {further} | {mib:.0f} | {verdicts} |\n"
            sys.stdout.write(rows[title])
            sys.stdout.flush()
    text = PAPER.read_text()
    known = read_rows(text, HEAD) | rows
    PAPER.write_text(with_rows(text, HEAD, known, known))
    sys.stdout.write(f"load of {os.cpu_count()} cores: {os.getloadavg()[0]:.1f}\n")


if __name__ == "__main__":
    main()
