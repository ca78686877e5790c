"""A tree with damage of every kind: each becomes a quarantine row, everything else is ingested.

Oracle: the table of damage below, and the clean tree's traffic less the damaged batches as `tests/lab/facts.py` reads
them.
"""

from collections import Counter

import pytest

from pipeline.jobs import ingest
from pipeline.model.window import milliseconds_of
from tests.lab.facts import read_batches
from tests.spark.capture_runs import plan, stored

TOPICS = ("audit", "clicks", "codec-gzip", "devices")
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 12345\n"


class Damage:
    """What was done to which file, and what must be said of it."""

    def __init__(self, tree) -> None:
        self.brokers = tree / "brokers"
        self.expected = {}
        self.lost = {}
        self.torn()
        self.flipped()
        self.pointer()
        self.checkpoint()
        self.page(tree)

    def replace(self, path, content, position, reason):
        path.unlink()  # it is a link to the capture's own
        path.write_bytes(content)
        self.expected[str(path.relative_to(path.parents[2]))] = (position, reason)

    def segment(self, broker, partition):
        (log,) = (self.brokers / broker / partition).glob("*.log")
        sizes = [size for size, *_ in read_batches(log)]
        return log, sizes, log.read_bytes()

    def torn(self):
        log, sizes, content = self.segment("1", "clicks-1")
        start = len(content) - sizes[-1]
        self.lost["clicks", 1] = list(read_batches(log))[-1:]
        self.replace(log, content[:-20], start, f"torn: the batch wants {sizes[-1]} bytes, {sizes[-1] - 20} are left")

    def flipped(self):
        log, sizes, content = self.segment("2", "codec-gzip-2")
        start = sum(sizes[:7])
        middle = start + sizes[7] // 2 + 30
        flipped = content[:middle] + bytes([content[middle] ^ 0x10]) + content[middle + 1 :]
        self.replace(log, flipped, start, "checksum mismatch")

    def pointer(self):
        log, _, _ = self.segment("0", "devices-3")
        self.lost["devices", 3] = list(read_batches(log))
        self.replace(log, POINTER, 0, "a Git LFS pointer, not the file itself")

    def checkpoint(self):
        path = self.brokers / "2/replication-offset-checkpoint"
        content = path.read_bytes().replace(b"\n", b"\r\n")
        self.replace(path, content, 1, "CRLF line ends")

    def page(self, tree):
        path = sorted((tree / "scrapes/producers/orders").glob("*.prom"))[3]
        self.replace(path, b"<html>\xff no such page", -1, "cannot be read")


@pytest.fixture(scope="module")
def damaged(spark, capture, tmp_path_factory):
    folder = tmp_path_factory.mktemp("damaged")
    part = capture.part(folder / "capture", topics=TOPICS, scrapes=("producers/orders",))
    damage = Damage(part.folder)
    config = part.write_config(folder, topics=TOPICS, sources=("log_directories", "producer_metrics"))
    context = plan(config, part.span())
    ingest.run(spark, context)
    return damage, context.warehouse


def test_each_damage_is_a_row_with_file_position_and_reason(damaged):
    damage, warehouse = damaged
    rows = stored(warehouse, "bronze.quarantine")
    told = {"/".join(row["path"].split("/")[-3:]): (row["position"], row["reason"]) for row in rows}
    assert told.keys() == damage.expected.keys()
    assert len(rows) == len(told)
    for path, (position, reason) in damage.expected.items():
        assert told[path][0] == position, path
        assert reason in told[path][1], path
    sources = {row["path"].split("/")[0]: row["source"] for row in rows}
    assert sources == {"brokers": "log_directories", "producers": "producer_metrics"}
    kept = {row["reason"].split()[0]: len(bytes.fromhex(row["first_bytes_hex"])) for row in rows}
    assert kept == {"torn:": 61, "checksum": 61, "a": 0, "CRLF": 0, "cannot": 0}  # headers, and nothing of texts


def test_everything_else_is_ingested(damaged, ingested, capture):
    damage, warehouse = damaged
    names, clean, spoilt = ("record_count", "size_bytes", "batch_count"), Counter(), Counter()
    for counts, place in ((clean, ingested.warehouse), (spoilt, warehouse)):
        for row in stored(place, "silver.partition_traffic"):
            if row["topic"] in TOPICS:
                minute = capture.minute_of(milliseconds_of(row["window_start"]))
                counts.update({(row["topic"], row["partition"], minute, name): row[name] for name in names})
    for key, batches in damage.lost.items():
        for size, _, max_timestamp_ms, count in batches:
            minute = capture.minute_of(max_timestamp_ms)
            clean.subtract({(*key, minute, name): n for name, n in zip(names, (count, size, 1), strict=True)})
    assert +spoilt == +clean


def test_a_batch_whose_checksum_fails_counts_and_is_counted(damaged):
    _, warehouse = damaged
    errors = Counter()
    for row in stored(warehouse, "silver.partition_traffic"):
        errors[row["topic"], row["partition"]] += row["crc_error_count"]
    assert +errors == Counter({("codec-gzip", 2): 1})


def test_the_problems_are_counted_per_source_and_per_file(damaged):
    damage, warehouse = damaged
    status = stored(warehouse, "bronze.window_status", "source", "problem_count")
    assert {(row["source"], row["problem_count"]) for row in status} == {
        ("log_directories", len(damage.expected) - 1),
        ("producer_metrics", 1),
    }
    segments = stored(warehouse, "bronze.log_segments", "path", "problem_count")
    counts = {row["path"].split("/")[-2]: row["problem_count"] for row in segments}
    assert {name for name, count in counts.items() if count} == {"clicks-1", "codec-gzip-2"}
    assert "devices-3" not in counts  # a pointer is not a segment
