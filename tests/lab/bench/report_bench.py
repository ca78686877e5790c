"""The report of a large cluster: how long it takes to make and to open, and how large it is."""

import contextlib
import io
import tempfile
import time
from pathlib import Path

from pipeline.cli import main as run_command
from pipeline.model.window import format_instant
from tests.lab.browser import find_chromium, running_chromium
from tests.report_tables import T0_MS, write_config, write_warehouse

TOPICS, PARTITIONS_PER_TOPIC, BROKERS, WINDOWS = 200, 25, 30, 720
PERIOD = f"{format_instant(T0_MS)}/PT{WINDOWS}H"  # not up to now: the made-up windows may lie ahead of the clock
MOST_S, MOST_OPEN_S, MOST_MB = 30, 2, 5


def open_seconds(path):
    """From navigation to the load event, all details closed, as a person finds it."""
    with running_chromium() as browser:
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        started_s = time.perf_counter()
        page.goto(path.as_uri(), wait_until="load")
        page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        return time.perf_counter() - started_s


def main():
    print(
        f"report of {TOPICS} topics, {TOPICS * PARTITIONS_PER_TOPIC:,} partitions, {BROKERS} brokers, {WINDOWS} windows "
        f"({TOPICS * PARTITIONS_PER_TOPIC * WINDOWS:,} rows of gold.partition_health)"
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        topics = [f"topic-{place:03}" for place in range(TOPICS)]
        write_warehouse(
            folder / "warehouse", topics=topics, partitions=PARTITIONS_PER_TOPIC, brokers=BROKERS, windows=WINDOWS
        )
        write_config(folder)
        path = folder / "report.html"
        command = [
            "report",
            "--config",
            str(folder / "partition-health.yaml"),
            "--window",
            PERIOD,
            "--output",
            str(path),
        ]
        started_s = time.perf_counter()
        with contextlib.redirect_stdout(io.StringIO()):
            run_command(command)
        made_s = time.perf_counter() - started_s
        size_mb = path.stat().st_size / 1e6
        print(f"  made in {made_s:.1f} s (at most {MOST_S}), {size_mb:.2f} MB (at most {MOST_MB})")
        if find_chromium() is not None:
            print(f"  opens in {open_seconds(path):.2f} s (at most {MOST_OPEN_S})")


if __name__ == "__main__":
    main()
