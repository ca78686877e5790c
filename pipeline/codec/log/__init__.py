"""Kafka's log files: record batches, segments, indexes, checkpoints and snapshots."""
