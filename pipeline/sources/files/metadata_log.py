"""Reads the KRaft metadata log of a node (`__cluster_metadata-0`), from a snapshot on where its start is gone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.codec.log.record_batch import read_entry_records
from pipeline.codec.log.segment import iter_batches, scan_headers
from pipeline.codec.metadata.cluster_history import MetadataEntry, fold_cluster_history
from pipeline.codec.metadata.cluster_metadata import parse_metadata_record
from pipeline.errors import InputError
from pipeline.model.log import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pipeline.model.cluster import ClusterHistory
    from pipeline.model.log_tree import PartitionDirectory

_SNAPSHOT_HEADER_TYPE = b"\x00\x03"


def read_metadata_log(directory: PartitionDirectory) -> tuple[ClusterHistory | None, tuple[Problem, ...]]:
    """The cluster's history from one `__cluster_metadata-0` directory, None where no record could be read; the problems.

    A log that no longer begins at offset 0 is read from the oldest snapshot that reaches its start: states before that
    snapshot are not known. Records beyond the quorum's high watermark are taken as they are found: nothing on disk says
    where it is.
    """
    problems: list[Problem] = []
    snapshot = _choose_snapshot(directory, problems)
    entries: list[MetadataEntry] = []
    known_since_ms = None
    from_offset = 0
    if snapshot is not None:
        known_since_ms = _read_snapshot_time(snapshot)
        entries += (
            entry if known_since_ms is None else entry._replace(timestamp_ms=known_since_ms)
            for entry in _read_entries(snapshot, problems)
        )
        from_offset = _snapshot_end_offset(snapshot)
    for segment in directory.segments:
        entries += (e for e in _read_entries(Path(segment.path), problems) if e.offset >= from_offset)
    if not entries:
        return None, tuple(problems)
    history, orphans = fold_cluster_history(entries, known_since_ms=known_since_ms)
    for orphan in orphans:
        reason = f"{orphan.record.type_name} at offset {orphan.offset} is about nothing registered before it"
        problems.append(Problem(path=directory.path, reason=reason, severity="suspect"))
    return history, tuple(problems)


def _snapshot_end_offset(path: Path) -> int:
    """`<end offset>-<epoch>.checkpoint`: the first offset that is not in it."""
    return int(path.name.split("-", 1)[0])


def _read_snapshot_time(path: Path) -> int | None:
    """Timestamp of the last record of the log that a snapshot holds, from its header record; None without one.

    The batches themselves bear the time at which the snapshot was written, later than log records that follow it.

    References:
        `SnapshotHeaderRecord.json`: version i16, last contained log timestamp i64.
    """
    try:
        record = next(record for _, entry in iter_batches(path, 0) for record in read_entry_records(entry))
    except (OSError, InputError, StopIteration):
        return None  # the scan of the file says what is wrong with it
    if record.key is None or record.value is None or record.key[2:4] != _SNAPSHOT_HEADER_TYPE:
        return None
    return int.from_bytes(record.value[2:10], "big", signed=True)


def _choose_snapshot(directory: PartitionDirectory, problems: list[Problem]) -> Path | None:
    """None where the log itself begins at 0; else the oldest snapshot that reaches it, for the longest history."""
    snapshots = [Path(path) for path in directory.metadata_snapshot_paths]
    if not directory.segments:
        return snapshots[-1] if snapshots else None
    start = directory.segments[0].base_offset or 0
    if start == 0:
        return None
    for snapshot in snapshots:
        if _snapshot_end_offset(snapshot) >= start:
            return snapshot
    reason = f"the metadata log begins at offset {start} and no snapshot reaches it: its state is incomplete"
    problems.append(Problem(path=directory.path, reason=reason, severity="suspect"))
    return None


def _read_entries(path: Path, problems: list[Problem]) -> Iterator[MetadataEntry]:
    """Records of a log segment or a snapshot (same format), control records left out."""
    try:
        scan = scan_headers(path)
        data = path.read_bytes()
    except OSError as error:
        problems.append(Problem.of_error(path, error))
        return
    problems += scan.problems
    for row in scan.rows[scan.usable & ~scan.is_control]:
        position = int(row["position"])
        try:
            yield from _read_batch(data[position : position + int(row["size_bytes"])], int(row["max_timestamp_ms"]))
        except InputError as error:
            problems.append(
                Problem(path=str(path), position=position, reason=error.reason, first_bytes=error.first_bytes)
            )


def _read_batch(entry: bytes, max_timestamp_ms: int) -> list[MetadataEntry]:
    return [
        MetadataEntry(max_timestamp_ms, record.offset, parse_metadata_record(record.value))
        for record in read_entry_records(entry)
        if record.value is not None
    ]
