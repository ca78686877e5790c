"""Brokers' disks of a small Kafka, as they are at a moment: segments, checkpoints, the metadata log or a snapshot of it."""

import os
import shutil
from itertools import groupby
from pathlib import Path

from tests.lab.worlds.kafka import Kafka
from tests.lab.worlds.logs import Copy, Log, name_id


def write_disk(kafka: Kafka, broker: int, disk: int, root: Path) -> None:
    """Writes a disk in the place of what was there; a dead broker's is as it was, one that failed or never was is none."""
    shutil.rmtree(root, ignore_errors=True)
    if not kafka.up[broker] or (broker, disk) in kafka.failed:
        return
    root.mkdir(parents=True)
    ids = f"directory.id={name_id(kafka.disks[broker][disk])}"
    (root / "meta.properties").write_text(f"version=1\nnode.id={broker}\ncluster.id=c\n{ids}\n")
    now_ms = min(kafka.now_ms, kafka.up[broker][-1][1])
    marks, starts = [], []
    if disk == 0:
        _write_metadata(kafka, root / "__cluster_metadata-0", now_ms)
    for log in (*kafka.gone, *kafka.logs):
        copy = log.copies.get(broker)
        if copy is not None and copy.disk == disk:
            _write_log(root / log.name, log, copy, now_ms)
            marks.append(f"{log.topic} {log.number} {copy.end}")
            starts.append(f"{log.topic} {log.number} {copy.start}")
    for name, lines in (("replication-offset", marks), ("log-start-offset", starts)):
        (root / f"{name}-checkpoint").write_text("\n".join(["0", str(len(lines)), *lines, ""]))
        os.utime(root / f"{name}-checkpoint", (0, now_ms / 1000))


def _write_metadata(kafka: Kafka, folder: Path, now_ms: int) -> None:
    folder.mkdir()
    told = [(number, data) for number, (at_ms, data) in enumerate(kafka.told) if at_ms <= now_ms]
    begin = 0
    for at_ms, end, data in kafka.snapshots:
        if at_ms <= now_ms:
            begin = end
            (folder / f"{end:020d}-{1:010d}.checkpoint").write_bytes(data)
    (folder / f"{begin:020d}.log").write_bytes(b"".join(data for number, data in told if number >= begin))


def _write_log(folder: Path, log: Log, copy: Copy, now_ms: int) -> None:
    folder.mkdir()
    (folder / "partition.metadata").write_text(f"version: 0\ntopic_id: {name_id(log.topic_id)}")
    lines = [f"{epoch} {start}" for epoch, start in copy.epochs]
    (folder / "leader-epoch-checkpoint").write_text("\n".join(["0", str(len(lines)), *lines, ""]))
    segments = [[*of] for _, of in groupby(copy.batches, key=lambda one: one.segment)]
    for batches in segments or [[]]:
        base = batches[0].offset if batches else copy.end
        begun_ms = batches[0].sent_ms if batches else copy.emptied_ms or now_ms
        (folder / f"{base:020d}.log").write_bytes(b"".join(one.data for one in batches))
        for ending in (".index", ".timeindex", *([".snapshot"] if base else [])):
            (folder / f"{base:020d}{ending}").touch()
            os.utime(folder / f"{base:020d}{ending}", (0, begun_ms / 1000))
