"""`make bench`: every benchmark, one after another, or those named: `make bench ARGS="false_alarm --series 100"`."""

import sys
from importlib import import_module
from itertools import takewhile

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
    *(
        "simulator",
        "calibration",
        "health",
        "report",
        "false_alarm",
        "silence",
        "costs",
        "tables",
        "plans",
        "forecast",
        "collected",
        "clusters",
        "storage",
        "grid",
        "gates",
        "telemetry",
        "outcome",
    ),
)


def main():
    named = list(takewhile(lambda argument: not argument.startswith("-"), sys.argv[1:]))
    unknown = sorted(set(named) - set(BENCHES))
    if unknown:
        raise SystemExit(f"no benchmark {', '.join(unknown)}; there are {', '.join(BENCHES)}")
    del sys.argv[1 : 1 + len(named)]
    for name in named or BENCHES:
        import_module(f"tests.lab.bench.{name}_bench").main()


if __name__ == "__main__":
    main()
