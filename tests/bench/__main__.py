"""`make bench`: every benchmark, one after another."""

from __future__ import annotations

from tests.bench import exposition_bench, scan_bench, simulator_bench

if __name__ == "__main__":
    scan_bench.main()
    exposition_bench.main()
    simulator_bench.main()
