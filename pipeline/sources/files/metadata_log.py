"""The metadata log in a log directory: from its segments and snapshots to the cluster's history (see its `unread`)."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path

from pipeline.codec.log.record_batch import read_entry_records
from pipeline.codec.log.segment import iter_batches, scan_headers
from pipeline.codec.metadata.cluster_history import MetadataEntry, fold_cluster_history
from pipeline.codec.metadata.cluster_metadata import RecordType, find_subjects, parse_metadata_record
from pipeline.errors import InputError
from pipeline.files import open_regular
from pipeline.model.cluster import ClusterHistory, StateSubject, UnreadState
from pipeline.model.log import Problem, is_partition_number
from pipeline.model.log_tree import CLUSTER_METADATA_TOPIC, PartitionDirectory
from pipeline.model.window import LATEST_MS
from pipeline.sources.files.log_directories import discover_logs

_TORN = "torn"  # the last batch of a log that was copied while it was written: nothing before it is missing
_EVERYTHING = frozenset(StateSubject)
_MOST_RECORDS = 20_000_000  # of a log: ten times what Kafka keeps of one with a million partitions
_MOST_NOTED = 1_000  # of what cannot be read
_DIRECTORY = f"{CLUSTER_METADATA_TOPIC}-0"
_SNAPSHOT_HEADER_TYPE = b"\x00\x03"


def read_metadata_log(directory: PartitionDirectory) -> tuple[ClusterHistory | None, tuple[Problem, ...]]:
    """The history of one `__cluster_metadata-0`, None where no record could be read, and problems; also beyond the high watermark.

    A log that begins later than at 0 is read from the oldest snapshot that reaches it: earlier states are unknown.
    """
    problems: list[Problem] = []
    unread: list[UnreadState] = []
    snapshot = _choose_snapshot(directory, problems, unread)
    known_since_ms = None if snapshot is None else _read_snapshot_time(snapshot)

    def read_all() -> Iterator[MetadataEntry]:
        from_offset = 0
        if snapshot is not None:
            for entry in _read_entries(snapshot, problems, unread):
                yield entry if known_since_ms is None else entry._replace(timestamp_ms=known_since_ms)
            if known_since_ms is not None:  # its batches bear the time at which it was written
                unread[:] = [one if one.at_ms is None else one._replace(at_ms=known_since_ms) for one in unread]
            from_offset = int(snapshot.name.partition("-")[0])
        for segment in directory.segments:
            yield from (e for e in _read_entries(Path(segment.path), problems, unread) if e.offset >= from_offset)

    entries = read_all()  # one after the other: a history takes less
    first = next(entries, None)
    if first is None:
        return None, tuple(problems)
    taken = chain((first,), islice(entries, _MOST_RECORDS - 1))
    history, orphans = fold_cluster_history(taken, known_since_ms=known_since_ms)
    if next(entries, None) is not None:
        _note(unread, None, _EVERYTHING, f"the metadata log has more than {_MOST_RECORDS:,} records")
    for orphan in orphans:
        number = orphan.record.fields.get("partition_id", 0)
        what = "nothing registered before it" if is_partition_number(number) else f"partition {number}, as no topic has"
        if orphan.record.api_key == RecordType.CONFIG:
            what = "more configs than a cluster has"
            _note(unread, orphan.timestamp_ms, frozenset({StateSubject.CONFIGS}), what)
        reason = f"{orphan.record.type_name} at offset {orphan.offset} is about {what}"
        problems.append(Problem(path=directory.path, reason=reason, severity="suspect"))
    return replace(history, unread=tuple(unread)), tuple(problems)


def _read_snapshot_time(path: Path) -> int | None:
    """Timestamp of the last record that a snapshot holds, from its `SnapshotHeaderRecord`: batches bear a later one."""
    try:
        record = next(record for _, entry in iter_batches(path, 0) for record in read_entry_records(entry))
    except (OSError, InputError, StopIteration):
        return None  # the scan of the file says what is wrong with it
    if record.key is None or record.value is None or record.key[2:4] != _SNAPSHOT_HEADER_TYPE:
        return None
    time_ms = int.from_bytes(record.value[2:10], "big", signed=True)  # behind the version, i16
    return time_ms if 0 <= time_ms <= LATEST_MS else None


def _choose_snapshot(directory: PartitionDirectory, problems: list[Problem], unread: list[UnreadState]) -> Path | None:
    """None where the log begins at 0; else the oldest snapshot (`<end offset>-<epoch>.checkpoint`) that reaches it."""
    snapshots = [Path(path) for path in directory.metadata_snapshot_paths]
    if not directory.segments:
        return snapshots[-1] if snapshots else None
    start = directory.segments[0].base_offset or 0
    if start == 0:
        return None
    for snapshot in snapshots:
        if int(snapshot.name.partition("-")[0]) >= start:
            return snapshot
    reason = f"the metadata log begins at offset {start} and no snapshot reaches it: its state is incomplete"
    problems.append(Problem(path=directory.path, reason=reason, severity="suspect"))
    unread.append(UnreadState(None, _EVERYTHING, reason))
    return None


def _read_entries(path: Path, problems: list[Problem], unread: list[UnreadState]) -> Iterator[MetadataEntry]:
    """Records of a log segment or a snapshot (same format), control records left out; what is not read is noted."""
    try:
        scan = scan_headers(path)
        file = open_regular(path)
    except OSError as error:
        problems.append(Problem.of_error(path, error))
        _note(unread, None, _EVERYTHING, f"{path.name} cannot be read")
        return
    problems += scan.problems
    last_ms: int | None = None
    # controllers write none that is compressed: who does has a small file take any memory
    readable = scan.usable & (scan.codec == 0)
    with file:
        for row, is_readable, is_control in zip(scan.rows, readable, scan.is_control, strict=True):
            position = int(row["position"])
            # its own time is no better than its records
            if not is_readable or not 0 <= int(row["max_timestamp_ms"]) <= LATEST_MS:
                _note(unread, last_ms, _EVERYTHING, f"a batch at position {position} of {path.name}")
                continue
            last_ms = int(row["max_timestamp_ms"])
            if is_control:
                continue
            try:
                file.seek(position)
                records = read_entry_records(file.read(int(row["size_bytes"])))
            except InputError as error:
                problems.append(replace(Problem.of_error(path, error), position=position))
                _note(unread, last_ms, _EVERYTHING, f"a batch at position {position} of {path.name}")
                continue
            for value, offset in ((record.value, record.offset) for record in records if record.value is not None):
                try:
                    yield MetadataEntry(last_ms, offset, parse_metadata_record(value))
                except InputError as error:
                    problems.append(replace(Problem.of_error(path, error), position=position))
                    del problems[_MOST_NOTED:]
                    _note(unread, last_ms, find_subjects(value), error.reason)
    # why a log was not read to its end, if it was not; its last batch alone may be torn
    reasons = [problem.reason for problem in scan.problems if problem.position == scan.valid_bytes]
    if reasons and not reasons[-1].startswith(_TORN):
        _note(unread, last_ms, _EVERYTHING, f"{path.name} from position {scan.valid_bytes} on: {reasons[-1]}")


def _note(unread: list[UnreadState], at_ms: int | None, subjects: frozenset[StateSubject], reason: str) -> None:
    """Notes what is not read; after many, only if it is about something new: that is in doubt since the first."""
    if len(unread) < _MOST_NOTED or not any(subjects <= one.subjects for one in unread):
        unread.append(UnreadState(at_ms, subjects, reason))


def find_unread(paths: Iterable[Path]) -> tuple[str, ...]:
    """What cannot be read of the longest metadata log, the only one opened, in log directories or folders of them."""
    patterns = (_DIRECTORY, f"*/{_DIRECTORY}", f"*/*/{_DIRECTORY}")
    logs = [path for root in paths if root.is_dir() for pattern in patterns for path in root.glob(pattern)]
    copies = [copy for _, copy in discover_logs(sorted(set(logs))).iter_partitions() if copy.is_cluster_metadata]
    if not copies:
        return ()
    history, _ = read_metadata_log(max(copies, key=lambda copy: copy.length))
    return () if history is None else tuple(dict.fromkeys(one.reason for one in history.unread))
