"""The report of `inspect` as plain rows: segments, partitions, brokers, problems; field names are column names."""

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

from pipeline.model.log import Problem
from pipeline.model.segment_summary import PartitionSummary, RecordSummary, SegmentSummary

Row: TypeAlias = dict[str, Any]


def build_report(partitions: Sequence[PartitionSummary], problems: Iterable[Problem]) -> dict[str, list[Row]]:
    """All rows of a report.

    Args:
        partitions: What was read, in the order of the rows.
        problems: What discovery found wrong; with a segment's file it is listed there.

    Returns:
        `segments`, `partitions`, `brokers`, and `problems` (those of the segments included).
    """
    by_path: dict[str, list[Problem]] = {}
    for problem in problems:
        by_path.setdefault(problem.path, []).append(problem)
    partitions = [_with_file_problems(partition, by_path) for partition in partitions]
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


def _with_file_problems(partition: PartitionSummary, by_path: dict[str, list[Problem]]) -> PartitionSummary:
    """Takes what discovery found wrong with a segment's file over into the segment."""
    segments = (
        dataclasses.replace(segment, problems=(*by_path.pop(segment.segment.path, ()), *segment.problems))
        for segment in partition.segments
    )
    return dataclasses.replace(partition, segments=tuple(segments))


def describe_problem(problem: Problem) -> Row:
    """A problem: file, position, reason, severity, first bytes in hex."""
    row = dataclasses.asdict(problem)
    row["first_bytes_hex"] = row.pop("first_bytes").hex()
    return row


def _segment_row(summary: SegmentSummary) -> Row:
    row: Row = {
        "broker_id": summary.directory.broker_id,
        "topic": summary.partition.topic or None,
        "partition": None if summary.partition.partition < 0 else summary.partition.partition,
        "base_offset": summary.first_offset if summary.segment.base_offset is None else summary.segment.base_offset,
        "batch_count": summary.batch_count,
        "record_count": summary.record_count,
        "size_bytes": summary.size_bytes,
        "first_offset": summary.first_offset,
        "last_offset": summary.last_offset,
        "missing_offset_count": summary.missing_offset_count,
        "min_timestamp_ms": summary.min_timestamp_ms,
        "max_timestamp_ms": summary.max_timestamp_ms,
        "magic": _one_or_all(summary.magics),
        "codecs": list(summary.codecs),
        "control_batch_count": summary.control_batch_count,
        "producer_id_count": len(summary.producer_ids),
        "crc_error_count": summary.crc_error_count,
        "is_active": summary.segment.is_active,
        "kind": summary.partition.kind.value,
        "path": summary.segment.path,
    }
    if summary.records is not None:
        row |= _record_columns(summary.records)
    return row | {"problems": [describe_problem(problem) for problem in summary.problems]}


def _partition_row(summary: PartitionSummary) -> Row:
    directory, partition, segments = summary.directory, summary.partition, summary.segments
    row: Row = {
        "broker_id": directory.broker_id,
        "topic": partition.topic or None,
        "topic_id": partition.topic_id,
        "partition": None if partition.partition < 0 else partition.partition,
        "kind": partition.kind.value,
        "segment_count": len(segments),
        **_totals(segments),
        "first_offset": _extreme(min, (segment.first_offset for segment in segments)),
        "last_offset": _extreme(max, (segment.last_offset for segment in segments)),
        "high_watermark": directory.high_watermarks.get(partition.topic_partition),
        "leader_epoch": partition.leader_epochs[-1].epoch if partition.leader_epochs else None,
        "magic": _one_or_all(tuple(sorted({magic for segment in segments for magic in segment.magics}))),
        "codecs": sorted({codec for segment in segments for codec in segment.codecs}),
        "producer_id_count": len({producer for segment in segments for producer in segment.producer_ids}),
        "path": partition.path,
    }
    return row if summary.records is None else row | _record_columns(summary.records)


def _broker_row(partitions: Sequence[PartitionSummary]) -> Row:
    first = partitions[0].directory
    segments = [segment for partition in partitions for segment in partition.segments]
    row: Row = {
        "broker_id": first.broker_id,
        "cluster_id": first.cluster_id,
        "log_directory_count": len({partition.directory.path for partition in partitions}),
        "topic_count": len({partition.partition.topic for partition in partitions}),
        "partition_count": len({partition.partition.topic_partition for partition in partitions}),
        "segment_count": len(segments),
        **_totals(segments),
        "codecs": sorted({codec for segment in segments for codec in segment.codecs}),
        "producer_id_count": len({producer for segment in segments for producer in segment.producer_ids}),
    }
    records = [partition.records for partition in partitions if partition.records is not None]
    names = ("null_key_count", "tombstone_count", "key_bytes", "value_bytes", "header_count")
    return row | {name: sum(getattr(summary, name) for summary in records) for name in names if records}


def _totals(segments: Sequence[SegmentSummary]) -> Row:
    names = ("batch_count", "record_count", "size_bytes", "missing_offset_count", "control_batch_count")
    return {
        **{name: sum(getattr(segment, name) for segment in segments) for name in names},
        "crc_error_count": sum(segment.crc_error_count for segment in segments),
        "problem_count": sum(len(segment.problems) for segment in segments),
        "min_timestamp_ms": _extreme(min, (segment.min_timestamp_ms for segment in segments)),
        "max_timestamp_ms": _extreme(max, (segment.max_timestamp_ms for segment in segments)),
    }


def _record_columns(records: RecordSummary) -> Row:
    return {
        "null_key_count": records.null_key_count,
        "distinct_key_count": records.distinct_key_count,
        "tombstone_count": records.tombstone_count,
        "key_bytes": records.key_bytes,
        "value_bytes": records.value_bytes,
        "header_count": records.header_count,
        "top_keys": [
            {"key": _text(top.key), "key_hex": top.key.hex(), "record_count": top.record_count}
            for top in records.top_keys
        ],
    }


def _text(key: bytes) -> str | None:
    try:
        return key.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _one_or_all(magics: tuple[int, ...]) -> int | list[int] | None:
    """The record format; all of them only where a file mixes them."""
    if not magics:
        return None
    return magics[0] if len(magics) == 1 else list(magics)


def _extreme(pick: Callable[[list[int]], int], values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return pick(known) if known else None
