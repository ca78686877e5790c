"""Recorded arrivals: what a producer session sent, record by record, as a replay takes it up."""

from __future__ import annotations

from pipeline.tables.columns import bigint, double, string, timestamp
from pipeline.tables.table import BY_DATE, DATED_WINDOW, RUN_ID, TOPIC_COLUMNS, Column, Table

RECORDS_PER_ROW = 1 << 20
"""At most so many records a row: more of one minute go on in further parts."""

ARRIVALS = Table(
    name="silver.arrivals",
    grain="producer session x topic x minute x timestamp type x part, in the window of its batches",
    key=(
        *("cluster", "window_start", "topic", "topic_id", "producer_id", "producer_epoch"),
        *("minute_start", "timestamp_type", "part"),
    ),
    partitioned_by=BY_DATE,
    columns=(
        *DATED_WINDOW,
        *TOPIC_COLUMNS,
        bigint("producer_id", "Producer id; -1 for all producers without idempotence, which look alike in batches."),
        bigint("producer_epoch", "Producer epoch; -1 where pooled or transactional: all epochs are one session."),
        timestamp("minute_start", "UTC minute the records were created in; their batch's window may be later."),
        string(
            "timestamp_type",
            "`CreateTime`; with `LogAppendTime` all records of a batch have the time of its append: how they arrived is lost.",
        ),
        bigint("part", "0, 1, ... in order of time, where a minute has more than 1,048,576 records."),
        bigint(
            "record_count",
            "Data records, the length of the arrays; with `unreadable_record_count` as many as in `silver.partition_traffic`.",
            "records",
        ),
        bigint("unreadable_record_count", "Records of unreadable batches by header; not in the arrays.", "records"),
        bigint("aborted_record_count", "Records of aborted transactions; in the arrays, as they were load.", "records"),
        bigint(
            "outlier_record_count",
            "Records without a timestamp, or with one more than 10 minutes before their batch's newest, or in a batch whose timestamp is out of line: they are placed at the record ahead of them in the batch, else at the batch's event time.",
            "records",
        ),
        bigint(
            "late_record_count", "Records older than the one ahead in the batch: not one thread's clock.", "records"
        ),
        Column(
            "gap_ms",
            "array<int>",
            "By record in order of time: milliseconds after the one before; of the first, after `minute_start`. Within a millisecond the order is drawn from sizes and keys, never from the partition.",
            "ms",
            nullable=False,
        ),
        Column(
            "body_bytes",
            "array<int>",
            "By record: bytes before compression, with offset and timestamp deltas of one byte each and without the length in front.",
            "bytes",
            nullable=False,
        ),
        Column(
            "partition",
            "array<int>",
            "By record: where it was written; no replay of keyless records reads it.",
            nullable=False,
        ),
        Column(
            "key_index",
            "array<int>",
            "By record: index into `keys` from 0; -1 a null key; where no key ids are stored -2 a key and -3 an empty one.",
            nullable=False,
        ),
        Column(
            "keys",
            "array<bigint>",
            "The row's distinct keys, rising: the first 16 hex digits of `key_id` in `silver.key_hashes`, as a signed number.",
            nullable=False,
        ),
        string("count_kind", "`exact`, or `sampled`: only a part of the window's time or of the partitions."),
        double("sampling_rate", "Part of time read x part of partitions.", "ratio", nullable=False),
        RUN_ID,
    ),
)
