"""Windows run again: on the same input, after retention took some of it, by force.

Oracle: the tables that the first run left, and batches counted by `tests/lab/facts.py`.
"""

import shutil
from collections import Counter

import pytest

from pipeline.jobs import ingest
from pipeline.model.window import milliseconds_of
from pipeline.storage.tables_on_disk import table_path
from pipeline.storage.window_status import trust_windows, trusted_windows
from pipeline.tables.silver import PARTITION_TRAFFIC
from tests.engines import sail
from tests.lab.facts import read_batches
from tests.spark.capture_runs import CLUSTER, differences, plan, stored

STEPS = ("first", "again", "expired", "forced")


class Reruns:
    """The warehouse after each step, and the minutes: before the lost segment's last one, that one, the one after."""

    def __init__(self, spark, capture, folder) -> None:
        self.part = capture.part(folder / "capture", topics=("orders-1", "ledger"), scrapes=("producers/orders",))
        sources = ("log_directories", "consumer_groups", "producer_metrics")
        self.config = self.part.write_config(folder, sources=sources)
        self.lost, *self.kept = sorted((self.part.folder / "brokers/1/orders-1").glob("*.log"))
        cut = max(self.records_by_minute([self.lost]))
        self.minutes = (cut - 1, cut, cut + 1)
        self.folder = folder
        self.notes = {}
        for step in STEPS:
            if step == "expired":
                self.lose_input()
            span = self.part.span(cut - 1, cut + 2)
            engine = spark if step == "first" else sail()
            report = ingest.run(engine, plan(self.config, span, run_id=step, force=step == "forced"))
            self.notes[step] = report.notes
            shutil.copytree(self.config.warehouse, self.warehouse(step))

    def lose_input(self):
        """A segment with its indexes, and the scrapes of the first of the minutes."""
        for path in self.lost.parent.glob(f"{self.lost.stem}.*"):
            path.unlink()
        for path in (self.part.folder / "scrapes/producers/orders").iterdir():
            if self.part.minute_of(int(path.stem)) == self.minutes[0]:
                path.unlink()

    def records_by_minute(self, segments):
        counts = Counter()
        for segment in segments:
            for _, _, max_timestamp_ms, count in read_batches(segment):
                counts[self.part.minute_of(max_timestamp_ms)] += count
        return counts

    def warehouse(self, step):
        return self.folder / step

    def stored_records(self, step):
        """Minute → records of the partition that lost a segment."""
        return {
            self.part.minute_of(milliseconds_of(row["window_start"])): row["record_count"]
            for row in stored(self.warehouse(step), "silver.partition_traffic")
            if (row["topic"], row["partition"]) == ("orders", 1)
        }

    def expired(self, step):
        """Source → minutes marked."""
        marked = {}
        for row in stored(self.warehouse(step), "bronze.window_status"):
            if row["source_expired"]:
                minute = self.part.minute_of(milliseconds_of(row["window_start"]))
                marked.setdefault(row["source"], []).append(minute)
        return marked


@pytest.fixture(scope="module")
def reruns(spark, capture, tmp_path_factory):
    return Reruns(spark, capture, tmp_path_factory.mktemp("reruns"))


def test_the_same_input_gives_the_same_tables(reruns):
    assert differences(reruns.warehouse("first"), reruns.warehouse("again")) == {}
    assert reruns.notes["again"] == ()
    assert reruns.expired("again") == {}


def test_what_retention_took_stays_stored_and_is_marked(reruns):
    before, cut, after = reruns.minutes
    assert reruns.expired("expired") == {"log_directories": [before, cut], "producer_metrics": [before]}
    assert reruns.stored_records("expired") == reruns.stored_records("first")
    assert {note.split(":")[0] for note in reruns.notes["expired"]} == {"log_directories", "producer_metrics"}
    changed = differences(
        reruns.warehouse("first"), reruns.warehouse("expired"), leave_out=("bronze.window_status.source_expired",)
    )
    # The scrape before the second minute is gone, so that one interval of it cannot be told any more.
    assert changed.keys() <= {"silver.producer_nodes"}
    runs = {
        reruns.part.minute_of(milliseconds_of(row["window_start"])): row["run_id"]
        for row in stored(reruns.warehouse("expired"), "silver.record_batches", "window_start", "run_id")
    }
    assert runs == {before: "again", cut: "again", after: "expired"}


def test_force_replaces_with_what_is_left(reruns):
    left = reruns.records_by_minute(reruns.kept)
    assert reruns.expired("forced") == {}
    assert reruns.stored_records("forced") == {m: left[m] for m in reruns.minutes if left[m]}
    assert reruns.stored_records("forced") != reruns.stored_records("first")


def test_files_that_are_gone_are_remembered(reruns):
    paths = {row["path"] for row in stored(reruns.warehouse("forced"), "bronze.log_segments", "path")}
    assert any(path.endswith(f"orders-1/{reruns.lost.name}") for path in paths)
    assert not reruns.lost.exists()


def test_a_window_whose_rows_a_restored_copy_lacks_is_not_trusted_after_the_next_ingest(capture, tmp_path):
    """The next ingest's commit took the number of the one that the copy lacks, and the window was judged without its rows."""
    config = capture.part(tmp_path / "capture", topics=("ledger",)).write_config(tmp_path)
    runs = [plan(config, capture.span(minute, minute + 1), run_id=f"{minute}") for minute in range(3)]
    folder, copy = table_path(config.warehouse, PARTITION_TRAFFIC), tmp_path / "copy"
    for run in runs:
        ingest.run(sail(), run)
        trust_windows(config.warehouse, CLUSTER, run.windows)
        if run is runs[0]:
            shutil.copytree(folder, copy)
        elif run is runs[1]:
            shutil.rmtree(folder)
            shutil.copytree(copy, folder)
    assert trusted_windows(config.warehouse, CLUSTER) == {*runs[0].windows, *runs[2].windows}
