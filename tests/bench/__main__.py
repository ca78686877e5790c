"""`make bench`: every benchmark, one after another; those of other programs' speed first."""

from __future__ import annotations

from importlib import import_module

BENCHES = (
    *(
        "scan",
        "placement",
        "keyed_ingest",
        "arrivals",
        "keyed_replay",
        "replay",
        "replay_command",
        "exposition",
        "live",
    ),
    *("simulator", "calibration", "health", "report", "false_alarm", "costs"),
)

if __name__ == "__main__":
    for name in BENCHES:
        import_module(f"tests.bench.{name}_bench").main()
