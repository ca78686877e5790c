"""The columns of traces."""

from __future__ import annotations

import pyarrow as pa

BATCH_TRACE = pa.schema(
    [
        pa.field("producer", pa.int32()),  # index in the scenario
        pa.field("partition", pa.int32()),  # counted over all topics
        pa.field("batch_number", pa.int64()),  # within the partition queue, by creation, from 0
        pa.field("created_at_ns", pa.int64()),
        pa.field("drained_at_ns", pa.int64()),  # the last time; -1 if it never was
        pa.field("done_at_ns", pa.int64()),
        pa.field("record_count", pa.int64()),
        pa.field("size_bytes", pa.int64()),  # as in the log
        pa.field("attempt_count", pa.int32()),  # times it was sent
        pa.field("is_failed", pa.bool_()),
    ]
)
"""A row for each batch, in the order they were done; of one moment, as handled."""

RECORD_TRACE = pa.schema(
    [
        pa.field("producer", pa.int32()),
        pa.field("thread", pa.int32()),  # counted over all producers
        pa.field("partition", pa.int32()),
        pa.field("batch_number", pa.int64()),
        pa.field("sent_at_ns", pa.int64()),  # before send()
        pa.field("done_at_ns", pa.int64()),
        pa.field("body_bytes", pa.int64()),
        pa.field("is_failed", pa.bool_()),
    ]
)
"""A row for each record that was put into a batch, in the order of its batch and place."""
