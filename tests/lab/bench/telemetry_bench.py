"""By how much client telemetry (KIP-714) raises trust: recordings replayed with it and without any metrics of clients.

`make bench ARGS="telemetry --write docs/evidence/zones.md"` writes the table.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from deltalake import DeltaTable

from pipeline.config.sections import Zones
from tests.lab.archive import unpack
from tests.lab.bench.figures import write_between
from tests.lab.rack_aware.judged import judge_capture

RECORDED = Path(__file__).parents[2] / "data/zone_advice"
NAMES = ("plain", "rack-aware")
TOPICS = ("orders", "payments")
QUESTIONS = ("trust", "batches_trust", "latency_trust")


def judge(name: str, folder: Path, *, is_told: bool) -> tuple[set[str], list[int]]:
    """Version ranges of the sessions of a recording, and in how many topics the answer to each question is trusted."""
    capture = unpack(RECORDED / f"{name}.tar.zst", folder / "capture")
    (tables := folder / "tables").mkdir()
    metrics = ["telemetry"] if is_told else []
    run = judge_capture(capture, tables, TOPICS, Zones(), metrics=metrics, seeds=8)
    last = max(window.start_ms for window in run.windows)
    sessions, tests = (
        [
            row
            for row in DeltaTable(Path(run.warehouse) / table).to_pyarrow_table().to_pylist()
            if row["window_start"].timestamp() * 1000 == last and row["topic"] in TOPICS
        ]
        for table in ("silver/producer_sessions", "gold/back_tests")
    )
    trusted = [sum(row[question] == "trusted" for row in tests) for question in QUESTIONS]
    return {row["version_range"] for row in sessions}, trusted


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path, metavar="FILE", help="paper to write the table into")
    arguments = parser.parse_args()
    lines = [
        "| recording | metrics of clients | sessions are | shares trusted | batches trusted | latency trusted |",
        "|---|---|---|---|---|---|",
    ]
    for name in NAMES:
        for is_told in (False, True):
            with tempfile.TemporaryDirectory() as folder:
                ranges, trusted = judge(name, Path(folder), is_told=is_told)
            counts = " | ".join(f"{count} of {len(TOPICS)} topics" for count in trusted)
            told = "KIP-714" if is_told else "none"
            lines.append(f"| {name} | {told} | {'; '.join(sorted(ranges))} | {counts} |")
    print("\n".join(lines))
    if arguments.write:
        write_between(arguments.write, "telemetry", "\n".join(lines))


if __name__ == "__main__":
    main()
