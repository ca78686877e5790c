"""The way to an offset or an instant, as rows and in words."""

from pathlib import Path

from pipeline.cli.inspect_rows import Row, describe_problem
from pipeline.cli.text_table import fields_of, format_timestamp
from pipeline.codec.log.lookup import IndexLookup, OffsetLookup, TimestampLookup
from pipeline.model.log import BatchHeader, Codec
from pipeline.sources.files.log_lookup import SegmentLookup

_BATCH = (
    "position size_bytes base_offset last_offset record_count max_timestamp_ms magic partition_leader_epoch producer_id "
    "is_control"
)


def lookup_row(way: SegmentLookup, target: Row) -> Row:
    """One partition's way to the target.

    Returns:
        Numbers, and `steps` in words.
    """
    found, times = way.found, way.time_index
    batch = None if found is None else found.batch
    index = _index_lookup(way)
    return {
        "broker_id": way.directory.broker_id,
        "topic": way.partition.topic or None,
        "partition": None if way.partition.partition < 0 else way.partition.partition,
        "target": target,
        "path": None if way.segment is None else way.segment.path,
        "segments_passed": way.segments_passed,
        "index_probes": [
            {"slot": at, "offset": int(way.index.offset[at]), "position": int(way.index.position[at])}
            for at in (index.probes if index else ())
        ],
        "time_index_probes": [
            {"slot": at, "timestamp_ms": int(times.timestamp_ms[at]), "offset": int(times.offset[at])}
            for at in (found.time_index.probes if isinstance(found, TimestampLookup) else ())
        ],
        "start_position": None if found is None else found.start_position,
        "batches_passed": None if found is None else found.batches_passed,
        "batch": None if batch is None else fields_of(batch, _BATCH) | {"codec": _codec_name(batch)},
        "offset": found.offset if isinstance(found, TimestampLookup) else target.get("offset") if batch else None,
        "timestamp_ms": found.timestamp_ms if isinstance(found, TimestampLookup) else None,
        "problem": None if way.problem is None else describe_problem(way.problem),
        "steps": _describe(way, target),
    }


def _codec_name(batch: BatchHeader) -> str:
    known = {codec.value: codec.name.lower() for codec in Codec}
    return known.get(batch.codec, str(batch.codec))


def _index_lookup(way: SegmentLookup) -> IndexLookup | None:
    if isinstance(way.found, OffsetLookup):
        return way.found.index
    return None if way.found is None else way.found.offset_index


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
