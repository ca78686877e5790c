"""Recorded arrivals: what a producer session sent, record by record, as a replay takes it up."""

from __future__ import annotations

from pipeline.tables.columns import instant, number, text, whole
from pipeline.tables.table import BY_DATE, CLUSTER, RUN_ID, TOPIC, TOPIC_ID, WINDOW_DATE, WINDOW_START, Column, Table

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
        CLUSTER,
        WINDOW_DATE,
        WINDOW_START,
        TOPIC,
        TOPIC_ID,
        whole(
            "producer_id",
            "Producer id; -1: all producers without idempotence as one, for batches do not tell them apart.",
        ),
        whole(
            "producer_epoch",
            "Producer epoch; -1 for the pooled ones, and for transactional producers: all their epochs are one session, for newer clients raise it with every transaction.",
        ),
        instant(
            "minute_start",
            "Start of the UTC minute the records were created in; that may lie before the window, which is the one of their batch's newest record.",
        ),
        text(
            "timestamp_type",
            "`CreateTime`, or `LogAppendTime`: then all records of a batch have the instant of its append, and how they arrived is lost.",
        ),
        whole(
            "part",
            "0, and on from there where a minute has more than 1,048,576 records: parts follow each other in time.",
        ),
        whole(
            "record_count",
            "Data records, the length of the arrays; with `unreadable_record_count` they sum to those of `silver.partition_traffic`.",
            "records",
        ),
        whole(
            "unreadable_record_count",
            "Records of batches that could not be read, as the headers have it; they are not in the arrays.",
            "records",
        ),
        whole(
            "aborted_record_count",
            "Records of transactions that were aborted: they are in the arrays, for they were load.",
            "records",
        ),
        whole(
            "outlier_record_count",
            "Records without a timestamp, or with one more than 10 minutes before their batch's newest, or in a batch whose timestamp is out of line: they are placed at the record ahead of them in the batch, else at the batch's event time.",
            "records",
        ),
        whole(
            "late_record_count",
            "Records with a timestamp before that of the record ahead of them in the batch: one thread's clock would not give that.",
            "records",
        ),
        Column(
            name="gap_ms",
            type="array<int>",
            nullable=False,
            unit="ms",
            doc="By record in order of time: milliseconds after the one before; of the first, after `minute_start`. Within a millisecond the order is drawn from sizes and keys, never from the partition.",
        ),
        Column(
            name="body_bytes",
            type="array<int>",
            nullable=False,
            unit="bytes",
            doc="By record: bytes before compression, with offset and timestamp deltas of one byte each and without the length in front.",
        ),
        Column(
            name="partition",
            type="array<int>",
            nullable=False,
            doc="By record: where it was written. A replay of keyless records never reads it.",
        ),
        Column(
            name="key_index",
            type="array<int>",
            nullable=False,
            doc="By record: index into `keys` from 0; -1 a null key; where no key ids are stored -2 a key and -3 a key without bytes.",
        ),
        Column(
            name="keys",
            type="array<bigint>",
            nullable=False,
            doc="The row's distinct keys, rising: the first 16 hex digits of `key_id` in `silver.key_hashes`, as a signed number.",
        ),
        text(
            "count_kind",
            "`exact`, or `sampled`: records of a part of the window's time, or of some partitions, and no others.",
        ),
        number(
            "sampling_rate",
            "Part of the window's time whose batches were read, times the part of the partitions; 1 for all.",
            "ratio",
            nullable=False,
        ),
        RUN_ID,
    ),
)
