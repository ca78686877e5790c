"""Brokers' disks with one partition, collected into a landing folder, and what a run takes up of it."""

from collections import Counter
from dataclasses import replace
from itertools import count
from pathlib import Path

import pyarrow as pa

from pipeline.model.cluster import CLUSTER_METADATA, Broker, PartitionState, Timeline
from pipeline.model.log import Codec, Record
from pipeline.model.window import TimeWindow
from pipeline.sources.collected.collector import CollectRequest, RateLimit, collect, collector_settings
from pipeline.sources.collected.manifest import CollectedAs, read_manifest, write_manifest
from pipeline.sources.collected.reading import plan_collected_tasks
from pipeline.sources.collected.stored_folder import StoredFolder
from pipeline.sources.files.log_directories import discover_logs
from pipeline.sources.files.segment_plan import plan_reads
from pipeline.sources.kinds.collected import Collected
from pipeline.sources.questions import ClusterQuestion
from pipeline.sources.records.batch_rows import LeaderEpochs
from pipeline.sources.records.pieces import SCHEMAS, Kind
from pipeline.sources.records.record_scan import scan_file
from pipeline.sources.source import Described
from tests.batches import START_MS, make_batch, make_marker

HOUR_MS, DAY_MS = 3_600_000, 86_400_000
FIRST_MS = START_MS - START_MS % HOUR_MS
NOW_MS = FIRST_MS + 5 * HOUR_MS
SPAN = TimeWindow(FIRST_MS, NOW_MS)
NOBODY = LeaderEpochs({}, {})
CONFIG = (
    "{warehouse: w, outbox: o, keys: {secret: secret}, clusters: {demo: {sources: [{kind: collected, path: landing}]}}}"
)
TOPIC_ID = "gDY-1ROJSyK2s_UOjvrR2g"


def make_batches(first_offset, number):
    """Batches of three hours with keys, of several producers, late ones, one a year off and a transaction among them."""
    found, offset = [], first_offset
    for i in range(number):
        at_ms = FIRST_MS + i * 3 * HOUR_MS // number - (i % 7) * 1000
        at_ms -= 365 * DAY_MS if i == number // 2 else 0
        records = [
            Record(offset=offset + j, timestamp_ms=at_ms + j, key=b"k%d" % (i * j % 11), value=b"v" * (10 + i))
            for j in range(1 + i % 5)
        ]
        in_transaction = i % 9 == 4
        kind = {"codec": Codec.ZSTD if i % 2 else Codec.NONE, "attributes": 0x10 if in_transaction else 0}
        producer = {"producer_id": 1000 + i % 3, "producer_epoch": 0, "base_sequence": offset}
        found.append(make_batch(records, **kind, **producer))
        offset = records[-1].offset + 1
        if in_transaction:
            found.append(make_marker(offset, commit=i % 2 == 0, producer_id=1000 + i % 3, timestamp_ms=at_ms))
            offset += 1
        offset += i % 4 == 3 and i + 1 < number  # a gap, as compaction leaves
    return found, offset


class Disk:
    """One broker's log directory with one partition, as a broker leaves it on the disk."""

    def __init__(self, root, broker_id=1, partition=0):
        self.root, self.log, self.partition = root, root / f"orders-{partition}", partition
        self.log.mkdir(parents=True)
        named = f"node.id={broker_id}\ncluster.id=c\ndirectory.id=d{broker_id}"
        (root / "meta.properties").write_text(f"version=1\n{named}\n")
        (self.log / "partition.metadata").write_text(f"version: 0\ntopic_id: {TOPIC_ID}")

    def write(self, base_offset, data, high_watermark=None):
        (self.log / f"{base_offset:020d}.log").write_bytes(data)
        if high_watermark is not None:
            marks = f"0\n1\norders {self.partition} {high_watermark}\n"
            (self.root / "replication-offset-checkpoint").write_text(marks)


NUMBERS = count()


FAST = RateLimit(bytes_per_s=10**12, clock=lambda: 0.0, pause=lambda _: None)


def run_collector(config, disk, folder, *, as_of_ms=NOW_MS, host="", rate=FAST, **fields):
    of_run = {"paths": [disk.root], "config": config, "cluster": "demo", "host": host, "as_of_ms": as_of_ms}
    settings = {"keep_ms": 7 * DAY_MS, "unit_bytes": 4096, "commit_bytes": 8192, **fields}
    request = CollectRequest(**of_run, **settings, run_id=f"{next(NUMBERS):06d}")
    return collect(request, folder, rate)


