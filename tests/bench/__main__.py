"""`make bench`: every benchmark, one after another."""

from __future__ import annotations

from tests.bench import (
    arrivals_bench,
    calibration_bench,
    exposition_bench,
    false_alarm_bench,
    health_bench,
    keyed_ingest_bench,
    keyed_replay_bench,
    live_bench,
    placement_bench,
    replay_bench,
    replay_command_bench,
    scan_bench,
    simulator_bench,
)

if __name__ == "__main__":
    scan_bench.main()
    placement_bench.main()
    keyed_ingest_bench.main()
    arrivals_bench.main()
    keyed_replay_bench.main()
    replay_bench.main()
    replay_command_bench.main()
    exposition_bench.main()
    live_bench.main()
    simulator_bench.main()
    calibration_bench.main()
    health_bench.main()
    false_alarm_bench.main()
