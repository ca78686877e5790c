"""The way to an offset or an instant, as rows and in words."""

from pathlib import Path

from pipeline.cli.inspect_rows import Row, describe_problem
from pipeline.cli.inspect_text import format_timestamp
from pipeline.codec.log.lookup import IndexLookup, OffsetLookup, TimestampLookup
from pipeline.model.log import BatchHeader, Codec
from pipeline.sources.files.log_lookup import SegmentLookup


def lookup_row(way: SegmentLookup, target: Row) -> Row:
    """One partition's way to the target.

    Returns:
        Numbers, and `steps` in words.
    """
    found = way.found
    batch = None if found is None else found.batch
    return {
        "broker_id": way.directory.broker_id,
        "topic": way.partition.topic or None,
        "partition": None if way.partition.partition < 0 else way.partition.partition,
        "target": target,
        "path": None if way.segment is None else way.segment.path,
        "segments_passed": way.segments_passed,
        "index_probes": _probes(way),
        "time_index_probes": _time_probes(way),
        "start_position": None if found is None else found.start_position,
        "batches_passed": None if found is None else found.batches_passed,
        "batch": None if batch is None else _batch_row(batch),
        "offset": found.offset if isinstance(found, TimestampLookup) else target.get("offset") if batch else None,
        "timestamp_ms": found.timestamp_ms if isinstance(found, TimestampLookup) else None,
        "problem": None if way.problem is None else describe_problem(way.problem),
        "steps": list(_describe(way, target)),
    }


def _batch_row(batch: BatchHeader) -> Row:
    return {
        "position": batch.position,
        "size_bytes": batch.size_bytes,
        "base_offset": batch.base_offset,
        "last_offset": batch.last_offset,
        "record_count": batch.record_count,
        "max_timestamp_ms": batch.max_timestamp_ms,
        "codec": _codec_name(batch),
        "magic": batch.magic,
        "partition_leader_epoch": batch.partition_leader_epoch,
        "producer_id": batch.producer_id,
        "is_control": batch.is_control,
    }


def _codec_name(batch: BatchHeader) -> str:
    known = {codec.value: codec.name.lower() for codec in Codec}
    return known.get(batch.codec, str(batch.codec))


def _index_lookup(way: SegmentLookup) -> IndexLookup | None:
    if isinstance(way.found, OffsetLookup):
        return way.found.index
    return None if way.found is None else way.found.offset_index


def _probes(way: SegmentLookup) -> list[Row]:
    lookup = _index_lookup(way)
    if lookup is None:
        return []
    return [
        {"slot": i, "offset": int(way.index.offset[i]), "position": int(way.index.position[i])} for i in lookup.probes
    ]


def _time_probes(way: SegmentLookup) -> list[Row]:
    if not isinstance(way.found, TimestampLookup):
        return []
    times = way.time_index
    return [
        {"slot": i, "timestamp_ms": int(times.timestamp_ms[i]), "offset": int(times.offset[i])}
        for i in way.found.time_index.probes
    ]


def _describe(way: SegmentLookup, target: Row) -> list[str]:
    asked = f"offset {target['offset']}" if "offset" in target else f"instant {format_timestamp(target['at_ms'])}"
    if way.segment is None:
        return [asked, "no segment begins at or below it"]
    count = len(way.partition.segments)
    steps = [asked, f"segment {Path(way.segment.path).name}, after {way.segments_passed} searched, of {count}"]
    if way.problem is not None:
        return [*steps, f"stopped: {way.problem.reason}"]
    if isinstance(way.found, TimestampLookup):
        steps.append(_describe_time_index(way, way.found.time_index))
    lookup = _index_lookup(way)
    if lookup is not None:
        steps.append(_describe_index(way, lookup))
    return [*steps, *_describe_end(way)]


def _describe_time_index(way: SegmentLookup, lookup: IndexLookup) -> str:
    head = f".timeindex, {len(way.time_index.offset)} entries, looked at {_numbers(lookup)}"
    if lookup.slot is None:
        return f"{head}: none at or before it"
    stamp = format_timestamp(int(way.time_index.timestamp_ms[lookup.slot]))
    return f"{head}: entry {lookup.slot} says {stamp} at offset {way.time_index.offset[lookup.slot]}"


def _describe_index(way: SegmentLookup, lookup: IndexLookup) -> str:
    head = f".index, {len(way.index.offset)} entries, looked at {_numbers(lookup)}"
    if lookup.slot is None:
        return f"{head}: none at or below it, so from position 0"
    slot = lookup.slot
    return f"{head}: entry {slot} says offset {way.index.offset[slot]} at position {way.index.position[slot]}"


def _numbers(lookup: IndexLookup) -> str:
    return ", ".join(map(str, lookup.probes)) or "none"


def _describe_end(way: SegmentLookup) -> list[str]:
    found = way.found
    if found is None:
        return []
    steps = [f"from position {found.start_position} on, {found.batches_passed} batches passed"]
    batch = found.batch
    if batch is None:
        return [*steps, "beyond the end of the log"]
    steps.append(
        f"batch at {batch.position}: offsets {batch.base_offset} to {batch.last_offset}, {batch.record_count} records, "
        f"{batch.size_bytes} bytes, codec {_codec_name(batch)}"
    )
    if isinstance(found, TimestampLookup) and found.timestamp_ms is not None:
        steps.append(f"record at offset {found.offset}: {format_timestamp(found.timestamp_ms)}")
    return steps
