"""The document of `inspect`: segments, partitions, brokers, problems, and the way to an offset or an instant."""

import dataclasses
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from pipeline.cli.terminal import fields_of, format_timestamp
from pipeline.codec.log.index_files import IndexLookup
from pipeline.model.log import BatchHeader, Codec, Problem
from pipeline.model.log_tree import LogDirectory, PartitionDirectory, PartitionSummary, RecordSummary, SegmentSummary
from pipeline.sources.files.log_lookup import SegmentLookup

Row: TypeAlias = dict[str, Any]
_SUMS = "batch_count record_count size_bytes missing_offset_count control_batch_count"
_EXTREMES = "first_offset last_offset min_timestamp_ms max_timestamp_ms"


def build_report(partitions: Sequence[PartitionSummary], problems: Iterable[Problem]) -> dict[str, list[Row]]:
    """`segments`, `partitions`, `brokers`, `problems` of what was read; what discovery found in a segment is listed there."""
    by_path: dict[str, list[Problem]] = {}
    for problem in problems:
        by_path.setdefault(problem.path, []).append(problem)
    partitions = [
        dataclasses.replace(
            partition,
            segments=tuple(
                dataclasses.replace(segment, problems=(*by_path.pop(segment.segment.path, ()), *segment.problems))
                for segment in partition.segments
            ),
        )
        for partition in partitions
    ]
    brokers: dict[tuple[str | None, int | None], list[PartitionSummary]] = {}
    for partition in partitions:
        brokers.setdefault((partition.directory.cluster_id, partition.directory.broker_id), []).append(partition)
    segments = [segment for partition in partitions for segment in partition.segments]
    of_segments = [problem for segment in segments for problem in segment.problems]
    others = [problem for partition in partitions for problem in partition.problems]
    others += [problem for found in by_path.values() for problem in found]
    return {
        "segments": [_segment_row(segment) for segment in segments],
        "partitions": [_partition_row(partition) for partition in partitions],
        "brokers": [_broker_row(found) for found in brokers.values()],
        "problems": [describe_problem(problem) for problem in (*others, *of_segments)],
    }


def describe_problem(problem: Problem) -> Row:
    row = dataclasses.asdict(problem)
    row["first_bytes_hex"] = row.pop("first_bytes").hex()
    return row


def _segment_row(summary: SegmentSummary) -> Row:
    row = _place(summary.directory, summary.partition) | fields_of(summary, f"{_SUMS} {_EXTREMES} crc_error_count")
    row |= {
        "base_offset": summary.first_offset if summary.segment.base_offset is None else summary.segment.base_offset,
        "magic": summary.magics[0] if len(summary.magics) == 1 else list(summary.magics) or None,
        "codecs": list(summary.codecs),
        "producer_id_count": len(summary.producer_ids),
        "is_active": summary.segment.is_active,
        "kind": summary.partition.kind.value,
        "path": summary.segment.path,
    }
    return row | _record_columns(summary.records) | {"problems": [describe_problem(one) for one in summary.problems]}


def _partition_row(summary: PartitionSummary) -> Row:
    partition, segments = summary.partition, summary.segments
    magics = sorted({magic for segment in segments for magic in segment.magics})
    row = _place(summary.directory, partition) | _totals(segments)
    row |= {
        "topic_id": partition.topic_id,
        "kind": partition.kind.value,
        "high_watermark": summary.directory.high_watermarks.get(partition.topic_partition),
        "leader_epoch": partition.leader_epochs[-1].epoch if partition.leader_epochs else None,
        "magic": magics[0] if len(magics) == 1 else magics or None,
        "path": partition.path,
    }
    return row | _record_columns(summary.records)


def _broker_row(partitions: Sequence[PartitionSummary]) -> Row:
    row = fields_of(partitions[0].directory, "broker_id cluster_id")
    row |= {
        "log_directory_count": len({partition.directory.path for partition in partitions}),
        "topic_count": len({partition.partition.topic for partition in partitions}),
        "partition_count": len({partition.partition.topic_partition for partition in partitions}),
    }
    row |= _totals([segment for partition in partitions for segment in partition.segments])
    records = [partition.records for partition in partitions if partition.records is not None]
    names = ("null_key_count", "tombstone_count", "key_bytes", "value_bytes", "header_count")
    return row | {name: sum(getattr(summary, name) for summary in records) for name in names if records}


def _place(directory: LogDirectory, partition: PartitionDirectory) -> Row:
    number = None if partition.partition < 0 else partition.partition
    return {"broker_id": directory.broker_id, "topic": partition.topic or None, "partition": number}