def read_landing(landing, span=SPAN, topics=()):
    """A run's reading of a landing folder."""
    source = Collected(kind="collected", path=landing.location)
    question = ClusterQuestion(name="demo", topics=topics, windows=(span,), as_of_ms=NOW_MS, earlier=())
    return Collected.read_cluster([source], question, Described())


def plan_tasks(config, landing, reading=None):
    settings = replace(collector_settings(config, "demo", NOW_MS), compacted_topics=frozenset({"orders"}))
    reading = reading or read_landing(landing)
    return plan_collected_tasks(reading.collected, settings, CollectedAs.of(settings), NOBODY)


def collected(config, landing):
    """Pieces that a run takes up."""
    for task in plan_tasks(config, landing):
        yield from task.run()


def read_once(config, disk):
    """Pieces of the whole files."""
    settings = replace(collector_settings(config, "demo", NOW_MS), compacted_topics=frozenset({"orders"}))
    for read in plan_reads(discover_logs([disk.root]).iter_partitions()):
        yield from scan_file(read, settings, NOBODY)


def add_up(pieces):
    """What tables are made of: batches, sums over keys, records that arrived, files."""
    found = {kind: [] for kind in SCHEMAS}
    for piece in pieces:
        found[piece.kind] += piece.rows.to_pylist()
    sums = {kind: Counter() for kind in (Kind.KEYS, Kind.ARRIVALS, Kind.OTHERS)}
    counts = ("record_count", "size_bytes", "late_record_count", "outlier_record_count", "aborted_record_count")
    names = ("window_start_ms", "minute_start_ms", "key_id", "producer_id", "timestamp_type", "kind")
    for kind, total in sums.items():
        for row in found[kind]:
            for column in counts:
                total[column, *(row.get(name) for name in names)] += row.get(column) or 0
    segments = {}
    for row in found[Kind.SUMMARIES]:
        if row["row_kind"] == "segment":
            name = row.pop("path").rpartition("/")[2]
            segments[name] = max(segments.get(name, row), row, key=lambda known: known["batch_count"])
    return {
        "batches": Counter(tuple(row.values()) for row in found[Kind.BATCHES]),
        "segments": segments,
        **{kind: +total for kind, total in sums.items()},
    }


def state_of(leader_id, leader_epoch, replicas=None, partition=0):
    """A partition as metadata describes it."""
    of = {"topic": "orders", "topic_id": TOPIC_ID, "partition": partition, "replicas": replicas or (1, 2, 3)}
    return PartitionState(leader_id=leader_id, leader_epoch=leader_epoch, isr=None, **of)


def manifest_of(landing, host):
    return read_manifest(StoredFolder(f"{landing.location}/{host}"))


def tell(landing, host, *changes, since_ms=FIRST_MS - HOUR_MS, brokers=(1, 2, 3), **fields):
    """Gives a host a metadata log: `changes` are moments and states of partitions, oldest first."""
    by_partition = {}
    for moment, state in changes:
        by_partition.setdefault(state.partition, []).append((moment, state))
    told = {
        "metadata_length": (0, 1000),
        "state_source": CLUSTER_METADATA,
        "known_since_ms": since_ms,
        "brokers": {key: Timeline((since_ms,), (Broker(broker_id=key),)) for key in brokers},
        "partitions": tuple(Timeline(*zip(*found, strict=True)) for found in by_partition.values()),
        **fields,
    }
    restate(landing, host, lambda _: told)


def restate(landing, host, change):
    """Replaces fields of the state in a host's manifest."""
    rewrite(landing, host, lambda manifest: {"state": manifest.state.model_copy(update=change(manifest.state))})


def weigh(landing, reading, window=SPAN):
    """What the source says that is there of a window."""
    return Collected(kind="collected", path=landing.location).availability(reading, window, None)


def part_of(landing, kind, host="broker-3"):
    """The file with all rows of a kind that a host collected."""
    (part,) = (Path(landing.location) / host / "parts").glob(f"*{kind}*")
    return part


def with_column(rows, name, values):
    """Rows of a part with other values in a column."""
    place = rows.column_names.index(name)
    return rows.set_column(place, name, pa.array(values, rows.schema.field(name).type))


def rewrite(landing, host, change):
    """Replaces a host's manifest, as whoever writes its folder may: `change` returns the fields to replace."""
    manifest = manifest_of(landing, host)
    write_manifest(StoredFolder(f"{landing.location}/{host}"), manifest.model_copy(update=change(manifest)))
