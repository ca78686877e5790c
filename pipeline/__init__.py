"""Partition health for Kafka: measures broker shares, says why one is hot, and alerts."""