def _totals(segments: Sequence[SegmentSummary]) -> Row:
    row: Row = {name: sum(getattr(one, name) for one in segments) for name in f"{_SUMS} crc_error_count".split()}
    for name in _EXTREMES.split():
        known = [value for segment in segments if (value := getattr(segment, name)) is not None]
        row[name] = (min if name.startswith(("min", "first")) else max)(known, default=None)
    return row | {
        "segment_count": len(segments),
        "problem_count": sum(len(segment.problems) for segment in segments),
        "codecs": sorted({codec for segment in segments for codec in segment.codecs}),
        "producer_id_count": len({producer for segment in segments for producer in segment.producer_ids}),
    }


def _record_columns(records: RecordSummary | None) -> Row:
    if records is None:
        return {}
    names = "null_key_count distinct_key_count tombstone_count key_bytes value_bytes header_count"
    keys = [{"key": _text(k.key), "key_hex": k.key.hex(), "record_count": k.record_count} for k in records.top_keys]
    return fields_of(records, names) | {"top_keys": keys}


def _text(key: bytes) -> str | None:
    try:
        return key.decode("utf-8")
    except UnicodeDecodeError:
        return None


_BATCH = (
    "position size_bytes base_offset last_offset record_count max_timestamp_ms magic partition_leader_epoch producer_id "
    "is_control"
)
_WAY = "start_position batches_passed offset timestamp_ms"


def lookup_row(way: SegmentLookup, target: Row) -> Row:
    found, times = way.found, way.time_index
    batch = None if found is None else found.batch
    return {
        **_place(way.directory, way.partition),
        "target": target,
        "path": None if way.segment is None else way.segment.path,
        "segments_passed": way.segments_passed,
        "index_probes": [
            {"slot": at, "offset": int(way.index.offset[at]), "position": int(way.index.position[at])}
            for at in (found.index.probes if found else ())
        ],
        "time_index_probes": [
            {"slot": at, "timestamp_ms": int(times.timestamp_ms[at]), "offset": int(times.offset[at])}
            for at in (found.time_index.probes if found and found.time_index else ())
        ],
        **dict.fromkeys(_WAY.split(), None),
        **({} if found is None else fields_of(found, _WAY)),
        "batch": None if batch is None else fields_of(batch, _BATCH) | {"codec": _codec_name(batch)},
        "problem": None if way.problem is None else describe_problem(way.problem),
        "steps": _describe(way, target),
    }


def _codec_name(batch: BatchHeader) -> str:
    return {codec.value: codec.name.lower() for codec in Codec}.get(batch.codec, str(batch.codec))


def _describe(way: SegmentLookup, target: Row) -> list[str]:
    asked = f"offset {target['offset']}" if "offset" in target else f"instant {format_timestamp(target['at_ms'])}"
    if way.segment is None:
        return [asked, "no segment begins at or below it"]
    count = len(way.partition.segments)
    steps = [asked, f"segment {Path(way.segment.path).name}, after {way.segments_passed} searched, of {count}"]
    found, times, index = way.found, way.time_index, way.index
    if found is None:
        return [*steps, *([] if way.problem is None else [f"stopped: {way.problem.reason}"])]
    if found.time_index is not None:
        at, says = found.time_index.slot, "none at or before it"
        if at is not None:
            says = f"entry {at} says {format_timestamp(int(times.timestamp_ms[at]))} at offset {times.offset[at]}"
        steps.append(f".timeindex, {len(times.offset)} entries, looked at {_numbers(found.time_index)}: {says}")
    at, says = found.index.slot, "none at or below it, so from position 0"
    if at is not None:
        says = f"entry {at} says offset {index.offset[at]} at position {index.position[at]}"
    steps.append(f".index, {len(index.offset)} entries, looked at {_numbers(found.index)}: {says}")
    steps.append(f"from position {found.start_position} on, {found.batches_passed} batches passed")
    batch = found.batch
    if batch is None:
        return [*steps, "beyond the end of the log"]
    steps.append(
        f"batch at {batch.position}: offsets {batch.base_offset} to {batch.last_offset}, {batch.record_count} records, "
        f"{batch.size_bytes} bytes, codec {_codec_name(batch)}"
    )
    if found.timestamp_ms is not None:
        steps.append(f"record at offset {found.offset}: {format_timestamp(found.timestamp_ms)}")
    return steps


def _numbers(lookup: IndexLookup) -> str:
    return ", ".join(map(str, lookup.probes)) or "none"
