"""The command `replay` on a gibibyte of segments, from log directories to comparison: `python -m tests.lab.bench.replay_command_bench`.

The log is synthetic, as a simulated Java producer 3.2.3 with the sticky partitioner writes it at 1,500 records a second of
300 bytes, broker 1 being slow. Defaults throughout: every default candidate, ten seeds. All of it is counted: starting
Python and the JVM, reading the records twice, finding out what is in use, and simulating. The simulator's own speed is in
`replay_bench`.
"""

import json
import subprocess
import sys
import time

import numpy as np

from pipeline.model.log import Record
from pipeline.simulator.engine.simulate import simulate
from tests.batches import make_batch
from tests.lab.artifacts import cache_directory
from tests.lab.bench.figures import make_parser, print_figures
from tests.lab.bench.processes import PeakMemory
from tests.lab.bench.scan_bench import write_index
from tests.simulated_sessions import EPOCH_MS, make_scenario

SECONDS, VALUE = 2_250, b"v" * 300
LEADERS, DELAYS_MS = (0, 1, 2) * 4, {1: 20}
PRODUCER_ID = 1
NS_PER_MS = 1_000_000
SEEDS = 10
"""The command's default."""


def make_log(folder):
    """Log directories of three brokers, a topic of twelve partitions, unless they are there."""
    done = folder / "done"
    if done.exists():
        return
    scenario = make_scenario(
        "java-sticky-2.4",
        version="3.2.3",
        seconds=SECONDS,
        leaders=LEADERS,
        delays_ms=DELAYS_MS,
        value_bytes=len(VALUE),
    )
    trace = simulate(scenario, 1, traces=True).record_trace
    trace = trace.take(np.lexsort((trace["batch_number"], trace["partition"])))
    partition, batch, at_ms = (trace[name].to_numpy() for name in ("partition", "batch_number", "sent_at_ns"))
    at_ms = EPOCH_MS + at_ms // NS_PER_MS
    starts = np.flatnonzero((np.diff(partition, prepend=-1) != 0) | (np.diff(batch, prepend=-1) != 0))
    for number, leader in enumerate(LEADERS):
        directory = folder / f"brokers/{leader}/orders-{number}"
        directory.mkdir(parents=True, exist_ok=True)
        (directory.parent / "meta.properties").write_text(f"version=1\nnode.id={leader}\n")
        own = np.flatnonzero(partition == number)
        write_partition(directory, at_ms[own], np.append(starts[partition[starts] == number], own[-1] + 1) - own[0])
    done.touch()


def write_partition(directory, at_ms, bounds):
    """One segment; `bounds` are where its batches begin among the records, and where the last one ends."""
    path = directory / f"{0:020d}.log"
    with path.open("wb", buffering=8 << 20) as file:
        for start, end in zip(bounds.tolist(), bounds[1:].tolist(), strict=False):
            records = [
                Record(offset=start + n, timestamp_ms=sent_ms, key=None, value=VALUE, headers=())
                for n, sent_ms in enumerate(at_ms[start:end].tolist())
            ]
            file.write(make_batch(records, producer_id=PRODUCER_ID, producer_epoch=0, base_sequence=start))
    write_index(path)


def measure(folder):
    logs = sorted(folder.glob("brokers/*/*/*.log"))
    size_bytes = sum(len(log.read_bytes()) for log in logs)  # in the page cache from here on
    command = [sys.executable, "-m", "pipeline", "replay", *map(str, sorted(folder.glob("brokers/*"))), "--json"]
    with PeakMemory() as memory:
        started = time.perf_counter()
        told = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout
        seconds = time.perf_counter() - started
    results = json.loads(told)["results"]
    assert max(one["seeds"] for one in results) == SEEDS
    assert any(one["is_baseline"] for one in results)
    return {
        "gibibytes": size_bytes / 2**30,
        "candidates": len(results),
        "seeds": SEEDS,
        "seconds": seconds,
        "seconds_per_gibibyte": seconds / size_bytes * 2**30,
        "peak_memory_mib": memory.most >> 20,
    }


def main():
    arguments = make_parser(__doc__).parse_args()
    folder = cache_directory().parent / "bench/replay-command"
    make_log(folder)
    print_figures([("replay of a synthetic log", measure(folder))], as_json=arguments.json)


if __name__ == "__main__":
    main()
