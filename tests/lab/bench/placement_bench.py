"""Keys placed per second by our murmur2 kernels beside the real Java client, one core each, one after the other."""

import subprocess
from pathlib import Path

import numpy as np
import pyarrow as pa

from pipeline.partitioners.assignment import assign_partitions
from pipeline.partitioners.hash_kernels import MURMUR2, hash_column
from pipeline.partitioners.registry import find_strategy
from tests.lab.artifacts import class_path, client_artifacts, java_program
from tests.lab.bench.figures import best_of, make_parser, print_figures

LOOP = Path(__file__).with_name("Murmur2Loop.java")
KEY_COUNT = 100_000
ROUNDS = 300


def time_java(version, length):
    """Keys per second of `BuiltInPartitioner.partitionForKey`, best of many rounds over the same keys."""
    jars = class_path(client_artifacts(version))
    command = [java_program(), "-Xmx256m", "-cp", jars, LOOP, str(length), str(KEY_COUNT), str(ROUNDS)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[0])


def time_ours(length):
    """The same for an Arrow array of keys, the hashes alone, and from keys to partitions."""
    data = np.random.default_rng(7).integers(0, 256, KEY_COUNT * length, np.uint8)
    offsets = np.arange(KEY_COUNT + 1, dtype=np.int32) * length
    keys = pa.Array.from_buffers(pa.binary(), KEY_COUNT, [None, pa.py_buffer(offsets), pa.py_buffer(data)])
    strategy = find_strategy("java-builtin")
    is_key, hashes = np.ones(KEY_COUNT, np.bool_), np.empty(KEY_COUNT, np.uint32)

    def run_kernel():
        hash_column(MURMUR2, data, offsets.astype(np.int64), is_key, hashes)

    times = (best_of(ROUNDS, run_kernel), best_of(ROUNDS, lambda: assign_partitions(strategy, keys, 12)))
    return tuple(KEY_COUNT / seconds for seconds in times)


def measure():
    """Yields (name, figures)."""
    for length in (16, 36):
        kernels, whole = time_ours(length)
        for version in ("3.9.1", "4.1.1"):
            java = time_java(version, length)
            yield (
                f"place {length} B, {version}",
                {
                    "java_million_keys_per_s": java / 1e6,
                    "million_keys_per_s": kernels / 1e6,
                    "ratio": kernels / java,
                    "whole_million_keys_per_s": whole / 1e6,
                    "whole_ratio": whole / java,
                },
            )


def main():
    print_figures(measure(), as_json=make_parser(__doc__).parse_args().json)


if __name__ == "__main__":
    main()
