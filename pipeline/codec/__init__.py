"""Bytes and text to model and back: record batches, segments, indexes, checkpoints, cluster metadata, tool output."""
