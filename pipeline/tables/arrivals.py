"""Recorded arrivals: what a producer session sent, record by record, as a replay takes it up."""

from __future__ import annotations

from pipeline.tables.table import CLUSTER, RUN_ID, TOPIC, TOPIC_ID, WINDOW_DATE, WINDOW_START, Column, Table

RECORDS_PER_ROW = 1 << 20
"""At most so many records a row: more of one minute go on in further parts."""

ARRIVALS = Table(
    name="silver.arrivals",
    grain="producer session x topic x minute x timestamp type x part, in the window of its batches",
    key=(
        *("cluster", "window_start", "topic", "topic_id", "producer_id", "producer_epoch"),
        *("minute_start", "timestamp_type", "part"),
    ),
    partitioned_by=("cluster", "window_date"),
    is_large=True,
    columns=(
        CLUSTER,
        WINDOW_DATE,
        WINDOW_START,
        TOPIC,
        TOPIC_ID,
        Column(
            name="producer_id",
            type="bigint",
            nullable=False,
            doc="Producer id; -1: all producers without idempotence as one, for batches do not tell them apart.",
        ),
        Column(
            name="producer_epoch",
            type="bigint",
            nullable=False,
            doc="Producer epoch; -1 for the pooled ones, and for transactional producers: all their epochs are one session, for newer clients raise it with every transaction.",
        ),
        Column(
            name="minute_start",
            type="timestamp",
            nullable=False,
            doc="Start of the UTC minute the records were created in; that may lie before the window, which is the one of their batch's newest record.",
        ),
        Column(
            name="timestamp_type",
            type="string",
            nullable=False,
            doc="`CreateTime`, or `LogAppendTime`: then all records of a batch have the instant of its append, and how they arrived is lost.",
        ),
        Column(
            name="part",
            type="bigint",
            nullable=False,
            doc="0, and on from there where a minute has more than 1,048,576 records: parts follow each other in time.",
        ),
        Column(
            name="record_count",
            type="bigint",
            nullable=False,
            unit="records",
            doc="Data records, the length of the arrays; with `unreadable_record_count` they sum to those of `silver.partition_traffic`.",
        ),
        Column(
            name="unreadable_record_count",
            type="bigint",
            nullable=False,
            unit="records",
            doc="Records of batches that could not be read, as the headers have it; they are not in the arrays.",
        ),
        Column(
            name="aborted_record_count",
            type="bigint",
            nullable=False,
            unit="records",
            doc="Records of transactions that were aborted: they are in the arrays, for they were load.",
        ),
        Column(
            name="outlier_record_count",
            type="bigint",
            nullable=False,
            unit="records",
            doc="Records without a timestamp, or with one more than 10 minutes before their batch's newest, or in a batch whose timestamp is out of line: they are placed at the record ahead of them in the batch, else at the batch's event time.",
        ),
        Column(
            name="late_record_count",
            type="bigint",
            nullable=False,
            unit="records",
            doc="Records with a timestamp before that of the record ahead of them in the batch: one thread's clock would not give that.",
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
        Column(
            name="count_kind",
            type="string",
            nullable=False,
            doc="`exact`, or `sampled`: records of a part of the window's time, or of some partitions, and no others.",
        ),
        Column(
            name="sampling_rate",
            type="double",
            nullable=False,
            unit="ratio",
            doc="Part of the window's time whose batches were read, times the part of the partitions; 1 for all.",
        ),
        RUN_ID,
    ),
)
