"""What `costs_bench` has commands read: parts of the committed capture, and logs of any size."""

from dataclasses import dataclass, replace

import yaml

from pipeline.model.window import TimeWindow, format_instant
from tests.batches import START_MS, make_batch, make_records
from tests.lab.bench.scan_bench import write_index, write_segment
from tests.lab.demo.recording import prepare_demo

MINUTE_MS, HOUR_MS = 60_000, 3_600_000
RECORDS_PER_BATCH = 100
SPREAD_MS = 40 * MINUTE_MS


@dataclass(frozen=True, kw_only=True)
class Input:
    """What is read: a configuration without its tables, and the windows to run."""

    document: dict
    span: TimeWindow

    def write_config(self, folder):
        """The configuration, with tables and mails in a folder of their own."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "partition-health.yaml"
        path.write_text(yaml.safe_dump(self.document))
        return path

    def with_spark(self, **settings):
        """The same with settings of the section `spark`."""
        return replace(self, document=self.document | {"spark": settings})


def read_capture(folder, first, last):
    """The committed capture, minutes from the first to before the last."""
    demo = prepare_demo(folder)
    document = yaml.safe_load(demo.config.read_text())
    document.pop("spark", None)
    for source in document["clusters"]["demo"]["sources"]:
        paths = source.pop("paths", None)
        found = {"paths": [str(folder / path) for path in paths]} if paths else {"path": str(folder / source["path"])}
        source.update(found)
    start_ms = demo.span.start_ms
    return Input(document=document, span=TimeWindow(start_ms + first * MINUTE_MS, start_ms + last * MINUTE_MS))


def read_log(folder, partitions, records, key=b"k%d"):
    """A topic on one broker: at least a record in each partition, spread evenly over them and over 40 minutes."""
    per_batch = min(RECORDS_PER_BATCH, max(records // partitions, 1))
    count = max(records // partitions // per_batch, 1)
    starts_ms = range(START_MS, START_MS + SPREAD_MS, SPREAD_MS // count)
    batches = [make_batch(make_records(per_batch, start_ms=start_ms, key=key)) for start_ms in starts_ms][:count]
    for number in range(partitions):
        path = folder / f"logs/orders-{number}" / f"{0:020d}.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_segment(path, batches, count)
        write_index(path)
    (folder / "logs/meta.properties").write_text("version=1\nnode.id=1\ncluster.id=AAAAAAAAAAAAAAAAAAAAAA\n")
    leaders = [f"\tTopic: orders\tPartition: {number}\tLeader: 1\tReplicas: 1\tIsr: 1" for number in range(partitions)]
    described = [f"Topic: orders\tPartitionCount: {partitions}\tReplicationFactor: 1\tConfigs:", *leaders]
    (folder / "topics.txt").write_text("\n".join(described) + "\n")
    start_ms = START_MS - START_MS % HOUR_MS
    sources = [
        {"kind": "log_directories", "paths": [str(folder / "logs")]},
        {"kind": "topics_describe", "path": str(folder / "topics.txt")},
    ]
    cluster = {"as_of": format_instant(start_ms + HOUR_MS), "sources": sources}
    document = {"warehouse": "warehouse", "outbox": "outbox", "window": "PT1H", "clusters": {"bench": cluster}}
    return Input(document=document, span=TimeWindow(start_ms, start_ms + HOUR_MS))
